"""Download a file once, and verify it."""

import hashlib
import os
from http.client import HTTPException
from pathlib import Path

from torch.hub import download_url_to_file


class DownloadError(OSError):
    """A file couldn't be downloaded. A file that was there before is unchanged."""


def fetch(url: str, sha256: str, path: Path, *, progress: bool = False) -> Path:
    """Download `url` to `path`, unless a file with that SHA-256 is already there.

    The file appears under its name only when it's complete and verified.

    Raises:
        DownloadError: no network, page not found, a different hash, disk full.
    """
    if path.exists() and has_hash(path, sha256):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        download_url_to_file(url, str(path), sha256, progress)
    except (OSError, RuntimeError, HTTPException) as error:
        message = f"{url} couldn't be downloaded to {path}: {error}. "
        raise DownloadError(f"{message}If you have the file, put it there.") from error
    return path


def has_hash(path: str | os.PathLike, sha256: str) -> bool:
    """Whether the file `path` has that SHA-256."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() == sha256
