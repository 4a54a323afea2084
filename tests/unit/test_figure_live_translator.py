"""LiveTranslator: it splits, searches and writes like the library."""

import json
import random
from base64 import b64encode
from importlib import import_module
from pathlib import Path

import pytest
import torch
from figure_page import PUBLISHED, SETTLE, in_every_font, status

from transformer_lib import beam_search, record_attention
from transformer_lib.data import number_words
from transformer_lib.decoding import greedy
from transformer_lib.figures.engine import FOLDER
from transformer_lib.figures.widgets import LiveTranslator, live_translator
from transformer_lib.figures.widgets.live_translator import RECORD
from transformer_lib.pretrained import bundled_folder, load_bundled
from transformer_lib.pretrained.bundled import from_int8
from transformer_lib.results import load_result, load_run
from transformer_lib.runs import TASKS

FRONT = str(FOLDER / "translator.js")
MOST = 44


@pytest.fixture(scope="module")
def shipped_model():
    return load_bundled("number-words")


@pytest.fixture
def module(tmp_path):
    """The module that a browser gets, including the engine."""
    path = tmp_path / "figure.mjs"
    path.write_text(LiveTranslator()._esm, encoding="utf-8")
    return str(path)


# ---- the engine


def test_the_weights_are_those_of_from_int8(js):
    from safetensors.torch import load

    content = (bundled_folder("number-words") / "model.safetensors").read_bytes()
    body = """const tensors = m.fromRounded(m.fromBase64(given.bytes));
    return tensors.map(({ name, shape, data }) => {
      const bytes = new Uint8Array(new Float32Array(data).buffer);
      let text = "";
      for (const byte of bytes) text += String.fromCharCode(byte);
      return [name, shape, btoa(text)];
    });"""
    got = js(FRONT, body, bytes=b64encode(content).decode())
    wanted = from_int8(load(content))
    assert {name for name, *_ in got} == wanted.keys()
    for name, shape, numbers in got:
        assert shape == list(wanted[name].shape)
        assert numbers == b64encode(wanted[name].contiguous().numpy().tobytes()).decode(), name


def odd_texts():
    """Unusual texts: words split, joined, and spelled with other letters."""
    words = ["one", "eighteen", "eight", "ten", "twenty", "dozen", "x", "ninety", "ö", "Four", "7"]
    marks = [" ", "-", "", "  ", "_", "'", ".", "é", "e\u0301", "😀", "\u200d", "²", "\u00a0", "\n"]
    draw = random.Random(5)
    for _ in range(400):
        yield "".join(draw.choice(words) + draw.choice(marks) for _ in range(draw.randint(1, 6)))


def test_it_cuts_and_joins_as_the_tokenizer(js, shipped_model):
    _, tokenizer = shipped_model
    numbers = [number_words(n, language) for n in range(0, 10_000, 7) for language in ("en", "de")]
    texts = ["", *numbers, *odd_texts()]
    body = "return given.texts.map((text) => m.cut(text, given.pieces));"
    cuts = js(FRONT, body, texts=texts, pieces=live_translator.vocabulary())
    wanted = [tokenizer.encode(text) for text in texts]
    assert [[piece["id"] for piece in pieces] for pieces in cuts] == wanted
    assert ["".join(piece["text"] for piece in pieces) for pieces in cuts] == texts
    ids = [[1, *row, 2, 9] for row in wanted]
    body = "return given.ids.map((row) => m.joined(row, given.pieces));"
    joined = js(FRONT, body, ids=ids, pieces=live_translator.vocabulary())
    assert joined == [tokenizer.decode(row) for row in ids]


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


def test_it_writes_as_greedy_does(js, shipped_model):
    model, tokenizer = shipped_model
    sources = [tokenizer.encode(text) for text in some_numbers()]
    body = """const translator = new m.Translator(given.text);
    return given.sources.map((ids) => [...translator.write(ids, { most: 44 })]);"""
    found = js(FRONT, body, text=live_translator.model_text(), sources=sources)
    for ids, said in zip(sources, found, strict=True):
        source = torch.tensor([ids])
        wanted = greedy(model, source, max_len=MOST).ids[0]
        assert [one["id"] for one in said] == wanted.tolist()
        assert_watched(model, source, wanted, said)


def assert_watched(model, source, ids, said):
    """Probabilities and weights of cross-attention are those of one pass over the whole text."""
    start = torch.cat((torch.tensor([1]), ids[:-1]))[None]
    with record_attention(model) as maps, torch.no_grad():
        shares = model(source, start).softmax(-1)[0].gather(1, ids[:, None])[:, 0]
    heads = torch.cat([each for name, each in maps.items() if "cross" in name], 1)[0]
    assert heads.shape == (8, len(ids), source.size(1))
    torch.testing.assert_close(torch.tensor([one["p"] for one in said]), shares, atol=1e-4, rtol=0)
    got = torch.tensor([one["heads"] for one in said]).float().transpose(0, 1)
    torch.testing.assert_close(got, heads, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("size", "exponent", "most"), [(4, 0.6, 44), (3, 1.0, 44), (2, 0.0, 6), (1, 0.6, 44)]
)
def test_the_beam_is_the_librarys(js, shipped_model, size, exponent, most):
    model, tokenizer = shipped_model
    sources = [tokenizer.encode(text) for text in some_numbers()]
    body = """const { memory, model } = new m.Translator(given.text);
    return given.sources.map((ids) => memory.within(() => {
      const search = m.beamSearch(model, ids, given.options);
      for (;;) { const { value, done } = search.next(); if (done) return value; }
    }));"""
    options = {"most": most, "beam_size": size, "length_penalty": exponent}
    found = js(FRONT, body, text=live_translator.model_text(), sources=sources, options=options)
    for ids, texts in zip(sources, found, strict=True):
        beams = beam_search(
            model, torch.tensor([ids]), max_len=most, beam_size=size, length_penalty=exponent
        )
        assert len(texts) == size
        for text, row, score, rank in zip(
            texts, beams.ids[0], beams.scores[0], beams.ranks[0], strict=True
        ):
            assert text["ids"] + [0] * (len(row) - len(text["ids"])) == row.tolist()
            assert (text["score"], text["rank"]) == pytest.approx(
                (float(score), float(rank)), abs=1e-3
            )


def test_with_a_beam_it_writes_what_the_beam_found(js, shipped_model):
    model, tokenizer = shipped_model
    body = """const translator = new m.Translator(given.text);
    return given.sources.map((ids) => [...translator.write(ids, { most: 44, beam: 4 })]
      .filter((one) => one !== null));"""
    sources = [tokenizer.encode(text) for text in ("four", "three", "dozen")]
    found = js(FRONT, body, text=live_translator.model_text(), sources=sources)
    for ids, said in zip(sources, found, strict=True):
        source = torch.tensor([ids])
        row = beam_search(model, source, max_len=MOST).ids[0, 0]
        row = row[row != 0]
        assert [one["id"] for one in said] == row.tolist()
        assert_watched(model, source, row, said)
    assert tokenizer.decode([one["id"] for one in found[0]]) == "vier"  # greedy: vierzig


# ---- the record and the words


def test_the_recorded_translation_is_the_models(js, module, shipped_model):
    model, tokenizer = shipped_model
    source = torch.tensor([tokenizer.encode(RECORD["text"])])
    ids = greedy(model, source, max_len=MOST).ids[0]
    assert tokenizer.decode(ids.tolist()) == RECORD["german"]
    said = js(module, "return m.unpack(given.record, 3);", record=RECORD)["pieces"]
    start = torch.cat((torch.tensor([1]), ids[:-1]))[None]
    with record_attention(model) as maps, torch.no_grad():
        logits = model(source, start)
    wanted = logits.softmax(-1)[0].gather(1, ids[:, None])[:, 0]
    heads = torch.cat([each for name, each in maps.items() if "cross" in name], 1)[0]
    near = {"atol": 0.0051, "rtol": 0}
    torch.testing.assert_close(torch.tensor([one["share"] for one in said]) / 100, wanted, **near)
    got = torch.tensor([one["heads"] for one in said]).transpose(0, 1) / 100
    torch.testing.assert_close(got, heads, **near)


SAY = """const said = given.german && { pieces: [...given.german].map((letter) => (
    { text: letter === "$" ? "end" : letter, share: 91, heads: [given.weights ?? [97]] })) };
const slot = m.numbers(given.pieces);
const rest = { phase: "ready", place: 1, head: 0, ...given, said };
return m.sentence({ slot, source: slot.cut(given.text), ...rest });"""


def say(js, module, **state):
    return js(module, SAY, pieces=live_translator.vocabulary(), **{"german": None, **state})


def test_it_says_what_is_true(js, module):
    assert say(js, module, text="") == "Type a number below 10,000 in English words."
    assert "Load the translator" in say(js, module, text="three", phase="idle")
    assert "1 of 6 parts" in say(js, module, text="three", phase="loading", part=1)
    assert "run this figure’s cell" in say(js, module, text="three", phase="asked")
    assert "didn’t load" in say(js, module, text="three", phase="failed")
    assert say(js, module, text="six one", german="sechs$", weights=[3, 97]) == (
        "It writes “sechs”. It always writes something. Piece 2, “e”: 91\u00a0%. "
        "Head 1 of layer 1 attends most to a space, 97\u00a0%."
    )
    assert "“sechs”. That’s right." in say(js, module, text="six", german="sechs$")
    wrong = say(js, module, text="three", german="dreig$")
    assert "It writes “dreig”. That’s wrong. Piece 2" in wrong
    endless = say(js, module, text="three", german="dreig")
    assert "It writes “dreig”. It had to stop at 44 pieces. Piece 2" in endless


def test_it_says_what_the_model_never_saw(js, module):
    texts = ["a dozen", "hey 42", "six six", "six hundred"]
    body = "const slot = m.numbers(given.pieces); return given.texts.map((t) => slot.oddity(t));"
    odd = js(module, body, pieces=live_translator.vocabulary(), texts=texts)
    assert odd == [
        "“a” and 1 more never appeared in its training: it reads characters.",
        "“hey” and 1 more never appeared in its training: it reads characters, and <unk> (unknown) "
        "for 4 2.",
        "This isn’t a number below 10,000 as its training wrote them: “four hundred forty-two”.",
        "",
    ]


def test_the_vocabulary_is_the_tokenizers(shipped_model):
    _, tokenizer = shipped_model
    pieces = live_translator.vocabulary()
    assert len(pieces) == tokenizer.vocab_size
    assert [tokenizer.decode([i]) for i in range(3, 60)] == pieces[3:]


def test_the_note_is_the_record():
    record = load_result("number-words-shipped")
    assert (record["numbers"], record["right"], record["right_in_float32"]) == (1000, 994, 994)
    assert "Of 1,000 numbers" in live_translator.NOTE
    assert "gets 994 right, with 8 bits and with 32" in live_translator.NOTE
    assert {"three", "four"} <= {english for english, *_ in record["wrong"]}
    assert len(record["wrong"]) == 6


def test_the_chapter_says_how_it_differs_from_the_reader_s(shipped_model):
    """Chapter 13: two layers instead of one, and ten epochs."""
    assert shipped_model[0].config.n_layers == 2
    assert load_run("number-words-s0").settings["train"]["epochs"] == 10
    assert load_result("number-words-shipped")["command"].endswith("runs/number-words-s0")


def test_a_kernel_answers_when_it_is_asked(monkeypatch):
    figure, sent = LiveTranslator(), []
    monkeypatch.setattr(figure, "send", sent.append)
    figure._handle_custom_msg({"ask": "something else"}, [])
    assert sent == []
    figure._handle_custom_msg({"ask": "translator"}, [])
    assert sent == [{"translator": live_translator.model_text()}]
    assert json.loads(sent[0]["translator"]).keys() == {"config", "weights"}


# ---- in the page


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """The translator's files, next to the page that `show` opens, as the build writes them."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "_ext"))
    scripts = import_module("models").scripts

    folder = tmp_path / "_static" / "models"
    folder.mkdir(parents=True)
    for number, script in enumerate(scripts("number-words", live_translator.model_text())):
        (folder / f"number-words-{number}.js").write_text(script)
    return folder


LOAD = "Load the translator (0.96 MB)"


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def load(page):
    button(page, LOAD).click()
    button(page, "Translator loaded").wait_for()


def wait_for(page, *parts):
    """Wait until the status line contains all of these."""
    page.wait_for_function(
        """(parts) => parts.every((part) =>
          document.querySelector(".lf-status").textContent.includes(part))""",
        arg=list(parts),
    )


def typed(page, text):
    page.get_by_role("textbox").fill(text)


def mark(page):
    return page.locator(".tr-mark").inner_text()


SHOWN = """() => [...document.querySelectorAll(".tr-german label:not([data-none=true])")]
    .map((label) => label.children[1].textContent + label.children[2].textContent)"""
READ = """() => [...document.querySelectorAll(".tr-english:not([aria-hidden]) li:not([hidden])")]
    .map((piece) => piece.firstChild.textContent)"""


@pytest.mark.slow
def test_nothing_is_loaded_until_the_reader_asks(show, beside):
    page = show(LiveTranslator(), attributes=PUBLISHED)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    recorded = "This translation is recorded. Load the translator to type your own."
    assert mark(page) == f"That’s right. {recorded}"
    before = page.evaluate(SHOWN)
    assert before[:2] == ["z88", "w56"]
    typed(page, "three")
    assert status(page) == "Load the translator to translate “three”."
    button(page, "Reset").click()
    assert asked == []
    load(page)
    wait_for(page, "It writes “zweiundvierzig”. That’s right.")
    assert [url.rpartition("-")[2] for url in asked] == [f"{n}.js" for n in range(6)]
    assert mark(page) == "That’s right."
    after = page.evaluate(SHOWN)
    assert [one[0] for one in after] == [one[0] for one in before]
    assert page.evaluate("Object.keys(bookModels)") == ["number-words"]


@pytest.mark.slow
def test_a_reader_types_chooses_and_points(show, beside):
    page = show(LiveTranslator(), attributes=PUBLISHED, viewport={"width": 760, "height": 1200})
    load(page)
    typed(page, "four")
    wait_for(page, "It writes “vierzig”. That’s wrong.")
    assert mark(page) == "It should be “vier”."
    page.locator(".lf-more summary").click()
    page.get_by_role("radio", name="beam of 4").check()
    wait_for(page, "It writes “vier”. That’s right.")
    page.get_by_role("radio", name="greedy").check()
    button(page, "dozen").press("Enter")
    wait_for(page, "It writes “einundreienzig”")
    assert "“dozen” never appeared in its training" in mark(page)
    assert page.evaluate(READ) == list("dozen")
    label = page.locator(".tr-field [role=status]")
    typed(page, "Ten 4<—,<")
    wait_for(page, "It writes “")
    assert label.inner_text() == "Left out: < — ,. It can’t read that."
    assert page.get_by_role("textbox").input_value() == "Ten 4"
    assert page.evaluate(READ) == ["ten", "▁", "4"]
    typed(page, "x" * 45)
    assert label.inner_text() == "Left out: all after 44 characters."
    assert page.get_by_role("textbox").input_value() == "x" * 44
    typed(page, " FORTY-Two")
    assert label.inner_text() == "a number below 10,000 in English words"
    wait_for(page, "It writes “zweiundvierzig”. That’s right.")
    assert page.get_by_role("textbox").input_value() == " FORTY-Two"
    typed(page, "42")
    assert mark(page) == ""
    button(page, "Did you mean forty-two?").click()
    wait_for(page, "It writes “zweiundvierzig”. That’s right. Piece 1, “z”")
    assert page.locator(".tr-answer b").first.inner_text() == "zweiundvierzig"
    assert mark(page) == "That’s right."
    page.locator(".tr-german label").nth(7).hover()
    wait_for(page, "Piece 8, “v”")
    page.locator(".tr-german input:checked").press("ArrowRight")
    wait_for(page, "Piece 9, “i”")
    page.get_by_role("radio", name="layer 1, head 2").check()
    wait_for(page, "Head 2 of layer 1 attends most to")


@pytest.mark.slow
def test_under_reduced_motion_the_answer_comes_whole(show, beside):
    page = show(LiveTranslator(), attributes=PUBLISHED, reduced_motion="reduce")
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
def test_nothing_jumps_when_it_comes_and_writes(show, beside):
    page = show(LiveTranslator(), attributes=PUBLISHED)
    sizes = (320, 390, 760)

    def heights():
        found = []
        for width in sizes:
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(SETTLE)
            found.append(
                page.evaluate("document.querySelector('figure').getBoundingClientRect().height")
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        return found

    first = heights()
    load(page)
    for text, end in [
        ("seven thousand seven hundred twenty-seven", "siebenundzig”"),
        ("wwwwwwwwwwwwwwwwwwwwww4 wwwwwwwwwwwwwwwwwwww", "It always writes"),
        ("", "Type a number"),
    ]:
        typed(page, text)
        wait_for(page, end)
        assert heights() == pytest.approx(first, abs=1)


@pytest.mark.slow
def test_reset_keeps_the_translator_and_leaving_ends_it(show, beside):
    page = show(LiveTranslator(), attributes=PUBLISHED)
    before = status(page), page.evaluate(SHOWN)
    load(page)
    button(page, "dozen").click()
    button(page, "Reset").click()
    page.evaluate(SETTLE)
    assert (status(page), page.evaluate(SHOWN)) == before
    assert mark(page) == "That’s right."
    button(page, "Translator loaded").wait_for()
    button(page, "three").click()  # without loading it again
    wait_for(page, "It writes “dreig”.")
    button(page, "dozen").click()
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
