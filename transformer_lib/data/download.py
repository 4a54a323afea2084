"""Fetch a file once, whole and unaltered."""

import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
from pathlib import Path

from transformer_lib.files import replacing
from transformer_lib.validation import as_path, check_type, plain_number

_CHUNK = 1 << 16


class DownloadError(OSError):
    """A file could not be fetched. What stood in its place before is still there."""


def fetch(
    url: str,
    sha256: str,
    path: str | os.PathLike,
    *,
    progress: bool = False,
    timeout: float = 30.0,
) -> Path:
    """Download `url` to `path`, unless a file with that hash is there already.

    The bytes go to a temporary file in the same folder, which takes the name `path` only when it
    is complete, has the right hash and is on the disk.

    Args:
        url: where the file is.
        sha256: the hash it must have, 64 hexadecimal digits.
        path: where it goes. Its folder is made if there is none.
        progress: show a progress bar.
        timeout: seconds without an answer after which to give up.

    Returns:
        `path`, as a `Path`.

    Raises:
        DownloadError: no network, no such page, cut off, another file than expected, disk full.
        ValueError, TypeError: an argument that does not fit.
    """
    if not isinstance(url, str) or not re.fullmatch(r"(https?|file)://\S+", url):
        raise ValueError(f"url must begin with http://, https:// or file://; got {url!r}")
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError(f"sha256 must be 64 hexadecimal digits in lower case; got {sha256!r}")
    timeout = plain_number(timeout)
    if not isinstance(timeout, int | float) or not 0 < timeout < 1e6:
        raise ValueError(f"timeout must be above 0 and below 1e6 seconds; got {timeout!r}")
    check_type("progress", progress, bool)
    path = as_path("path", path)
    if path.exists() and has_hash(path, sha256):
        return path
    try:
        with (
            urllib.request.urlopen(url, timeout=timeout) as response,
            replacing(path) as file,
        ):
            found = _copy(response, file, url if progress else None)
            if found != sha256:
                raise DownloadError(f"SHA-256 is {found}, expected {sha256}")
    except urllib.error.HTTPError as error:
        raise DownloadError(f"{url} answers HTTP {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(f"{url} could not be fetched to {path}: {error}") from error
    return path


def has_hash(path: str | os.PathLike, sha256: str) -> bool:
    """Whether the bytes of the file `path` have that SHA-256."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() == sha256


def _copy(response, file, bar_title: str | None) -> str:
    """Copy the answer to `file`, and return its SHA-256."""
    from tqdm.auto import tqdm

    length = response.headers.get("Content-Length")
    total = int(length) if length else None
    digest, n_read = hashlib.sha256(), 0
    with tqdm(total=total, desc=bar_title, unit="B", unit_scale=True, disable=not bar_title) as bar:
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            n_read += len(chunk)
            bar.update(len(chunk))
    if total is not None and n_read != total:
        raise DownloadError(f"cut off after {n_read:,} of {total:,} bytes")
    return digest.hexdigest()
