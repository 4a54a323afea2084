"""CheckpointBytes: a safetensors file, byte by byte (chapter 22)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from .base import LiveFigure, Number, Numbers, compose, dress

if TYPE_CHECKING:
    from torch import Tensor


def the_same_three() -> dict[str, Tensor]:
    """Return pi, 0.1 and -2 in three types."""
    import torch

    numbers = [torch.pi, 0.1, -2.0]
    return {
        "wide": torch.tensor(numbers),
        "half": torch.tensor(numbers, dtype=torch.float16),
        "brain": torch.tensor(numbers, dtype=torch.bfloat16),
    }


class CheckpointBytes(LiveFigure):
    """A small safetensors file, byte by byte: length of the header, header, numbers.

    The reader picks a number and sees which bytes it has, and what their bits mean. The figure can
    make two mistakes: read a number's bytes in the wrong order, and count the header's offsets
    from the start of the file.

    Args:
        tensors: float32, float16 or bfloat16 tensors by name, with 1 to 16 numbers in all. The
            file must not have more than 320 bytes.
        number: the number to read, from 0, in the order of the file.
        from_back: whether a number's first byte is the lowest, as in the format.
        after_header: whether offsets count from the end of the header, as in the format.

    Raises:
        TypeError: something that isn't a tensor, or has another dtype.
        ValueError: too few or too many numbers, too long a file, or `number` out of range.

    Source:
        Hugging Face, *safetensors*, the section "Format" of its README.

    >>> CheckpointBytes()
    CheckpointBytes(number=0, from_back=True, after_header=True)
    """

    _esm = compose("checkpoint_bytes.js")
    _css = dress("checkpoint_bytes.css")
    shown = ("number", "from_back", "after_header")

    file = Numbers([], low=0, high=255)
    number = Number(0, low=0, high=15, whole=True)
    from_back = traitlets.Bool(True).tag(sync=True)
    after_header = traitlets.Bool(True).tag(sync=True)

    def __init__(self, tensors: dict[str, Tensor] | None = None, **state: Any) -> None:
        import torch
        from safetensors.torch import save

        if "file" in state:
            raise TypeError("file can't be given: it is made from tensors")
        tensors = the_same_three() if tensors is None else tensors
        allowed = (torch.float32, torch.float16, torch.bfloat16)
        for name, tensor in tensors.items():
            if not isinstance(tensor, torch.Tensor) or tensor.dtype not in allowed:
                got = getattr(tensor, "dtype", type(tensor).__name__)
                raise TypeError(
                    f"tensors[{name!r}] must be a float32, float16 or bfloat16 tensor; got {got}"
                )
        count = sum(tensor.numel() for tensor in tensors.values())
        if not 1 <= count <= 16:
            raise ValueError(f"tensors must have 1 to 16 numbers in all; got {count}")
        file = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        if len(file) > 320:
            raise ValueError(f"tensors must fit in a file of 320 bytes; got {len(file)}")
        super().__init__(file=list(file), **state)
        if self.number >= count:
            raise ValueError(f"number must be from 0 to {count - 1}; got {self.number}")
