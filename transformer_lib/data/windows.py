"""One long text in windows, as a language model reads what does not fit it whole."""

from collections.abc import Iterator

from transformer_lib.arguments import check_count, check_type
from transformer_lib.config import SpecialIds
from transformer_lib.data.batching import Ids, TextBatch, pad
from transformer_lib.data.checking import id_list
from transformer_lib.data.sampler import Order, drawing
from transformer_lib.data.tokenizer import Tokenizer


class WindowBatches:
    """Windows of one long text, as the batches that a language model is trained on.

    Windows stand side by side, so that an epoch reads every token once. A window begins with
    `<bos>`, which says that nothing is known of what came before; it ends without `<eos>`, for
    the text goes on.

    In training, each epoch begins at another place before `length`, so every token is met with much
    and with little text before it. The text left over at both ends is not read in that epoch. With
    `shuffle=False` each epoch is the whole text, and the last window may be short: that is what a
    loss is measured on. With `batch_size` the windows then come in their order.

    Args:
        ids: of the text, without `<bos>` and `<eos>`.
        length: of a window, in tokens.
        max_tokens, batch_size, seed, shuffle, special_ids: as for `Batches`.

    Raises:
        ValueError: there are fewer ids than training needs, 2 × `length` − 1, or none at all;
            not exactly one size was given.
        TypeError: ids are not a list of ints; a number is no int.

    Example:
        >>> batches = WindowBatches([4, 5, 6, 7, 8], length=3, batch_size=2, shuffle=False)
        >>> next(batches.epoch(0))
        TextBatch(input=tensor([[1, 4, 5],
                [1, 7, 0]]), labels=tensor([[4, 5, 6],
                [7, 8, 0]]))
    """

    def __init__(
        self,
        ids: Ids,
        *,
        length: int,
        max_tokens: int | None = None,
        batch_size: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        special_ids: SpecialIds = Tokenizer.special_ids,
    ):
        check_type("special_ids", special_ids, SpecialIds)
        self.special_ids = special_ids.special_ids
        self.ids = id_list("ids", ids)
        check_count("length", length)
        check_count("seed", seed, least=0)
        check_type("shuffle", shuffle, bool)
        self.length, self.seed, self.shuffle = length, seed, shuffle
        least = 2 * length - 1 if shuffle else 1
        if len(self.ids) < least:
            raise ValueError(
                f"ids must hold at least {least} tokens for a length of {length}; "
                f"got {len(self.ids)}"
            )
        starts = range(0, len(self.ids) - least + 1, length)
        lengths = [len(self.ids[start : start + length]) for start in starts]
        self._order = Order(lengths, max_tokens, batch_size, seed, shuffle)

    def __len__(self) -> int:
        """Batches in an epoch, which is the same number in each."""
        return len(self._order)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[TextBatch]:
        """The batches of an epoch from number `start` on."""
        order = self._order.epoch(epoch, start)
        first = drawing(self.seed, epoch).randrange(self.length) if self.shuffle else 0
        return (self._batch([first + i * self.length for i in batch]) for batch in order)

    def _batch(self, places: list[int]) -> TextBatch:
        rows = [self.ids[place : place + self.length] for place in places]
        bos_id, pad_id = self.special_ids.bos_id, self.special_ids.pad_id
        inputs = [[bos_id, *row[:-1]] for row in rows]
        return TextBatch(pad(inputs, pad_id=pad_id), pad(rows, pad_id=pad_id))
