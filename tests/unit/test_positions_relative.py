"""ALiBi by its equation, and how exact Shaw's vectors are; `test_multihead.py` has theirs."""

import pytest
import torch

from transformer_lib.positions import RelativePositions, alibi_bias

H, T, S = 3, 5, 13


def distance(i: int, j: int, t: int = T, s: int = S) -> int:
    """From query i to key j, where the queries are the last t of s positions."""
    return j - (s - t + i)


# --- Shaw et al. ---------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not_lose_far_keys(dtype: torch.dtype, device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")  # whose atomic additions round each time; a CPU's do not
    relative = RelativePositions(d_head=1, max_distance=1).to(device, dtype)
    torch.nn.init.ones_(relative.value)
    # 4096 weights of 1/4096, all but two from far keys: a sum that bfloat16 cannot count to.
    weights = torch.full((1, 1, 1, 4096), 1 / 4096, dtype=dtype, device=device)
    assert relative.mix(weights).item() == 1
    assert relative.mix(weights).dtype is dtype
    query = torch.ones(1, 1, 1, 1, dtype=dtype, device=device)
    scores = relative.scores(query, 4096)
    assert scores.dtype is torch.float32
    scores.sum().backward()
    assert relative.key.grad is not None
    assert relative.key.grad.flatten().tolist() == pytest.approx([4095, 1, 0], rel=0.01)


def test_vectors_are_never_written_down_per_pair() -> None:
    # B·H·T·S·d_head numbers would be 32 times as many as the scores themselves.
    relative, query = RelativePositions(d_head=32), torch.randn(1, 2, 61, 32)
    with torch.profiler.profile(profile_memory=True) as profile:
        relative.mix(relative.scores(query, 67))
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert 0 < largest <= 2 * 8 * 61 * 67


# --- ALiBi ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_heads", [1, 7, 8, 112])
def test_slopes_are_those_of_bloom(n_heads: int) -> None:
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    theirs = bloom.build_alibi_tensor(torch.ones(1, 2), n_heads, torch.float32)[:, 0, 1]
    torch.testing.assert_close(-alibi_bias(n_heads, 2)[:, 1, 0], theirs)


def test_a_penalty_grows_with_the_distance() -> None:
    found = alibi_bias(H, T, S)
    assert found.shape == (H, T, S) and found.dtype is torch.float32
    # 3 heads: the two slopes of 2 heads, then the first of 4.
    for h, slope in enumerate((2**-4, 2**-8, 2**-2)):
        for i in range(T):
            for j in range(S):
                assert found[h, i, j].item() == -slope * abs(distance(i, j))
    assert found.equal(alibi_bias(H, S)[:, -T:])
    assert alibi_bias(H, 0).shape == (H, 0, 0)
