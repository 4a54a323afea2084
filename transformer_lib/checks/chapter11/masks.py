"""What goes wrong with the masks of a `MyTransformer`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.chapter11.whole import but, either

__all__ = ["MASKS"]


def _or(self: Any, target: Tensor, source: Tensor) -> Tensor:
    return self.causal(target.size(1)) | self.hide(target)


MASKS = {
    "the causal mask is as long as the source: its rows and columns are the target's, "
    "`target.size(1)`": [
        but(target_mask=lambda self, target, source: self.causal(source.size(1))),
        but(
            target_mask=lambda self, target, source: self.causal(source.size(1)) & self.hide(target)
        ),
    ],
    "the causal mask is as long as the batch: its rows and columns are the target's, "
    "`target.size(1)`": [
        but(target_mask=lambda self, target, source: self.causal(target.size(0))),
        but(
            target_mask=lambda self, target, source: self.causal(target.size(0)) & self.hide(target)
        ),
    ],
    "a mask holds numbers: here a mask is bool, and True means may attend": [
        *either(causal=lambda self, t: torch.ones(t, t).tril()),
        *either(causal=lambda self, t: torch.ones(t, t, dtype=torch.int64).tril()),
        *either(hide=lambda self, ids: (ids != self.pad_id)[:, None, None].float()),
        *either(hide=lambda self, ids: (ids != self.pad_id)[:, None, None].int()),
    ],
    "every place of the target sees what comes after it: the causal mask is missing, or joined "
    "to the padding's by | and not by &": [
        but(target_mask=_or),
        but(target_mask=lambda self, target, source: self.hide(target)),
        but(target_mask=lambda self, target, source: None),
    ],
    "the causal mask is the wrong way round, and the target sees only what comes after": either(
        causal=lambda self, t: torch.ones(t, t, dtype=torch.bool).triu()
    ),
    "the triangle is turned round, as for PyTorch, where True means hidden: here it means may "
    "attend": [
        *either(causal=lambda self, t: torch.ones(t, t, dtype=torch.bool).triu(1)),
        but(
            causal=lambda self, t: torch.ones(t, t, dtype=torch.bool).triu(1),
            target_mask=lambda self, target, source: (
                self.causal(target.size(1)) | ~self.hide(target)
            ),
        ),
    ],
    "the causal mask lets every place see the one after it": either(
        causal=lambda self, t: torch.ones(t, t, dtype=torch.bool).tril(1)
    ),
    "the causal mask hides each place from itself: the first one then sees nothing": either(
        causal=lambda self, t: torch.ones(t, t, dtype=torch.bool).tril(-1)
    ),
    "the masks are the wrong way round: True means may attend": [
        but(
            hide=lambda self, ids: (ids == self.pad_id)[:, None, None],
            causal=lambda self, t: torch.ones(t, t, dtype=torch.bool).triu(1),
            target_mask=lambda self, target, source: (
                self.causal(target.size(1)) | self.hide(target)
            ),
        ),
        but(
            hide=lambda self, ids: (ids == self.pad_id)[:, None, None],
            causal=lambda self, t: torch.ones(t, t, dtype=torch.bool).triu(1),
            target_mask=lambda self, target, source: self.causal(target.size(1)),
        ),
        but(
            hide=lambda self, ids: (ids == self.pad_id)[:, None, None],
            target_mask=lambda self, target, source: (
                self.causal(target.size(1)) & (target != self.pad_id)[:, None, None]
            ),
        ),
        but(
            hide=lambda self, ids: (ids == self.pad_id)[:, None, None],
            target_mask=lambda self, target, source: self.causal(target.size(1)),
        ),
        but(
            hide=lambda self, ids: (ids == self.pad_id)[:, None, None],
            causal=lambda self, t: torch.ones(t, t, dtype=torch.bool).triu(1),
        ),
    ],
    "the source's mask hides the target's keys: it belongs to the encoder and to "
    "cross-attention": but(
        target_mask=lambda self, target, source: self.causal(target.size(1)) & self.hide(source)
    ),
    "the target's padding hides the source's keys in cross-attention: its keys are the "
    "source's": but(cross_mask=lambda self, source, target: self.hide(target)),
    "the two masks of the decoder are exchanged: first that of its own keys, then that of the "
    "memory's": either(
        decode=lambda self, x, memory, mask, memory_mask: self.decoder(x, memory, memory_mask, mask)
    ),
    "cross-attention sees the padding of the source: its mask is needed there as well": but(
        cross_mask=lambda self, source, target: None
    ),
    "the encoder sees the padding of the source": but(source_mask=lambda self, source: None),
    "nothing hides the padding of the source": but(
        source_mask=lambda self, source: None, cross_mask=lambda self, source, target: None
    ),
    "no mask is used at all": but(
        source_mask=lambda self, source: None,
        target_mask=lambda self, target, source: None,
        cross_mask=lambda self, source, target: None,
    ),
    "the decoder gets no mask": but(
        target_mask=lambda self, target, source: None,
        cross_mask=lambda self, source, target: None,
    ),
    "the padding mask lacks an axis: to fit scores of shape (B, H, T, S), it is (B, 1, 1, S)": [
        but(hide=lambda self, ids: (ids != self.pad_id)[:, None]),
        but(hide=lambda self, ids: ids != self.pad_id),
    ],
    "padding is taken to be 0 whatever pad_id is": [
        *either(hide=lambda self, ids: (ids != 0)[:, None, None]),
        but(target_mask=lambda self, y, x: self.causal(y.size(1)) & (y != 0)[:, None, None]),
        *either(
            source_mask=lambda self, source: (source != 0)[:, None, None],
            cross_mask=lambda self, source, target: (source != 0)[:, None, None],
        ),
    ],
    "padding is hidden on both sides: it may ask, since nobody reads its answer, and a row that "
    "may see nothing becomes NaN": either(
        source_mask=lambda self, source: (
            self.hide(source) & (source != self.pad_id)[:, None, :, None]
        )
    ),
    "the encoder has a causal mask: it may read in both directions": but(
        source_mask=lambda self, source: self.causal(source.size(1)) & self.hide(source)
    ),
    "cross-attention has a causal mask: every place of the target may see the whole source": [
        but(
            cross_mask=lambda self, source, target: (
                torch.ones(target.size(1), source.size(1), dtype=torch.bool).tril()
                & self.hide(source)
            )
        ),
        but(
            cross_mask=lambda self, source, target: self.causal(target.size(1)) & self.hide(source)
        ),
    ],
}
