"""Texts that grow token by token: what can be shown already, in which order, and where they end."""

from __future__ import annotations

from collections.abc import Sequence

from transformer_lib.data import Tokenizer

__all__: list[str] = []  # for texts.py and __main__.py alone


class Continuation:
    """What a model adds to one prompt.

    Text that was shown can't be taken back. So two things at its end wait for the next token: a
    character with bytes still missing, and what may become a stop string.

    Args:
        tokenizer: of the prompt and its continuation.
        prompt: ids of the prompt.
        stop: strings that end the text. They are not part of it.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: list[int], stop: Sequence[str]) -> None:
        self.tokenizer, self.stop = tokenizer, stop
        self.ids = list(prompt)
        self.begin = len(tokenizer.decode(prompt))  # where the continuation begins
        self.text = ""  # the part that is certain
        self.ended = False

    def add(self, token: int) -> str:
        """Take the next token; return the text that is now certain."""
        if self.ended:
            return ""
        if token == self.tokenizer.special_ids.eos_id:
            return self.end()
        self.ids.append(token)
        text = self._added()
        if (found := self._first_stop(text)) is not None:
            self.ended = True
            return self._show(text[:found])
        text = text.rstrip("�")  # bytes that don't make a whole character yet
        return self._show(text[: len(text) - self._held_back(text)])

    def end(self) -> str:
        """End the text; return what was held back."""
        if self.ended:
            return ""
        self.ended = True
        return self._show(self._added())

    def _added(self) -> str:
        # Decoded as a whole: whether the first piece begins with a space may depend on the prompt.
        return self.tokenizer.decode(self.ids)[self.begin :]

    def _show(self, text: str) -> str:
        new = text[len(self.text) :]
        self.text += new
        return new

    def _first_stop(self, text: str) -> int | None:
        places = [place for string in self.stop if (place := text.find(string)) >= 0]
        return min(places, default=None)

    def _held_back(self, text: str) -> int:
        """How many characters at the end of a text could begin a stop string."""
        longest = max(map(len, self.stop), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(string.startswith(text[-length:]) for string in self.stop):
                return length
        return 0


class InTurn:
    """Prints texts that grow in parallel, one after the other, as early as possible.

    Args:
        texts: their beginnings.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.waiting, self.ended, self.turn = list(texts), [False] * len(texts), 0

    def show(self, number: int, new: str, is_end: bool) -> None:
        """Add ``new`` to text ``number``, and print what can be printed now."""
        self.waiting[number] += new + "\n" * is_end
        self.ended[number] = is_end
        while self.turn < len(self.waiting):
            print(self.waiting[self.turn], end="", flush=True)
            self.waiting[self.turn] = ""
            if not self.ended[self.turn]:
                return
            self.turn += 1
