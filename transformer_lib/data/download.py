"""Download a file once, and verify it."""

import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
from pathlib import Path

from transformer_lib.files import replacing
from transformer_lib.validation import as_path, check_type, plain_number


class DownloadError(OSError):
    """A file couldn't be downloaded. A file that was there before is unchanged."""


def fetch(
    url: str,
    sha256: str,
    path: str | os.PathLike,
    *,
    progress: bool = False,
    timeout: float = 30.0,
) -> Path:
    """Download `url` to `path`, unless a file with that hash is already there.

    The file appears under its name only when it's complete and verified.

    Args:
        url: http, https or file.
        sha256: the hash that it must have, 64 hexadecimal digits.
        path: where to put it. Its folder is created if necessary.
        progress: show a progress bar.
        timeout: seconds to wait for an answer.

    Returns:
        `path`, as a `Path`.

    Raises:
        DownloadError: no network, page not found, cut off, a different hash, disk full.
        TypeError, ValueError: an invalid argument.
    """
    if not isinstance(url, str) or not re.fullmatch(r"(https?|file)://\S+", url):
        raise ValueError(f"url must begin with http://, https:// or file://; got {url!r}")
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError(f"sha256 must be 64 hexadecimal digits in lower case; got {sha256!r}")
    timeout = plain_number(timeout)
    if not isinstance(timeout, int | float) or not 0 < timeout < 1e6:
        raise ValueError(f"timeout must be in (0, 1e6) seconds; got {timeout!r}")
    check_type("progress", progress, bool)
    path = as_path("path", path)
    if path.exists() and has_hash(path, sha256):
        return path
    try:
        with (
            urllib.request.urlopen(url, timeout=timeout) as response,
            replacing(path) as file,
        ):
            if (found := _copy(response, file, url, progress)) != sha256:
                raise DownloadError(f"SHA-256 is {found}, expected {sha256}")
    except urllib.error.HTTPError as error:
        raise DownloadError(f"{url} answered HTTP {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        message = f"{url} couldn't be downloaded to {path}: {error}. "
        raise DownloadError(f"{message}If you have the file, put it there.") from error
    return path


def has_hash(path: str | os.PathLike, sha256: str) -> bool:
    """Whether the file `path` has that SHA-256."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() == sha256


def _copy(response, file, url: str, progress: bool) -> str:
    """Copy the response to `file`, and return its SHA-256."""
    from tqdm.auto import tqdm

    total = int(response.headers.get("Content-Length", 0))
    digest = hashlib.sha256()
    with tqdm.wrapattr(response, "read", total or None, desc=url, disable=not progress) as body:
        while chunk := body.read(1 << 16):
            file.write(chunk)
            digest.update(chunk)
    if file.tell() < total:
        raise DownloadError(f"cut off after {file.tell():,} of {total:,} bytes")
    return digest.hexdigest()
