"""The bundled GPT-2: Hugging Face loads the same files, and its scores are as published."""

import hashlib

import pytest
import torch

from transformer_lib.data import shakespeare
from transformer_lib.pretrained import bundled_folder, from_gpt2, load_bundled
from transformer_lib.results import load_result, load_run
from transformer_lib.runs import Run


def text_ids(tokenizer, rows=3, length=127):
    """Some passages of val, each after `<bos>`."""
    text = shakespeare.load("val")
    parts = (text[i * 1000 : i * 1000 + length] for i in range(rows))
    return torch.tensor([[1, *tokenizer.encode(part)] for part in parts])


def test_hugging_face_loads_the_same_model():
    from transformers import GPT2LMHeadModel

    theirs, report = GPT2LMHeadModel.from_pretrained(
        bundled_folder("shakespeare"), output_loading_info=True, torch_dtype=torch.float32
    )
    assert not any(report.values()), report  # no tensor is missing, left over or of another shape
    theirs.eval()
    ours, tokenizer = load_bundled("shakespeare")
    ids = text_ids(tokenizer)
    expected = theirs(ids).logits
    scale = expected.abs().max().item()
    assert scale > 10  # rounding errors grow with the logits of a trained model
    torch.testing.assert_close(ours(ids) / scale, expected / scale, rtol=0, atol=1e-5)
    converted = from_gpt2(theirs).state_dict()
    assert converted.keys() == ours.state_dict().keys()
    assert all(tensor.equal(converted[name]) for name, tensor in ours.state_dict().items())
    exact = theirs.double()(ids).logits
    torch.testing.assert_close(ours.double()(ids), exact, rtol=1e-10, atol=1e-10)


def test_hugging_face_loads_the_same_tokenizer():
    from transformers import PreTrainedTokenizerFast

    _, ours = load_bundled("shakespeare")
    theirs = PreTrainedTokenizerFast(
        tokenizer_file=str(bundled_folder("shakespeare") / "tokenizer.json")
    )
    text = shakespeare.load("val")[:2000]
    assert theirs(text)["input_ids"] == ours.encode(text)
    assert ours.decode(ours.encode(text)) == text


def test_it_is_the_model_that_was_measured():
    record = load_result("shakespeare-gpt-shipped")
    path = bundled_folder("shakespeare") / "model.safetensors"
    assert record["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert record["bytes"] == path.stat().st_size < 2_000_000
    model, tokenizer = load_bundled("shakespeare")
    assert record["parameters"] == sum(p.numel() for p in model.parameters()) == 818_560
    assert not model.training and model.embedding.weight.dtype is torch.float32
    piece = record["first_speeches"]
    found, _ = Run("shakespeare", tokenizer, model).score("val", piece["speeches"])
    assert found.value == pytest.approx(piece["nats_per_character"], abs=1e-4)


def test_rounding_costs_next_to_nothing():
    record = load_result("shakespeare-gpt-shipped")
    trained = load_run("shakespeare-gpt").scores["val"]
    assert trained["metric"] == "nats_per_character"
    assert record["nats_per_character_in_float32"] == pytest.approx(trained["value"], abs=1e-4)
    assert record["nats_per_character"] == pytest.approx(trained["value"], abs=2e-3)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="name must be one of shakespeare, number-words; got"):
        load_bundled("hamlet")
