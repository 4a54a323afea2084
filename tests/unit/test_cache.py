"""The cache: everything that was put in, in the order it was put in."""

import pytest
import torch

from transformer_lib import KVCache
from transformer_lib.cache import AttentionCache

B, H, D = 2, 3, 5


@pytest.mark.parametrize("sizes", [[1] * 40, [7, 1, 1, 30], [33]])
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


def test_what_was_read_before_stays_as_it_was() -> None:
    torch.manual_seed(0)
    cache = KVCache(n_layers=3)
    for layer in cache.layers:
        layer.self_attention.append(torch.randn(B, H, 7, D), torch.randn(B, H, 7, D))
        layer.cross_attention.append(torch.randn(B, H, 7, D), torch.randn(B, H, 7, D))
    views = [x for layer in cache.layers for x in layer.self_attention.read()]
    views += [x for layer in cache.layers for x in layer.cross_attention.read()]
    before = [view.clone() for view in views]
    for rows in ([1, 0], [1, 1, 0], [2, 0, 1]):
        cache.reorder(torch.tensor(rows))
        for layer in cache.layers:
            new = torch.randn(2, len(rows), H, 1, D)
            layer.self_attention.append(*new)
    assert all(view.equal(copy) for view, copy in zip(views, before, strict=True))


@pytest.mark.parametrize("prompt", [1, 100])
def test_what_comes_first_just_fits_and_then_a_token_copies_that_token_alone(prompt: int) -> None:
    cache = AttentionCache()
    first, one = torch.randn(B, H, prompt, D), torch.randn(B, H, 1, D)
    read, _ = cache.append(first, first)
    assert read.untyped_storage().nbytes() == first.nbytes  # a memory needs no room for more
    cache.append(one, one)
    before = [buffer.data_ptr() for buffer in cache.read()]
    for _ in range(prompt):
        cache.append(one, one)
    assert [buffer.data_ptr() for buffer in cache.read()] == before
