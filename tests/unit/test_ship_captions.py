"""The translator of captions: from a run to the files of a page, and what becomes of text there."""

import html
import io
import json
import random
import re
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from unicodedata import category

import pytest
import torch
from caption_run import ROOT, invented
from figure_page import PUBLISHED, SETTLE
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import docutils_namespace

from transformer_lib import ModelConfig, Transformer, beam_search
from transformer_lib.data import Tokenizer
from transformer_lib.decoding import greedy
from transformer_lib.figures.engine import FOLDER
from transformer_lib.figures.widgets import LiveTranslator
from transformer_lib.pretrained.rounding import from_int8, to_int8
from transformer_lib.recipes import TASKS
from transformer_lib.runs import Run
from transformer_lib.texts import translate

FRONT = str(FOLDER / "translator.js")
TEXTS = [english for english, _ in invented("val")]
ODD = ["A man sees 😀.", "日本語", "a girl’s hat", "  two   dogs\t!", "Straße", "x" * 60, "'s"]


@pytest.fixture(scope="module")
def run(caption_run):
    return Run.load(caption_run, device="cpu")


@pytest.fixture(scope="module")
def rounded(run):
    """The run's model with the weights that the page has."""
    model = Transformer(run.model.config)
    model.load_state_dict(from_int8(to_int8(run.model.state_dict())))
    return model.eval()


# ---- the tokenizer


def odd_texts():
    """Texts with all that a byte-pair encoding parts by: spaces, endings, letters of all kinds."""
    draw = random.Random(1)
    signs = [*"ab cdeföß ÄÖ'’.,!?-_0123\"()\t\n", "\u00a0", "\u2009", "\u3000", "\u0085", "\ufeff"]
    signs += ["\u200d", "😀", "日", "e\u0301", "½", "Ⅷ", "٣", "'s", "'ll", " is", " Mann", "'re"]
    signs += ["<eos>", "\u1680", "\u180e", "\u0345", "ª", "\U0001d7d8", "ǅ", "\x1c", "\x00", "\xad"]
    yield from ["", " ", "  ", "a", " lead", "trail ", "a  b", "it's It'S they'll ''s", "ß" * 40]
    for _ in range(800):
        yield "".join(draw.choice(signs) for _ in range(draw.randint(1, 14)))
    ranges = [(32, 0x250), (0x20, 0x3000), (0xA000, 0xD7FF), (0xE000, 0x10FFFF)]
    for _ in range(400):
        yield "".join(chr(draw.randrange(*draw.choice(ranges))) for _ in range(draw.randint(1, 8)))


@pytest.mark.parametrize("own", [True, False])
def test_the_page_cuts_as_the_library_does(js, run, ship_captions, own):
    texts = [*odd_texts(), *(text for pair in invented("train") for text in pair), *TEXTS, *ODD]
    body = """const pairs = new m.BytePairs(given.tokenizer);
    return given.texts.map((text) => pairs.cut(text));"""
    # The second has merged endings, digits and signs: its pieces show wrong parts.
    parts = "they'll we've I'm he'd you're it's don't 42 42. ßä ;; !? ä42 " * 3
    tokenizer = run.tokenizer if own else Tokenizer.train_bpe([parts, *TEXTS], vocab_size=360)
    cuts = js(FRONT, body, tokenizer=ship_captions.byte_pairs(tokenizer), texts=texts)
    wanted = [tokenizer.encode(text) for text in texts]
    assert [[piece["id"] for piece in pieces] for pieces in cuts] == wanted
    assert [[piece["text"] for piece in pieces] for pieces in cuts] == list(
        map(tokenizer.tokens, wanted)
    )
    assert any("�" in piece["text"] for pieces in cuts for piece in pieces)  # a byte by itself
    assert max(map(len, tokenizer.tokens(tokenizer.encode("".join(TEXTS))))) > 3  # and whole words


def test_the_page_joins_as_the_library_does(js, run, ship_captions):
    draw = random.Random(2)
    size = run.tokenizer.vocab_size
    rows = [[draw.randrange(size) for _ in range(draw.randint(0, 12))] for _ in range(600)]
    rows += [[*run.tokenizer.encode(text), 2, 9] for text in [*TEXTS, *ODD]]
    body = """const pairs = new m.BytePairs(given.tokenizer);
    return given.rows.map((row) => [pairs.joined(row), row.map((id) => pairs.shown(id))]);"""
    found = js(FRONT, body, tokenizer=ship_captions.byte_pairs(run.tokenizer), rows=rows)
    assert [text for text, _ in found] == [run.tokenizer.decode(row) for row in rows]
    assert [pieces for _, pieces in found] == [run.tokenizer.tokens(row) for row in rows]


def test_the_page_knows_the_words_that_the_model_has_never_read(js, run, ship_captions):
    unseen = (text for text in odd_texts() if not any(category(sign)[0] == "C" for sign in text))
    texts = [*unseen, *TEXTS, *ODD, "The dogs, the dogs", "a_b 42 43"]
    body = """const pairs = new m.BytePairs(given.tokenizer);
    return given.texts.map((text) => pairs.unseen(text));"""
    tokenizer = ship_captions.byte_pairs(run.tokenizer, run.words)
    found = js(FRONT, body, tokenizer=tokenizer, texts=texts)
    assert found == [run.unseen([text]) for text in texts]
    assert found[-2:] == [["The", ","], ["a_b", "43"]]


def test_what_someone_types_fits_into_the_places_for_pieces(js):
    body = """const slot = new m.Captions({});
    return given.texts.map((text) => slot.tidy(text));"""
    texts = ["A man’s  dog: 50 %\u0007\u200b", "😀" * 90, "ß" * 90, "w" * 300, "日本語 \ud83d"]
    short, *long, last = js(FRONT, body, texts=texts)
    assert short == "A man’s  dog: 50 %"
    assert [len(text.encode()) for text in long] == [108, 110, 100]
    assert last == "日本語 "


# ---- the files


def test_the_folder_holds_what_a_page_loads_and_a_notice(caption_folder, ship_captions, run):
    assert sorted(path.name for path in caption_folder.iterdir()) == ["NOTICE.txt", "captions.json"]
    found = json.loads((caption_folder / "captions.json").read_bytes())
    assert found.keys() == {"config", "weights", "tokenizer"}
    assert found["config"]["n_layers"] == 3
    assert len(found["tokenizer"]["pieces"]) == run.tokenizer.vocab_size
    notice = (caption_folder / "NOTICE.txt").read_text(encoding="utf-8")
    record = caption_folder.parent / "results/captions-shipped/measured.json"
    scores = json.loads(record.read_bytes())
    said = [f"{scores[name][f'bleu_in_{bits}_bits']:.1f}"
            for name in ("greedy", "beam_of_4") for bits in (8, 32)]  # fmt: skip
    assert re.findall(r"\d+\.\d", notice) == said
    counts = [str(scores[name]["translated_otherwise"]) for name in ("greedy", "beam_of_4")]
    assert re.findall(r"(\d+)(?: of the translations)? differ", notice) == counts
    for word in ("Multi30k", "Flickr30k", "lent for research use", "On 8 captions"):
        assert word in notice


def test_the_record_says_what_rounding_costs(caption_folder, caption_run, run, rounded):
    found = json.loads(
        (caption_folder.parent / "results/captions-shipped/measured.json").read_bytes()
    )
    content = (caption_folder / "captions.json").read_bytes()
    assert found["bytes"] == len(content) < 4_000_000
    assert found["command"].endswith("runs/invented --output captions")
    assert found["parameters"] == sum(p.numel() for p in run.model.parameters())
    assert (found["split"], found["captions"]) == ("val", len(TEXTS))
    searches = {"greedy": greedy, "beam_of_4": partial(beam_search, beam_size=4)}
    references = [german for _, german in invented("val")]
    for name, search in searches.items():
        said = [translate(m, run.tokenizer, TEXTS, decode=search) for m in (run.model, rounded)]
        exact, eight = (TASKS["multi30k"].score(each, references).value for each in said)
        assert found[name]["bleu_in_32_bits"] == pytest.approx(exact)
        assert found[name]["bleu_in_8_bits"] == pytest.approx(eight)
        assert found[name]["lost"] == pytest.approx(exact - eight)
        changed = sum(a != b for a, b in zip(*said, strict=True))
        assert found[name]["translated_otherwise"] == changed


def test_what_the_page_could_not_show_is_refused(
    run, ship_captions, caption_run, tmp_path, monkeypatch
):
    def refuses(match, **changes):
        with pytest.raises(ValueError, match=match):
            ship_captions.check(replace(run, **changes))

    def model(**settings):
        return SimpleNamespace(config=replace(run.model.config, **settings))

    ship_captions.check(run)
    refuses("must be of the task 'multi30k': cased text; got 'copy'", task="copy")
    refuses("activation must be one of .*got 'gelu'", model=model(activation="gelu"))
    refuses("n_heads must be one of .*got 16", model=model(n_heads=16))
    refuses("max_len must be at least 112; got 64", model=model(max_len=64))
    refuses("keeps no words.txt", words=None)
    with pytest.raises(ValueError, match="must be a byte-pair encoding"):
        ship_captions.byte_pairs(Tokenizer.characters(["ab"]))
    monkeypatch.setattr(ship_captions, "MOST_BYTES", 9_000)
    with pytest.raises(ValueError, match="bytes, more than 9,000"):
        ship_captions.ship(caption_run, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()


def test_the_engine_computes_what_the_tool_lets_through(js, ship_captions):
    """Each setting that the tool knows is one that the page's engine knows, too."""
    text = (FOLDER / "transformer.js").read_text(encoding="utf-8")
    for name, values in ship_captions.KNOWN.items():
        if name == "n_heads":
            continue
        line = text[text.index(f"{name}: [") :].partition("]")[0]
        told = json.loads(line.partition(": ")[2] + "]")
        assert set(values) == set(told), name
    assert ModelConfig(vocab_size=300).n_heads in ship_captions.KNOWN["n_heads"]


# ---- what it writes


def written(model, tokenizer, text, beam=1):
    """What the library writes, of at most as many pieces as the page does."""
    source = torch.tensor([tokenizer.encode(text)])
    if beam == 1:
        return tokenizer.decode(greedy(model, source, max_len=44).ids[0].tolist())
    return tokenizer.decode(
        beam_search(model, source, max_len=44, beam_size=beam).ids[0, 0].tolist()
    )


@pytest.mark.parametrize("beam", [1, 4])
def test_the_page_writes_as_the_library_does(js, caption_folder, run, rounded, beam):
    body = """const translator = new m.Translator(given.text);
    return given.texts.map((text) => {
      const source = translator.tokenizer.cut(text).map(({ id }) => id);
      const said = [...translator.write(source, { most: 44, beam: given.beam })].filter(Boolean);
      const german = translator.tokenizer.joined(said.map(({ id }) => id));
      return [german, said.map(({ heads }) => heads.length)];
    });"""
    text = (caption_folder / "captions.json").read_text(encoding="utf-8")
    texts = [*TEXTS, *(odd.strip() for odd in ODD)]
    wanted = [written(rounded, run.tokenizer, each, beam) for each in texts]
    found = js(FRONT, body, text=text, texts=texts, beam=beam)
    assert [said for said, _ in found] == wanted
    assert {count for _, counts in found for count in counts} == {12}
    assert set(wanted) & {german for _, german in invented("val")}  # it has learned something


# ---- in a page


PAGE = """# A page

```{live-figure} chapters/translator.ipynb LiveTranslator
:alt: A translator
```
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """build(setting) -> the folder of a small site of one page, built with this setting."""
    folder = tmp_path_factory.mktemp("book")
    (folder / "index.md").write_text(PAGE)
    (folder / "other.md").write_text("---\norphan: true\n---\n# Another\n\nNo figure.\n")
    for name in ("chapters", "transformer_lib"):
        (folder / name).symlink_to(ROOT / name)

    def build(setting=""):
        with pytest.MonkeyPatch.context() as patch, docutils_namespace():
            patch.syspath_prepend(str(ROOT / "_ext"))
            settings = {
                "extensions": ["myst_nb", "live_figures", "models"],
                "nb_execution_mode": "off",
                "exclude_patterns": ["chapters", "transformer_lib"],
                "html_theme": "basic",
                "caption_translator": setting,
            }
            warnings = io.StringIO()
            site = folder / "site"
            app = Sphinx(folder, None, site, folder / "trees", "html", settings, None, warnings)
            app.build()
            assert app.statuscode == 0
            assert "WARNING" not in warnings.getvalue(), warnings.getvalue()
        return site

    return build


def models(site):
    return {path.name for path in (site / "_static/models").iterdir()}


TOLD = "dataset.captions = "
NUMBERS = {f"number-words-{number}.js" for number in range(6)}


def test_no_build_has_it_until_the_setting_names_it(build, caption_folder):
    """On, off again and on in one folder, as an owner may turn it."""
    site = build()
    assert models(site) == NUMBERS
    assert TOLD not in (site / "index.html").read_text(encoding="utf-8")

    build(str(caption_folder))
    parts = models(site) - NUMBERS
    assert "captions-0.js" in parts and "captions-NOTICE.txt" in parts
    notice = (site / "_static/models/captions-NOTICE.txt").read_text(encoding="utf-8")
    assert notice == (caption_folder / "NOTICE.txt").read_text(encoding="utf-8")
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "lent for research use" in page
    assert "lent for research use" not in (site / "other.html").read_text(encoding="utf-8")
    count = len(parts) - 1
    text = "".join(part_of(site, f"captions-{number}.js") for number in range(count))
    assert text == (caption_folder / "captions.json").read_text(encoding="utf-8")
    told = re.search(r'dataset\.captions = ("(?:[^"\\]|\\.)*");', page)[1]
    about = json.loads(json.loads(told))
    assert (about["parts"], about["layers"], about["heads"]) == (count, 3, 4)
    size = sum(
        (site / "_static/models" / name).stat().st_size for name in parts if "NOT" not in name
    )
    assert about["megabytes"] == f"{size / 1e6:.1f}"

    build()
    assert models(site) == NUMBERS
    assert TOLD not in (site / "index.html").read_text(encoding="utf-8")


def part_of(site, name):
    script = (site / "_static/models" / name).read_text(encoding="utf-8")
    return json.loads(script.partition(" = ")[2].strip().removesuffix(";"))


def test_a_folder_that_is_not_there_stops_the_build(build, tmp_path):
    with pytest.raises(ExtensionError, match=r"caption_translator in _config.yml is .*ship_capt"):
        build(str(tmp_path / "nowhere"))


def test_the_book_s_own_setting_is_off():
    lines = (ROOT / "_config.yml").read_text(encoding="utf-8").splitlines()
    (setting,) = [line.strip() for line in lines if "caption_translator:" in line]
    assert setting == 'caption_translator: ""'


@pytest.mark.slow
def test_a_reader_has_a_caption_translated(build, caption_folder, browser, run, rounded):
    page = browser.new_page(viewport={"width": 760, "height": 1200}, reduced_motion="reduce")
    errors, asked = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((build(str(caption_folder)) / "index.html").as_uri())
    status = page.locator(".lf-status")
    note = page.get_by_text("lent for research use", exact=False).locator("visible=true")
    other = page.get_by_text("The weights come with this book").locator("visible=true")
    page.get_by_role("radio", name="captions").check()
    assert "Load the translator, and it translates “Two dogs are" in status.inner_text()
    assert (note.count(), other.count()) == (1, 0)
    assert page.locator(".tr-examples:visible").count() == 1
    assert not [url for url in asked if "captions" in url]
    page.locator(".tr-text").fill(TEXTS[0])
    page.get_by_role("button", name="Load the translator").click()
    wanted = written(rounded, run.tokenizer, TEXTS[0])
    page.locator(".lf-status", has_text=f"It writes “{wanted}”").wait_for()
    shown = page.locator(".tr-english li:visible b").all_inner_texts()
    assert shown == run.tokenizer.tokens(run.tokenizer.encode(TEXTS[0]))
    assert "nothing here checks it. Piece 1," in status.inner_text()
    page.locator(".tr-text").fill("Asdf sees qwertz!")
    wanted = written(rounded, run.tokenizer, "Asdf sees qwertz!")
    stop = "" if wanted[-1:] in (".", "!", "?") else "."
    odd = f"It writes “{wanted}”{stop} “Asdf” and 2 more never stood in its training. Above are the"
    page.locator(".lf-status", has_text=odd).wait_for()
    shown = page.locator(".tr-english li:visible b").all_inner_texts()
    assert shown == run.tokenizer.tokens(run.tokenizer.encode("Asdf sees qwertz!"))
    page.locator(".tr-text").fill(TEXTS[0])
    wanted = written(rounded, run.tokenizer, TEXTS[0])
    page.locator(".lf-status", has_text=f"It writes “{wanted}”").wait_for()
    page.get_by_role("radio", name="3", exact=True).check()  # layers 3 to 4, of which 3 is there
    page.get_by_role("radio", name="layer 3, head 2").check()
    assert "head 2 of layer 3 looks most" in status.inner_text()
    page.get_by_role("radio", name="numbers").check()
    assert (note.count(), other.count()) == (0, 1)
    assert errors == []
    page.close()


@pytest.fixture
def page_with_captions(show, caption_folder, tmp_path, monkeypatch):
    """page_with_captions(**options) -> a page with the figure, and the model's files beside it."""
    monkeypatch.syspath_prepend(str(ROOT / "_ext"))
    module = import_module("models")
    config = SimpleNamespace(caption_translator=str(caption_folder))
    app = SimpleNamespace(config=config, srcdir=str(ROOT))
    about, parts = module.captions(app)
    folder = tmp_path / "_static/models"
    folder.mkdir(parents=True)
    for number, script in enumerate(parts):
        (folder / f"captions-{number}.js").write_text(script, encoding="utf-8")
    told = html.escape(json.dumps(about), quote=True)

    def open_page(**options):
        return show(LiveTranslator(), attributes=f'{PUBLISHED} data-captions="{told}"', **options)

    return open_page


MEASURE = """() => [document.querySelector("figure").getBoundingClientRect().height,
  document.documentElement.scrollWidth]"""


@pytest.mark.fonts
@pytest.mark.slow
def test_nothing_jumps_between_numbers_and_captions(page_with_captions):
    page = page_with_captions(reduced_motion="reduce")
    found = {width: [] for width in (320, 390, 760)}

    def measure():
        for width, heights in found.items():
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(SETTLE)
            height, needed = page.evaluate(MEASURE)
            assert needed <= width
            heights.append(height)

    measure()
    page.get_by_role("radio", name="captions").check()
    measure()
    page.get_by_role("button", name="Load the translator").click()
    for text in (TEXTS[0], "日本語😀" * 20, "w" * 100, "A man, a girl: & 50 % of 42 birds."):
        page.locator(".tr-text").fill(text)
        page.locator(".lf-status", has_text="It writes “").wait_for()
        page.wait_for_function("() => document.querySelector('.tr-german label:not([data-none])')")
        measure()
    for heights in found.values():
        assert max(heights) - min(heights) <= 1, found


@pytest.mark.slow
def test_an_address_keeps_a_sentence(page_with_captions):
    text = "A man, a girl: 50 % & more; or = 1"
    page = page_with_captions()
    page.get_by_role("radio", name="captions").check()
    page.locator(".tr-text").fill(text)
    page.wait_for_function("() => location.hash.includes('girl')")
    page.reload()
    assert page.locator(".tr-text").input_value() == text
    assert page.get_by_role("radio", name="captions").is_checked()
    assert f"translates “{text}”" in page.locator(".lf-status").inner_text()
    page.get_by_role("button", name="Reset").click()
    assert page.get_by_role("radio", name="numbers").is_checked()
