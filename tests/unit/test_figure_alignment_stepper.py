"""AlignmentStepper: its numbers are the models', and its arithmetic is the library's."""

import re

import numpy as np
import pytest
import torch
from figure_page import in_every_font, slider, status

from transformer_lib import greedy
from transformer_lib.figures.widgets import AlignmentStepper
from transformer_lib.figures.widgets.alignment_stepper import COMPONENTS, KINDS, principal
from transformer_lib.recurrent import RNNSeq2Seq

MODULE = "alignment_stepper.js"
VOCABULARY = ["<pad>", "<bos>", "<eos>", "one", "two", "three", "eins", "zwei", "drei"]
SOURCE, TARGET = ["two", "three", "one", "three"], ["zwei", "drei", "eins", "drei"]


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(0)
    sizes = {"vocab_size": len(VOCABULARY), "d_model": 12, "dropout": 0.5}
    return {kind: RNNSeq2Seq(attention=None if kind == "none" else kind, **sizes) for kind in KINDS}


@pytest.fixture(scope="module")
def figure(models):
    return AlignmentStepper.from_models(models, SOURCE, TARGET, VOCABULARY)


def source_ids():
    return torch.tensor([[VOCABULARY.index(word) for word in SOURCE]])


@pytest.mark.parametrize("kind", KINDS[1:])
def test_the_context_is_the_models_own_in_a_few_components(js, models, figure, kind):
    model, i = models[kind], figure.kinds.index(kind)
    assert model.training, "unchanged"
    found = []  # context and weights of each step, as the decoder gets them
    hook = model.alignment.register_forward_hook(lambda *call: found.append(call[-1]))
    try:
        with torch.no_grad():
            ids = greedy(model, source_ids(), max_len=16).ids[0].tolist()
            memory = model.eval().start(source_ids()).memory[0].numpy().astype(float)
    finally:
        hook.remove()
        model.train()
    assert figure.outputs[i] == [VOCABULARY[id_] for id_ in ids]
    contexts, weights = (np.concatenate(x)[:, None] for x in zip(*found, strict=True))
    np.testing.assert_allclose(figure.weights[i], weights[:, 0, 0], atol=6e-4)

    # components are a linear map of the states, so the same map gives the context's components
    components, _ = principal(memory, COMPONENTS)
    affine = np.linalg.lstsq(np.c_[memory, np.ones(len(memory))], components, rcond=None)[0]
    want = np.c_[contexts[:, 0], np.ones(len(contexts))] @ affine
    body = "return given.weights.map((row) => m.contextOf(row, given.states));"
    page = js(MODULE, body, weights=figure.weights[i], states=figure.states[i])
    np.testing.assert_allclose(page, want, atol=3e-3)


def test_without_attention_there_is_only_the_last_state(js, models, figure):
    i, model = figure.kinds.index("none"), models["none"].eval()
    with torch.no_grad():
        states, last = model.encoder(model.source_embedding(source_ids()))
        fed = model.start(source_ids()).fed  # all it knows of the source
        torch.testing.assert_close(fed, model.summary(last[0]).tanh())
    model.train()
    want = principal(states[0].double().numpy(), COMPONENTS)[0]
    np.testing.assert_allclose(figure.states[i], want, atol=6e-4)
    page = js(MODULE, "return m.contextOf(null, given.states);", states=figure.states[i])
    np.testing.assert_allclose(page, want[-1], atol=6e-4)
    assert figure.weights[i] == []


def test_components_keep_the_variance_and_their_signs():
    states = np.random.default_rng(0).normal(size=(5, 9))
    components, share = principal(states, 4)
    assert share == pytest.approx(1)  # 5 states differ in 4 directions
    assert abs(components).max() == pytest.approx(1)
    distances = [np.linalg.norm(x[:, None] - x[None], axis=-1) for x in (states, components)]
    np.testing.assert_allclose(distances[1], distances[0] * distances[1][0, 1] / distances[0][0, 1])
    again, less = principal(states + 3.0, 2)
    assert less < 1
    np.testing.assert_allclose(again * abs(components[:, :2]).max(), components[:, :2])
    assert principal(np.ones((3, 4)), 6)[0].tolist() == [[0.0] * 6] * 3  # all states are equal


def test_an_unknown_kind_is_refused(models):
    one = {"dot": models["dot"]}
    assert AlignmentStepper.from_models(one, SOURCE, TARGET, VOCABULARY).attention == "dot"
    with pytest.raises(ValueError, match="one of dot; got 'none'"):
        AlignmentStepper.from_models(one, SOURCE, TARGET, VOCABULARY, attention="none")
    with pytest.raises(ValueError, match=r"models\['none'\] must have attention 'none'; got 'dot'"):
        AlignmentStepper.from_models({"none": models["dot"]}, SOURCE, TARGET, VOCABULARY)
    with pytest.raises(ValueError, match=r"not in the vocabulary: \['four'\]"):
        AlignmentStepper.from_models(one, ["four", "two"], TARGET, VOCABULARY)


def letters():
    return AlignmentStepper(
        words=["a", "b", "a"], target=["a", "b", "a"], kinds=["dot"],
        outputs=[["a", "b", "b", "<eos>"]],
        weights=[[[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 0]]],
        states=[[[1.0], [0.0], [-1.0]]], attention="dot", step=0, unit="letter",
    )  # fmt: skip


@pytest.mark.slow
def test_it_says_what_a_letter_attends_to_and_what_is_wrong(show):
    page = show(letters())
    assert "Which source letter does" in page.locator(".lf-title").inner_text()
    assert status(page).endswith("3 letters; the decoder hasn’t written anything yet.")
    written = slider(page, "letters written")
    written.press("End")
    assert status(page).endswith(" It has 1 mistake.")
    written.press("ArrowLeft")
    assert status(page) == (
        "Writing step 3, b, which should be a: 100 % of the context comes from a (letter 1)."
    )


@pytest.mark.slow
@in_every_font
@pytest.mark.parametrize("width", [760, 390, 320])
def test_the_line_above_the_states_has_room(show, width):
    page = show(letters(), width=width)
    picture = page.locator(".as-picture").bounding_box()
    line = page.get_by_text("the encoder’s states, each lit by its weight").bounding_box()
    letter = page.locator(".as-picture > text").filter(has_text=re.compile("^b$")).bounding_box()
    assert line["x"] + line["width"] <= picture["x"] + picture["width"]
    assert line["y"] >= picture["y"]
    assert line["y"] + line["height"] <= letter["y"]
