"""Write a file completely or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from transformer_lib.validation import in_the_way

__all__ = ["replacing"]


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` if the block succeeds.

    The bytes are on disk before the name points to them, so neither an error nor a loss of power
    leaves half a file. If the block raises, `path` is unchanged.

    Args:
        path: the file to write. Its folder is created if necessary.

    Yields:
        The temporary file, open for writing bytes.

    Raises:
        OSError: the file can't be written, because the disk is full or `path` is a folder, say.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with replacing(path) as file:
        ...     _ = file.write(b"whole")
        >>> path.read_text()
        'whole'
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # this would replace a device, too
        raise FileExistsError(f"{path} exists and is not a file")
    if other := in_the_way(path.parent):
        raise NotADirectoryError(f"{path} cannot be written: {other} is not a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, since a rename is atomic only within a file system; with a unique name,
    # since two processes may write the same file at once.
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
