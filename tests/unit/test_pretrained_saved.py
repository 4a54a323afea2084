"""Models in a folder: what was saved is loaded, and damage is noticed."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import transformer_lib
from transformer_lib.config import ModelConfig
from transformer_lib.models import DecoderOnly, EncoderDecoder, EncoderOnly, Transformer
from transformer_lib.pretrained import from_pretrained, save_pretrained, saved
from transformer_lib.recurrent import RNNSeq2Seq

SIZES: dict[str, Any] = {"vocab_size": 37, "d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 17}


def run(model: nn.Module) -> Tensor:
    """The model's output for a fixed input."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 37, (2, 11), generator=generator)
    if isinstance(model, Transformer | RNNSeq2Seq):
        return model(ids, ids[:, :7])
    if isinstance(model, EncoderDecoder):
        x = torch.randn(2, 11, 12, generator=generator).to(next(model.parameters()).dtype)
        return model(x, x[:, :7])
    return model(ids)


def same(found: nn.Module, model: nn.Module) -> None:
    assert type(found) is type(model) and found.config == model.config
    mine, theirs = found.state_dict(), model.state_dict()
    assert list(mine) == list(theirs)
    for name, tensor in theirs.items():
        assert mine[name].dtype is tensor.dtype and mine[name].equal(tensor), name
    assert run(found).equal(run(model.eval()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model in it."""
    save_pretrained(DecoderOnly(ModelConfig(**SIZES)), tmp_path / "model")
    return tmp_path / "model"


# --- save and load -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", [Transformer, EncoderOnly, DecoderOnly, EncoderDecoder])
def test_what_was_saved_is_loaded(kind: Any, dtype: torch.dtype, tmp_path: Path) -> None:
    model = kind(ModelConfig(**SIZES, dropout=0.3)).to(dtype)
    save_pretrained(model, tmp_path / "new" / "folder")
    found = from_pretrained(tmp_path / "new" / "folder")
    assert not any(module.training for module in found.modules())
    assert all(parameter.requires_grad for parameter in found.parameters())
    same(found, model)


@pytest.mark.parametrize(
    "options",
    [
        {"positions": "learned"},
        {"positions": "t5"},
        {"n_kv_heads": 1, "norm": "rms", "activation": "swiglu", "tie_embeddings": False},
        {"n_decoder_layers": 1, "pre_norm": False, "output_bias": True, "embedding_norm": True},
    ],
)
def test_every_option_is_loaded(options: dict, tmp_path: Path) -> None:
    model = Transformer(ModelConfig(**SIZES, **options))
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    save_pretrained(model, tmp_path)
    same(from_pretrained(str(tmp_path)), model)


@pytest.mark.parametrize("attention", [None, "additive"])
def test_a_recurrent_model_is_loaded(attention: str | None, tmp_path: Path) -> None:
    model = RNNSeq2Seq(vocab_size=37, d_model=5, attention=attention, dropout=0.3).double()
    save_pretrained(model, tmp_path)
    same(from_pretrained(tmp_path), model)
    edit(tmp_path, lambda s: s["config"].update(n_heads=3))
    with pytest.raises(ValueError, match="unknown entries: n_heads"):
        from_pretrained(tmp_path)


def test_a_second_save_replaces_the_first(folder: Path) -> None:
    model = EncoderOnly(ModelConfig(**SIZES, n_token_types=5))
    save_pretrained(model, folder)
    same(from_pretrained(folder), model)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_the_files_are_plain(folder: Path) -> None:
    settings = json.loads((folder / "config.json").read_text())
    assert settings["class"] == "DecoderOnly" and settings["config"]["d_model"] == 12
    assert settings["version"] == transformer_lib.__version__
    assert (
        load_file(folder / "model.safetensors").keys()
        == from_pretrained(folder).state_dict().keys()
    )


# --- damage --------------------------------------------------------------------------------------


def test_a_failed_save_leaves_the_old_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    calls = []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_pretrained(Transformer(ModelConfig(**SIZES)), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_files_of_two_saves_do_not_mix(folder: Path) -> None:
    weights = (folder / "model.safetensors").read_bytes()
    save_pretrained(DecoderOnly(ModelConfig(**SIZES)), folder)
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(
        ValueError, match=r"model\.safetensors is truncated, damaged or from another"
    ):
        from_pretrained(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_damage_is_noticed(name: str, folder: Path) -> None:
    whole = (folder / name).read_bytes()
    for content in (b"", whole[: len(whole) // 2], whole[:-2], b"\x00" * 99, b"\xff\xfe" + whole):
        (folder / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name} is (truncated|not JSON)"):
            from_pretrained(folder)
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        from_pretrained(folder)


def test_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nowhere", "file"):
        with pytest.raises(FileNotFoundError, match=f"folder .*{name} doesn't exist"):
            from_pretrained(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        from_pretrained(tmp_path)


def edit(folder: Path, change: Callable[[dict], Any]) -> None:
    settings = json.loads((folder / "config.json").read_text())
    change(settings)
    (folder / "config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize(
    "change, complaint",
    [
        (lambda s: s.update({"class": "os.system"}), "class must be one of .*; got 'os.system'"),
        (lambda s: s.pop("sha256"), "must have an entry 'sha256' of type str"),
        (lambda s: s.update({"config": [1, 2]}), "must have an entry 'config' of type dict"),
        (lambda s: s["config"].update(n_head=2), "config has unknown entries: n_head"),
        (lambda s: s["config"].update(n_heads=5), r"d_model \(12\) must be divisible by n_heads"),
        (lambda s: s["config"].pop("vocab_size"), "vocab_size"),
        (
            lambda s: s["config"].update(d_ff=19),
            r"feed_forward\.up\.weight: .*\[17, 12\].*\[19, 12\]",
        ),
        (lambda s: s["config"].update(n_layers=3), r"Missing key.*decoder\.layers\.2\."),
        (lambda s: s["config"].update(n_layers=1), r"Unexpected key.*decoder\.layers\.1\."),
    ],
)
def test_a_config_that_does_not_fit(
    change: Callable[[dict], Any], complaint: str, folder: Path
) -> None:
    edit(folder, change)
    with pytest.raises(ValueError, match=complaint) as caught:
        from_pretrained(folder)
    assert str(folder) in str(caught.value)


def test_a_list_is_not_a_config(folder: Path) -> None:
    (folder / "config.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="must have an entry 'class'"):
        from_pretrained(folder)


def test_a_setting_may_be_edited_and_a_newer_one_missing(folder: Path) -> None:
    edit(folder, lambda s: (s["config"].update(dropout=0.25), s["config"].pop("n_token_types")))
    assert from_pretrained(folder).config.dropout == 0.25


def test_weights_in_another_format(folder: Path) -> None:
    tensors = {
        name: tensor.int() for name, tensor in load_file(folder / "model.safetensors").items()
    }
    save_file(tensors, folder / "model.safetensors")
    for weights in ((folder / "model.safetensors").read_bytes(), b"no tensors at all"):
        (folder / "model.safetensors").write_bytes(weights)
        edit(folder, lambda s: s.update(sha256=hashlib.sha256(weights).hexdigest()))  # noqa: B023
        with pytest.raises(ValueError, match=r"floating point|not a safetensors file"):
            from_pretrained(folder)


def test_arguments() -> None:
    for model in (nn.Linear(2, 3), nn.Sequential(DecoderOnly(ModelConfig(**SIZES))), None, "x"):
        with pytest.raises(TypeError, match=r"model must be one of Transformer, .*; got"):
            save_pretrained(model, "anywhere")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="folder must be a path, got 7"):
        save_pretrained(DecoderOnly(ModelConfig(**SIZES)), 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="folder must be a path, got None"):
        from_pretrained(None)  # type: ignore[arg-type]
