"""Relative positions: Shaw's vectors, T5's and ALiBi's numbers, each against its equation."""

import pytest
import torch

from transformer_lib.positions import (
    RelativePositionBias,
    RelativePositions,
    alibi_bias,
)

B, H, T, S, D, K = 2, 3, 5, 13, 7, 4


def distance(i: int, j: int, t: int = T, s: int = S) -> int:
    """From query i to key j, where the queries are the last t of s positions."""
    return j - (s - t + i)


# --- Shaw et al. ---------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, K, 20])
def test_vectors_for_distances_by_the_equation(k: int) -> None:
    relative = RelativePositions(d_head=D, max_distance=k).double()
    query = torch.randn(B, H, T, D, dtype=torch.float64)
    weights = torch.rand(B, H, T, S, dtype=torch.float64)
    scores, mixed = relative.scores(query, S), relative.mix(weights)
    assert scores.shape == (B, H, T, S) and mixed.shape == (B, H, T, D)
    for i in range(T):
        row = [max(-k, min(k, distance(i, j))) + k for j in range(S)]
        for j in range(S):
            expected = (query[:, :, i] * relative.key[row[j]]).sum(dim=-1)
            torch.testing.assert_close(scores[:, :, i, j], expected)
        expected = sum(weights[:, :, i, j, None] * relative.value[row[j]] for j in range(S))
        torch.testing.assert_close(mixed[:, :, i], expected)


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


@pytest.mark.parametrize("name", ["key", "value"])
def test_vectors_start_small(name: str) -> None:
    vectors = RelativePositions(d_head=64, max_distance=64).get_parameter(name)
    assert vectors.std().item() == pytest.approx(0.02, rel=0.05)


def test_vectors_are_never_written_down_per_pair() -> None:
    # B·H·T·S·d_head numbers would be 32 times as many as the scores themselves.
    relative, query = RelativePositions(d_head=32), torch.randn(1, 2, 61, 32)
    with torch.profiler.profile(profile_memory=True) as profile:
        relative.mix(relative.scores(query, 67))
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert 0 < largest <= 2 * 8 * 61 * 67


# --- T5 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_those_of_t5(bidirectional: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    every = torch.arange(-300, 301)
    theirs = t5.T5Attention._relative_position_bucket(every, bidirectional)
    assert RelativePositionBias(n_heads=1, bidirectional=bidirectional).bucket(every).equal(theirs)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("t", "s"), [(T, S), (S, S), (1, S), (1, 1)])
def test_a_number_per_bucket_and_head(bidirectional: bool, t: int, s: int) -> None:
    bias = RelativePositionBias(n_heads=H, bidirectional=bidirectional)
    found = bias(t, s)
    assert found.shape == (H, t, s)
    for i in range(t):
        for j in range(s):
            bucket = bias.bucket(torch.tensor(distance(i, j, t, s)))
            assert found[:, i, j].equal(bias.table[bucket])


def test_no_queries_no_bias() -> None:
    bias = RelativePositionBias(n_heads=H, bidirectional=True)
    assert bias(0, S).shape == (H, 0, S)
    assert bias(0, 0).shape == (H, 0, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_reach_every_bucket(dtype: torch.dtype) -> None:
    bias = RelativePositionBias(n_heads=2, bidirectional=True).to(dtype)
    found = bias(1000, 1000)
    assert found.dtype is torch.float32
    found.sum().backward()
    every = torch.arange(1000)
    buckets = bias.bucket(every - every[:, None]).flatten()
    count = torch.bincount(buckets, minlength=32).to(dtype)
    assert bias.table.grad is not None
    # Bucket 16 would be distance 0 to the right, and 15 and 31 hold nearly all there is.
    assert bias.table.grad.equal(count[:, None].expand(32, 2))
    assert count[16] == 0 and (count > 0).sum() == 31


def test_numbers_start_small() -> None:
    table = RelativePositionBias(n_heads=256, bidirectional=True).table
    assert table.std().item() == pytest.approx(0.02, rel=0.05)


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


# --- errors --------------------------------------------------------------------------------------

SHAW = RelativePositions(d_head=4, max_distance=2)
T5 = RelativePositionBias(n_heads=3, bidirectional=True)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: RelativePositions(d_head=4, max_distance=0), ValueError, "max_distance.*got 0"),
        (lambda: RelativePositions(d_head=4, max_distance=2.5), TypeError, "max_distance.*2.5"),  # pyright: ignore
        (lambda: SHAW.scores(torch.zeros(1, 2, 3, 5), 7), ValueError, r"query.*\(1, 2, 3, 5\)"),
        (lambda: SHAW.scores(torch.zeros(1, 2, 3, 4).long(), 7), TypeError, "query.*int64"),
        (lambda: SHAW.scores(torch.zeros(1, 2, 3, 4), 2), ValueError, r"s \(2\).*query \(3\)"),
        (lambda: SHAW.scores(torch.zeros(1, 2, 3, 4), "7"), TypeError, "s must be.*'7'"),  # pyright: ignore
        (lambda: SHAW.mix(torch.zeros(1, 2, 3, 2)), ValueError, "weights.*as many keys.*2 and 3"),
        (lambda: SHAW.mix(torch.zeros(2, 3, 7)), ValueError, r"weights.*\(2, 3, 7\)"),
        (lambda: RelativePositionBias(n_heads=2, bidirectional=1), TypeError, "bidirectional.*1"),  # pyright: ignore
        (lambda: T5.bucket(torch.zeros(2)), TypeError, "distance.*float32"),
        (lambda: T5(3, 2), ValueError, r"s \(2\) must be at least t \(3\)"),
        (lambda: T5(1.0, 2), TypeError, "t must be.*got 1.0"),  # pyright: ignore
        (lambda: alibi_bias(2.0, 2), TypeError, "n_heads.*got 2.0"),  # pyright: ignore
        (lambda: alibi_bias(2, 3, 2), ValueError, r"s \(2\) must be at least t \(3\)"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call, error, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
