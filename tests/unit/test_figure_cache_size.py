"""CacheSize: the page's bytes are those of the library's tensors."""

import pytest
import torch
from figure_page import choose, slider, status, told, unfold

from transformer_lib import DecoderOnly, ModelConfig
from transformer_lib.figures.widgets import CacheSize
from transformer_lib.figures.widgets.cache_size import SIZES
from transformer_lib.masks import causal_mask, local_mask

MODULE = "cache_size.js"
DTYPES = {"float32": torch.float32, "float16": torch.bfloat16, "int8": torch.int8}
OWN = [
    (1, 1, 1, 2),
    (3, 4, 2, 6),
    (5, 6, 1, 4),
    (2, 7, 7, 10),
    (32, 32, 8, 128),
    (126, 128, 8, 128),
]


@pytest.mark.parametrize("n_kv_heads", [1, 2, 6])
@pytest.mark.parametrize("precision", DTYPES)
def test_the_bytes_are_those_of_a_cache(js, n_kv_heads, precision):
    """Also without groups, and with windows, which keep what the next token may attend to."""
    sizes = {"n_layers": 3, "n_heads": 6, "n_kv_heads": n_kv_heads, "d_head": 4}
    config = ModelConfig(
        vocab_size=11, d_model=24, n_heads=6, n_kv_heads=n_kv_heads, n_layers=3, d_ff=5,
        positions="rotary",
    )  # fmt: skip
    model = DecoderOnly(config).eval()
    with torch.no_grad():
        state = model.start(torch.ones(5, 7, dtype=torch.int64))  # the prompt
        for _ in range(3):  # then token by token
            _, state = model.step(torch.ones(5, dtype=torch.int64), state)
    length = state.cache.length
    assert length > 7
    tensors = [t for layer in state.cache.layers for t in layer.self_attention.read()]
    found = sum(t.to(DTYPES[precision]).nbytes for t in tensors)
    state = {"length": length, "texts": 5, "window": 0, "precision": precision, **sizes}
    windows = [1, 4, length, length + 3]
    states = [state, state | {"n_kv_heads": 6}, *(state | {"window": w} for w in windows)]
    page = js(MODULE, "return given.all.map(m.cacheBytes);", all=states)
    assert page[:2] == [found, found * 6 // n_kv_heads]
    for window, bytes_kept in zip(windows, page[2:], strict=True):
        may = causal_mask(length) & local_mask(length, window=window - 1)
        assert bytes_kept == found * may[-1].sum() // length


@pytest.mark.parametrize("numbers", OWN)
def test_the_parameters_of_your_own_model_are_the_librarys(js, numbers):
    sizes = dict(zip(SIZES, numbers, strict=True))
    own = {name: sizes[name] for name in SIZES[:3]}
    d = sizes["n_heads"] * sizes["d_head"]
    config = ModelConfig.published("llama-2-7b", d_model=d, d_ff=7 * d // 2, **own)
    with torch.device("meta"):
        model = DecoderOnly(config)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert js(MODULE, "return m.parametersOf(given);", **sizes) == count


def test_sizes_have_a_suitable_unit(js):
    numbers = [4, 1023, 1024, 1536, 10_230, 102_360, 1_047_552, 2**20, 15.96 * 2**30, 2**40 * 1.5]
    found = js(MODULE, "return given.numbers.map(m.size);", numbers=numbers)
    assert [text.replace("\u00a0", " ") for text in found] == [
        "4 bytes", "1,023 bytes", "1.00 KiB", "1.50 KiB", "9.99 KiB", "100 KiB", "1,023 KiB",
        "1.00 MiB", "16.0 GiB", "1.50 TiB",
    ]  # fmt: skip


def bar(page, name):
    return page.locator(f".cs-bar[data-part={name}]").evaluate("(e) => e.getBBox().width")


@pytest.mark.slow
def test_groups_and_windows_divide_the_cache(show):
    page = show(CacheSize())
    first = "Llama 3 8B keeps 128 KiB per token, so 16.0 GiB, 1.1 times the "
    assert status(page).startswith(f"{first}parameters’ 15.0 GiB. Groups")
    assert bar(page, "plain") == pytest.approx(4 * bar(page, "cache"), rel=0.01)
    assert bar(page, "cache") / bar(page, "parameters") == pytest.approx(16 / 14.957, rel=0.01)

    unfold(page)
    choose(page, "Mistral 7B")
    slider(page, "tokens per text").press("End")
    window = slider(page, "window, in tokens")
    for _ in range(5):
        window.press("ArrowRight")
    assert told(page, "window") == 4096
    assert "The window divides it by 32." in status(page)
    assert bar(page, "cache") / bar(page, "parameters") == pytest.approx(8 / 13.489, rel=0.01)
    window.press("End")
    slider(page, "tokens per text").press("Home")
    assert "The window holds the whole text." in status(page)


@pytest.mark.slow
def test_your_own_model_starts_with_the_sizes_shown_before(show):
    page = show(CacheSize())
    unfold(page)
    heads, shared = (slider(page, name) for name in ("heads", "key-value heads"))
    assert shared.is_disabled()
    choose(page, "GPT-2")
    choose(page, "your own")
    assert told(page, *SIZES) == [12, 12, 12, 64]
    assert "Each head has its own keys and values." in status(page)
    shared.press("Home")
    assert "Groups divide the cache by 12." in status(page)
    for control, key, left in [
        (shared, "ArrowRight", 2),
        (shared, "ArrowRight", 4),
        (heads, "ArrowLeft", 4),  # 8, which 4 divides
        (heads, "Home", 1),
    ]:
        control.press(key)
        assert told(page, "n_kv_heads") == left
    choose(page, "4")
    assert "4\u00a0bytes" in page.locator(".cs-product").inner_text()
