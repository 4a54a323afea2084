"""The cache: everything that was put in, in the order it was put in."""

import pytest
import torch

from transformer_lib import KVCache
from transformer_lib.cache import AttentionCache

B, H, D = 2, 3, 5


@pytest.mark.parametrize("sizes", [[1] * 40, [7, 1, 1, 30], [1, 16, 1], [17, 1], [33]])
def test_append_is_concatenation(sizes: list[int]) -> None:
    torch.manual_seed(0)
    cache = AttentionCache()
    keys = [torch.randn(B, H, n, D) for n in sizes]
    values = [torch.randn(B, H, n, D) for n in sizes]
    for i, (key, value) in enumerate(zip(keys, values, strict=True), start=1):
        got = cache.append(key, value)
        for found, parts in zip(got, (keys, values), strict=True):
            torch.testing.assert_close(found, torch.cat(parts[:i], dim=-2), rtol=0, atol=0)
    assert cache.length == sum(sizes)
    assert cache.read()[0].equal(torch.cat(keys, dim=-2))


def test_reorder_gathers_rows_and_appending_goes_on() -> None:
    torch.manual_seed(0)
    cache = KVCache(n_layers=2)
    key, value = torch.randn(B, H, 3, D), torch.randn(B, H, 3, D)
    for layer in cache.layers:
        layer.self_attention.append(key, value)
        layer.cross_attention.append(value, key)
    assert cache.length == 3
    index = torch.tensor([1, 0, 1])  # rows swap, and one has two children
    cache.reorder(index)
    more = torch.randn(3, H, 1, D)
    for layer in cache.layers:
        assert layer.self_attention.read()[0].equal(key[index])
        assert layer.cross_attention.read()[1].equal(key[index])
        keys, values = layer.self_attention.append(more, more)
        assert keys.equal(torch.cat((key[index], more), dim=-2))
        assert values.equal(torch.cat((value[index], more), dim=-2))
    assert cache.length == 4


def test_layers_do_not_share() -> None:
    cache = KVCache(n_layers=2)
    cache.layers[1].self_attention.append(torch.ones(B, H, 3, D), torch.ones(B, H, 3, D))
    assert cache.length == 0


def test_errors() -> None:
    with pytest.raises(ValueError, match="n_layers must be at least 1, got 0"):
        KVCache(n_layers=0)
    with pytest.raises(ValueError, match="cache is empty"):
        AttentionCache().read()
    with pytest.raises(ValueError, match=r"index must be integers.*float32"):
        KVCache(n_layers=1).reorder(torch.ones(2))
    with pytest.raises(ValueError, match=r"index must be integers.*\(1, 2\)"):
        KVCache(n_layers=1).reorder(torch.ones(1, 2).long())
