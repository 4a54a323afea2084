"""CacheSize: the page's bytes are those of the library's tensors."""

import itertools

import pytest
import torch
from figure_page import SETTLE, status

from transformer_lib import DecoderOnly, ModelConfig
from transformer_lib.figures.widgets import ArchitectureExplorer, CacheSize
from transformer_lib.figures.widgets.cache_size import DECODERS, SIZES
from transformer_lib.masks import causal_mask, local_mask

MODULE = "cache_size.js"
DTYPES = {"float32": torch.float32, "float16": torch.bfloat16, "int8": torch.int8}
BYTES = "return given.all.map(m.cacheBytes);"
OWN = [
    (1, 1, 1, 2),
    (3, 4, 2, 6),
    (5, 6, 1, 4),
    (2, 7, 7, 10),
    (32, 32, 8, 128),
    (126, 128, 8, 128),
]
USES = [(1, 1, 0), (8192, 16, 0), (131_072, 256, 4096), (300, 3, 300), (301, 3, 300), (17, 2, 64)]
STATES = [
    {"length": length, "texts": texts, "window": window, "precision": precision, **sizes}
    for (length, texts, window), precision, sizes in itertools.product(
        USES, DTYPES, [CacheSize().cards[name]["sizes"] for name in DECODERS]
        + [dict(zip(SIZES, numbers, strict=True)) for numbers in OWN]
    )
]  # fmt: skip


def tensors_of(cache):
    return [t for layer in cache.layers for t in layer.self_attention.read()]


@pytest.mark.parametrize("n_kv_heads", [1, 2, 6])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_the_bytes_are_those_of_a_cache(js, n_kv_heads, precision):
    sizes = {"n_layers": 3, "n_heads": 6, "n_kv_heads": n_kv_heads, "d_head": 4}
    config = ModelConfig(
        vocab_size=11, d_model=24, n_heads=6, n_kv_heads=n_kv_heads, n_layers=3, d_ff=5,
        positions="rotary",
    )  # fmt: skip
    model = DecoderOnly(config).to(DTYPES[precision]).eval()
    with torch.no_grad():
        state = model.start(torch.ones(5, 7, dtype=torch.int64))  # the prompt
        for _ in range(3):  # then token by token
            _, state = model.step(torch.ones(5, dtype=torch.int64), state)
    length = state.cache.length
    assert length > 7
    found = sum(t.numel() * t.element_size() for t in tensors_of(state.cache))
    state = {"length": length, "texts": 5, "window": 0, "precision": precision, **sizes}
    page = js(MODULE, BYTES, all=[state, state | {"n_kv_heads": 6}])
    assert page == [found, found * 6 // n_kv_heads]


@pytest.mark.parametrize(("length", "window"), [(9, 4), (9, 9), (3, 5), (1, 1)])
def test_a_window_keeps_the_keys_that_the_next_token_may_attend_to(js, length, window):
    may = causal_mask(length) & local_mask(length, window=window - 1)
    kept = may[-1].sum().item()
    assert js(MODULE, "return m.keptOf(given);", length=length, window=window) == kept


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


@pytest.mark.parametrize("name", DECODERS)
def test_published_models_agree_with_the_architecture_explorer(name):
    card = CacheSize().cards[name]
    assert f": {card['parameters']:,} parameters" in ArchitectureExplorer().cards[name]["says"]
    config = ModelConfig.published(name)
    sizes = card["sizes"]
    assert (sizes["n_layers"], sizes["n_heads"]) == (config.n_layers, config.n_heads)
    assert sizes["n_heads"] * sizes["d_head"] == config.d_model
    assert sizes["n_kv_heads"] == (config.n_kv_heads or config.n_heads)


def test_the_bytes_are_those_of_keys_and_values_in_every_state(js):
    for state, page in zip(STATES, js(MODULE, BYTES, all=STATES), strict=True):
        kept = min(state["length"], state["window"] or state["length"])
        shape = (2, state["texts"], kept, *(state[name] for name in SIZES if name != "n_heads"))
        assert page == torch.empty(shape, dtype=DTYPES[state["precision"]], device="meta").nbytes


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
    page = show(CacheSize(), viewport={"width": 760, "height": 900})
    page.evaluate(SETTLE)
    first = "Llama 3 8B keeps 128 KiB per token, so 16.0 GiB, 1.1 times the "
    assert status(page).replace("\u00a0", " ").startswith(f"{first}parameters’ 15.0 GiB. Groups")
    assert bar(page, "plain") == pytest.approx(4 * bar(page, "cache"), rel=0.01)
    assert bar(page, "cache") / bar(page, "parameters") == pytest.approx(16 / 14.957, rel=0.01)

    page.get_by_text("More", exact=True).click()
    page.get_by_role("radio", name="Mistral 7B").check()
    page.get_by_role("slider", name="tokens per text").press("End")
    window = page.get_by_role("slider", name="window, in tokens")
    for _ in range(5):
        window.press("ArrowRight")
    assert page.evaluate("models[0].get('window')") == 4096
    assert "The window divides it by 32." in status(page)
    assert bar(page, "cache") / bar(page, "parameters") == pytest.approx(8 / 13.489, rel=0.01)
    window.press("End")
    page.get_by_role("slider", name="tokens per text").press("Home")
    assert "The window holds the whole text." in status(page)


@pytest.mark.slow
def test_your_own_model_starts_with_the_sizes_shown_before(show):
    page = show(CacheSize(), viewport={"width": 390, "height": 900}, has_touch=True)
    page.get_by_text("More", exact=True).click()
    shared = page.get_by_role("slider", name="key-value heads")
    assert shared.is_disabled()
    page.locator("label", has_text="GPT-2").tap()
    page.locator("label", has_text="your own").tap()
    sizes = [page.evaluate(f"models[0].get('{name}')") for name in SIZES]
    assert sizes == [12, 12, 12, 64]
    assert "Each head has its own keys and values." in status(page)
    shared.press("Home")
    assert "Groups divide the cache by 12." in status(page)
    shared.press("ArrowRight")
    shared.press("ArrowRight")
    assert page.evaluate("models[0].get('n_kv_heads')") == 4
    page.get_by_role("slider", name="heads", exact=True).press("ArrowLeft")  # 8, which 4 divides
    assert page.evaluate("models[0].get('n_kv_heads')") == 4
    page.get_by_role("slider", name="heads", exact=True).press("Home")
    assert page.evaluate("models[0].get('n_kv_heads')") == 1
    page.get_by_role("radio", name="4", exact=True).check()
    assert "4\u00a0bytes" in page.locator(".cs-product").inner_text()
    page.get_by_role("button", name="Reset").tap()
    assert status(page).startswith("Llama 3 8B")
    assert page.evaluate("models[0].get('n_heads')") == 32
