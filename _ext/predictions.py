"""Questions to predict: what a reader chooses from, what is right, and why.

A cell tagged `predict` asks, and the next cell, tagged `answer`, answers. Their text decides
what kind of question it is:

- The question ends with a list: its items are the choices. The answer begins with the same list;
  each choice is followed by a colon and one sentence: why it's right, or why one might think so.
  The right choice is bold. Where more than one is right, the reader marks all that hold.
- The answer begins with a bold number, `**59 ± 9 %**: why.`: the reader types a number, and what is
  as near as that counts as right. Without `±` it must be that number.
- Anything else: the reader writes one line, and compares it with the answer.

Standard library only: the gate of the notebooks uses it, too.
"""

import re
from typing import NamedTuple

ITEM = r"- [^\n]*(?:\n  [^\n]*)*"
LIST = rf"{ITEM}(?:\n{ITEM})*"
CHOICES = re.compile(rf"(?:\A|\n\n)({LIST})\s*\Z")
REASONS = re.compile(rf"({LIST})(?:\n\n|\Z)")
NUMBER = re.compile(
    r"\*\*(?P<number>[-−]?\d[\d.,]*)(?: ± (?P<within>\d[\d.,]*))?(?: (?P<unit>[^*]+))?\*\*: (?=\S)"
)
SENTENCE = re.compile(r"(?<=[.?!:])\s+")
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


class Choice(NamedTuple):
    """What a reader may choose, and what is said about it when they have."""

    text: str
    reason: str
    right: bool


class Prediction(NamedTuple):
    """A question to the reader, in Markdown.

    Attributes:
        kind: "one" or "some" for choices, "number", or "line".
        question: the question without its choices.
        choices: none, where the kind has none.
        answer: what is said to everybody afterwards; may be empty.
        number, within, unit: the number that is right, what is near enough, and its unit.
    """

    kind: str
    question: str
    choices: tuple[Choice, ...] = ()
    answer: str = ""
    number: str = ""
    within: str = ""
    unit: str = ""

    @property
    def in_a_paragraph(self) -> tuple[str, str]:
        """The question without its lists: what comes before the first "?", and from there on."""
        plain = re.sub(r"\*\*Before you [^*]*\*\*\s*", "", LINK.sub(r"\1", self.question))
        sentences = SENTENCE.split(re.sub(r"(?m)^(-|\d+\.) .*\n?", "", plain).strip())
        first = next((i for i, part in enumerate(sentences) if "?" in part), 0)
        return " ".join(sentences[:first]), " ".join(sentences[first:])


def items(text: str) -> list[str]:
    return [" ".join(item[2:].split()) for item in re.findall(ITEM, text)]


def value(number: str) -> float:
    return float(number.replace("−", "-").replace(",", ""))


def parse(asked: str, answered: str) -> Prediction:
    """The question that a cell tagged `predict`, and the text of those tagged `answer`, make.

    Raises:
        ValueError: the answer does not answer the question.
    """
    answered = answered.strip()
    if found := CHOICES.search(asked):
        return with_choices(asked[: found.start()].strip(), items(found[1]), answered)
    if found := NUMBER.match(answered):
        number, within, unit = found["number"], found["within"] or "0", found["unit"] or ""
        answer = f"**{f'{number} {unit}'.strip()}**: {answered[found.end() :]}"
        return Prediction("number", asked, (), answer, number, within, unit)
    if not answered:
        raise ValueError("its answer must come right after it, in a cell tagged answer")
    return Prediction("line", asked, (), answered)


def with_choices(question: str, texts: list[str], answered: str) -> Prediction:
    found = REASONS.match(answered)
    if found is None:
        raise ValueError("the answer must begin with the list of choices, each with its reason")
    said = items(found[1])
    if len(said) != len(texts):
        raise ValueError(f"{len(texts)} choices, and {len(said)} of them in the answer")
    choices = []
    for text, item in zip(texts, said, strict=True):
        right = item.startswith(f"**{text}**: ")
        start = f"**{text}**: " if right else f"{text}: "
        if not item.startswith(start) or not item.removeprefix(start).strip():
            raise ValueError(f"the answer says “{text}”, a colon and the reason, not “{item}”")
        choices.append(Choice(text, item.removeprefix(start), right))
    if not any(choice.right for choice in choices):
        raise ValueError("no choice is right: the answer has the right one in **bold**")
    kind = "one" if sum(choice.right for choice in choices) == 1 else "some"
    return Prediction(kind, question, tuple(choices), answered[found.end() :].strip())
