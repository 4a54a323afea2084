"""Write a file whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from transformer_lib.validation import in_the_way


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path` that takes its place if the block succeeds.

    The bytes are on the disk before the name points at them, so neither an error in the block nor
    a loss of power leaves half a file under `path`. If the block raises, what was there stays.

    Args:
        path: the file to write. Its folder is made if there is none.

    Yields:
        The temporary file, open for writing bytes.

    Raises:
        OSError: the file cannot be written, for one because the disk is full, or because `path`
            is a folder.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with replacing(path) as file:
        ...     _ = file.write(b"whole")
        >>> path.read_text()
        'whole'
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a device would become a file, too
        raise FileExistsError(f"{path} exists and is not a file")
    if other := in_the_way(path.parent):
        raise NotADirectoryError(f"{path} cannot be written: {other} is not a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    # The same folder, because a rename is atomic only within one file system; a name of its own,
    # because two processes may write the same file at once.
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
