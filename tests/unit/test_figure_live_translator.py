"""LiveTranslator: it splits, searches and writes like the library."""

import random
from importlib import import_module
from pathlib import Path

import pytest
import torch
from figure_page import PUBLISHED, SETTLE, button, choose, in_every_font, status, unfold

from transformer_lib import beam_search, record_attention
from transformer_lib.data import number_words
from transformer_lib.decoding import greedy
from transformer_lib.figures.engine import FOLDER
from transformer_lib.figures.widgets import LiveTranslator, live_translator
from transformer_lib.figures.widgets.live_translator import RECORD
from transformer_lib.pretrained import load_bundled
from transformer_lib.runs import TASKS

FRONT = str(FOLDER / "translator.js")
MOST = 44


@pytest.fixture(scope="module")
def shipped_model():
    return load_bundled("number-words")


# ---- the engine


def odd_texts():
    """Unusual texts: words split, joined, and spelled with other letters."""
    words = ["one", "eighteen", "eight", "ten", "twenty", "dozen", "x", "ninety", "ö", "Four", "7"]
    marks = [" ", "-", "", "  ", "_", "'", ".", "é", "e\u0301", "😀", "\u200d", "²", "\u00a0", "\n"]
    draw = random.Random(5)
    for _ in range(400):
        yield "".join(draw.choice(words) + draw.choice(marks) for _ in range(draw.randint(1, 6)))


def test_it_cuts_as_the_tokenizer(js, shipped_model):
    _, tokenizer = shipped_model
    numbers = [number_words(n, language) for n in range(0, 10_000, 7) for language in ("en", "de")]
    texts = ["", *numbers, *odd_texts()]
    body = "return given.texts.map((text) => m.cut(text, given.pieces));"
    cuts = js(FRONT, body, texts=texts, pieces=live_translator.vocabulary())
    wanted = [tokenizer.encode(text) for text in texts]
    assert [[piece["id"] for piece in pieces] for pieces in cuts] == wanted
    assert ["".join(piece["text"] for piece in pieces) for pieces in cuts] == texts


def test_it_knows_every_number_and_no_other_text(js):
    body = """const all = Array.from({ length: 10000 }, (_, n) => [m.english(n), m.german(n)]);
    const values = (texts) => texts.map(m.valueOf);
    return [all, values(all.map(([text]) => text)), values(given.others)];"""
    others = ["", "dozen", "ten thousand", "twelve hundred", "one hundred and one", "six six"]
    others += ["one thousand ", "zero hundred", "twenty one", "constructor", "one  hundred"]
    pairs, values, none = js(FRONT, body, others=others)
    assert pairs == [[number_words(n, "en"), number_words(n, "de")] for n in range(10_000)]
    assert values == list(range(10_000))
    assert none == [None] * len(others)


def some_numbers():
    held_out = [english for english, _ in TASKS["number-words"].load("val")]
    return [*held_out[:12], "three", "four", "eighteen", "dozen", "hello 4", "ten thousand"]


def assert_watched(model, source, ids, said, within=1e-4):
    """Probabilities and weights of cross-attention are those of one pass over the whole text."""
    start = torch.cat((torch.tensor([1]), ids[:-1]))[None]
    with record_attention(model) as maps, torch.no_grad():
        shares = model(source, start).softmax(-1)[0].gather(1, ids[:, None])[:, 0]
    heads = torch.cat([each for name, each in maps.items() if "cross" in name], 1)[0]
    assert heads.shape == (8, len(ids), source.size(1))
    near = {"atol": within, "rtol": 0}
    torch.testing.assert_close(torch.tensor([one["p"] for one in said]), shares, **near)
    got = torch.tensor([one["heads"] for one in said]).float().transpose(0, 1)
    torch.testing.assert_close(got, heads, **near)


@pytest.mark.parametrize("beam", [1, 4])
def test_it_writes_as_the_library_does(js, shipped_model, beam):
    model, tokenizer = shipped_model
    sources = [tokenizer.encode(text) for text in some_numbers()]
    body = """const translator = new m.Translator(given.text);
    const { memory, model } = translator;
    const searched = (ids) => memory.within(() => {
      const search = m.beamSearch(model, ids, { most: 44, beam_size: given.beam });
      for (;;) { const { value, done } = search.next(); if (done) return value; }
    });
    return given.sources.map((ids) => [searched(ids),
      [...translator.write(ids, { most: 44, beam: given.beam })].filter((one) => one !== null)]);"""
    found = js(FRONT, body, text=live_translator.model_text(), sources=sources, beam=beam)
    for ids, (texts, said) in zip(sources, found, strict=True):
        source = torch.tensor([ids])
        beams = beam_search(model, source, max_len=MOST, beam_size=beam)
        for text, row in zip(texts, beams.ids[0], strict=True):
            assert text["ids"] == row[row != 0].tolist()
        for name, want in (("score", beams.scores), ("rank", beams.ranks)):
            assert [text[name] for text in texts] == pytest.approx(want[0].tolist(), abs=1e-3)
        wanted = greedy(model, source, max_len=MOST).ids[0] if beam == 1 else beams.ids[0, 0]
        wanted = wanted[wanted != 0]
        assert [one["id"] for one in said] == wanted.tolist()
        assert_watched(model, source, wanted, said)


# ---- the record and the words


def test_the_recorded_translation_is_the_models(js, shipped_model):
    model, tokenizer = shipped_model
    source = torch.tensor([tokenizer.encode(RECORD["text"])])
    ids = greedy(model, source, max_len=MOST).ids[0]
    assert tokenizer.decode(ids.tolist()) == RECORD["german"]
    body = """return m.unpack(given.record, 3).pieces.map(({ share, heads }) => (
      { p: share / 100, heads: heads.map((row) => row.map((weight) => weight / 100)) }));"""
    assert_watched(model, source, ids, js(LiveTranslator(), body, record=RECORD), within=0.0051)


SAY = """const said = given.german && { pieces: [...given.german].map((letter) => (
    { text: letter === "$" ? "end" : letter, share: 91, heads: [given.weights ?? [97]] })) };
const slot = m.numbers(given.pieces);
const rest = { phase: "ready", ...given, place: 1, head: 0, said };
return m.sentence({ slot, source: slot.cut(given.text), ...rest });"""
SAID = [
    ({"text": "three", "phase": "loading", "part": 1}, "1 of 6 parts"),
    (
        {"text": "six one", "german": "sechs$", "weights": [3, 97]},
        "It writes “sechs”. It always writes something. Piece 2, “e”: 91\u00a0%. "
        "Head 1 of layer 1 attends most to a space, 97\u00a0%.",
    ),
    ({"text": "three", "german": "dreig"}, "“dreig”. It had to stop at 44 pieces. Piece 2"),
]


def test_it_says_what_is_true(js):
    for state, said in SAID:
        state = {"german": None, **state}
        assert said in js(LiveTranslator(), SAY, pieces=live_translator.vocabulary(), **state)


def test_it_says_what_the_model_never_saw(js):
    texts = ["a dozen", "hey 42", "six six", "six hundred"]
    body = "const slot = m.numbers(given.pieces); return given.texts.map((t) => slot.oddity(t));"
    odd = js(LiveTranslator(), body, pieces=live_translator.vocabulary(), texts=texts)
    assert odd == [
        "“a” and 1 more never appeared in its training: it reads characters.",
        "“hey” and 1 more never appeared in its training: it reads characters, and <unk> (unknown) "
        "for 4 2.",
        "This isn’t a number below 10,000 as its training wrote them: “four hundred forty-two”.",
        "",
    ]


def test_a_kernel_answers_when_it_is_asked(monkeypatch):
    figure, sent = LiveTranslator(), []
    monkeypatch.setattr(figure, "send", sent.append)
    for asked in ("something else", "translator"):
        figure._handle_custom_msg({"ask": asked}, [])
    assert sent == [{"translator": live_translator.model_text()}]


# ---- in the page (tests/site/test_translator.py: nothing is loaded until a reader asks)


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """Write the translator's files next to the page that `show` opens, as the build does."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "_ext"))
    folder = tmp_path / "_static" / "models"
    folder.mkdir(parents=True)
    parts = import_module("models").scripts("number-words", live_translator.model_text())
    for number, script in enumerate(parts):
        (folder / f"number-words-{number}.js").write_text(script)


@pytest.fixture
def page(show, beside):
    return show(LiveTranslator(), attributes=PUBLISHED, height=1200)


LOAD = "Load the translator (0.96 MB)"


def load(page):
    button(page, LOAD).click()
    button(page, "Translator loaded").wait_for()


def wait_for(page, said):
    """Wait until the status line says this."""
    page.locator(".lf-status", has_text=said).wait_for()


def typed(page, text):
    page.get_by_role("textbox").fill(text)


def mark(page):
    return page.locator(".tr-mark").inner_text()


SHOWN = """() => [...document.querySelectorAll(".tr-german label:not([data-none=true])")]
    .map((label) => label.children[1].textContent + label.children[2].textContent)"""


@pytest.mark.slow
def test_a_reader_types_chooses_and_points(page):
    recorded = "This translation is recorded. Load the translator to type your own."
    assert mark(page) == f"That’s right. {recorded}"
    assert page.evaluate(SHOWN)[:2] == ["z88", "w56"]
    typed(page, "three")
    assert status(page) == "Load the translator to translate “three”."
    load(page)
    typed(page, "four")
    wait_for(page, "It writes “vierzig”. That’s wrong.")
    assert mark(page) == "It should be “vier”."
    unfold(page)
    choose(page, "beam of 4")
    wait_for(page, "It writes “vier”. That’s right.")
    choose(page, "greedy")
    button(page, "dozen").press("Enter")
    wait_for(page, "It writes “einundreienzig”")
    assert "“dozen” never appeared in its training" in mark(page)
    label = page.locator(".tr-field [role=status]")
    for text, kept, said in [
        ("Ten 4<—,<", "Ten 4", "Left out: < — ,. It can’t read that."),
        ("x" * 45, "x" * 44, "Left out: all after 44 characters."),
        (" FORTY-Two", " FORTY-Two", "a number below 10,000 in English words"),
    ]:
        typed(page, text)
        assert label.inner_text() == said
        assert page.get_by_role("textbox").input_value() == kept
    typed(page, "42")
    assert mark(page) == ""
    button(page, "Did you mean forty-two?").click()
    wait_for(page, "It writes “zweiundvierzig”. That’s right. Piece 1, “z”: 88")
    page.locator(".tr-german label").nth(7).hover()
    wait_for(page, "Piece 8, “v”")
    choose(page, "layer 1, head 2")
    wait_for(page, "Head 2 of layer 1 attends most to")


@pytest.mark.slow
def test_under_reduced_motion_the_answer_comes_whole(page):
    page.emulate_media(reduced_motion="reduce")
    load(page)
    page.evaluate("""() => {
      window.seen = new Set();
      new MutationObserver(() => seen.add(
        document.querySelectorAll(".tr-german label:not([data-none=true])").length
      )).observe(document.querySelector(".tr-german"), { subtree: true, attributes: true });
    }""")
    typed(page, "eleven")
    wait_for(page, "It writes “elf”. That’s right.")
    page.evaluate(SETTLE)
    assert page.evaluate("[...seen]") in ([4], [0, 4])


@in_every_font
@pytest.mark.slow
def test_nothing_jumps_when_it_comes_and_writes(page):
    def sizes():
        for width in (320, 760):
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(SETTLE)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            yield page.locator("figure").bounding_box()["height"]

    first = list(sizes())
    load(page)
    for text, end in [
        ("seven thousand seven hundred twenty-seven", "siebenundzig”"),
        ("wwwwwwwwwwwwwwwwwwwwww4 wwwwwwwwwwwwwwwwwwww", "It always writes"),
        ("", "Type a number"),
    ]:
        typed(page, text)
        wait_for(page, end)
        assert list(sizes()) == pytest.approx(first, abs=1)


@pytest.mark.slow
def test_reset_keeps_the_translator_and_leaving_ends_it(page):
    before = status(page), mark(page), page.evaluate(SHOWN)
    load(page)
    button(page, "dozen").click()
    button(page, "Reset").click()
    page.evaluate(SETTLE)
    assert status(page) == before[0]
    assert mark(page) == "That’s right."
    assert page.evaluate(SHOWN) == before[2]
    button(page, "three").click()  # without loading it again
    wait_for(page, "It writes “dreig”.")
    page.evaluate("models[0].leave()")
    assert page.evaluate("models[0].listening()") == 0


@pytest.mark.slow
def test_a_notebook_asks_its_kernel(show):
    page = show(LiveTranslator())
    button(page, LOAD).click()
    wait_for(page, "Asking the notebook’s kernel")
    assert page.evaluate("models[0].asked") == {"ask": "translator"}
    page.evaluate("(text) => models[0].tell({ translator: text })", live_translator.model_text())
    typed(page, "three")
    wait_for(page, "It writes “dreig”.")


@pytest.mark.slow
def test_a_page_without_its_files_says_so(show):
    page = show(LiveTranslator(), attributes=PUBLISHED)
    page.evaluate(
        "() => { document.head.append = (script) => script.onerror(new Event('error')); }"
    )
    button(page, LOAD).click()
    wait_for(page, "The translator didn’t load: its files aren’t next to this page.")
    assert button(page, LOAD).get_attribute("aria-disabled") != "true"
