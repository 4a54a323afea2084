"""The bundled GPT-2: Hugging Face loads the same files, and it scores as the run did."""

import pytest
import torch

from transformer_lib.data import shakespeare
from transformer_lib.pretrained import bundled_folder, from_gpt2, load_bundled
from transformer_lib.results import load_run
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


def test_it_is_the_recorded_run_and_rounding_cost_next_to_nothing():
    trained = load_run("shakespeare-gpt").scores["val"]
    model, tokenizer = load_bundled("shakespeare")
    assert not model.training and model.embedding.weight.dtype is torch.float32
    found, _ = Run("shakespeare", tokenizer, model).score("val")
    assert found.metric == trained["metric"] == "nats_per_character"
    assert found.value == pytest.approx(trained["value"], abs=1e-4)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="name must be one of shakespeare, number-words; got"):
        load_bundled("hamlet")
