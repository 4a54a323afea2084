"""Stories of two sentences from a small world: which words fit is known."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from transformer_lib.validation import check_count, check_type, items

# Food tells where an animal lives. To know which animal it is, you need its size, too.
_ANIMALS = {
    "lake": {
        "small": ["cat", "otter", "heron", "penguin"],
        "big": ["bear", "seal", "walrus", "dolphin"],
        "food": ["fish", "trout", "salmon", "crab"],
        "taste": ["fresh", "raw"],
        "place": ["lake", "river", "shore"],
    },
    "meadow": {
        "small": ["mouse", "rabbit", "goat", "lamb"],
        "big": ["cow", "horse", "bison", "donkey"],
        "food": ["grass", "clover", "hay", "corn"],
        "taste": ["green", "dry"],
        "place": ["meadow", "barn", "hill"],
    },
    "forest": {
        "small": ["bat", "squirrel", "parrot", "monkey"],
        "big": ["gorilla", "elephant", "panther", "buffalo"],
        "food": ["fruit", "mango", "melon", "papaya"],
        "taste": ["ripe", "sweet"],
        "place": ["forest", "tree", "cave"],
    },
}
_THINGS = {
    "office": {
        "thing": ["mouse", "screen", "printer", "keyboard"],
        "does": ["clicks", "plugs", "repairs", "connects"],
        "place": ["desk", "office", "table"],
        "then": ["writes", "prints", "reads"],
        "what": ["letter", "report", "page"],
    },
    "game": {
        "thing": ["bat", "ball", "racket", "glove"],
        "does": ["swings", "throws", "catches", "grabs"],
        "place": ["bench", "stadium", "court"],
        "then": ["plays", "wins", "loses"],
        "what": ["game", "match", "round"],
    },
}
_PEOPLE = {"she": ["girl", "woman", "aunt", "queen"], "he": ["boy", "man", "uncle", "king"]}
_CARES = ["feeds", "strokes", "washes", "calls"]
_RESTS = ["sleeps", "drinks", "plays", "waits"]
_ANY = ["old", "brown", "funny", "new"]  # for animals and things alike
_MOODS = ["hungry", "thirsty", "young", "tired"]

TOPICS = (*_ANIMALS, *_THINGS)


class Story(NamedTuple):
    """Two sentences, one after the other, and what's true about them.

    Attributes:
        first: a sentence of six or seven words.
        second: what happens next, in six to eight words.
        topic: where an animal lives ("lake", "meadow" or "forest"), or what a thing is for
            ("office" or "game").
        size: of the animal, "small" or "big"; None in a story about a thing.
        roles: what each word of the first sentence names: "animal", "thing", "person", "food",
            "place", or "-".
    """

    first: str
    second: str
    topic: str
    size: str | None
    roles: tuple[str, ...]

    @property
    def alive(self) -> bool:
        """Whether the story is about an animal."""
        return self.size is not None


def stories(n: int, *, seed: int = 0) -> list[Story]:
    """Draw `n` short stories from a grammar. Some may be equal.

    Only size and food together tell which animal it is: the *small* one that eats *fish* may be a
    cat, the *big* one a bear. *mouse* and *bat* are animals in some stories and things in others.
    The word that decides is to their left in some sentences and to their right in others. Two out
    of five first sentences about animals don't mention the size. The second sentence always does.

    Args:
        n: how many.
        seed: of the draw.

    Example:
        >>> for story in stories(3, seed=7):
        ...     print(f"{story.first}. {story.second}.")
        the old bat eats sweet fruit. then the small animal sleeps near the forest.
        the king clicks the old screen. then he reads the long letter.
        the woman swings the small glove. then she wins the long match.
    """
    check_count("n", n)
    seed = check_count("seed", seed, least=0)
    draw = random.Random(seed)
    return [_story(draw) for _ in range(n)]


def _story(draw: random.Random) -> Story:  # experiments/blanks_ceiling.py goes through all of them
    topic = draw.choice(TOPICS)
    return _of_animal(draw, topic) if topic in _ANIMALS else _of_thing(draw, topic)


def _of_animal(draw: random.Random, topic: str) -> Story:
    world, size = _ANIMALS[topic], draw.choice(("small", "big"))
    kind = draw.choice((size, size, size, "any", "mood"))
    adjective = kind if kind == size else draw.choice(_ANY if kind == "any" else _MOODS)
    animal = (adjective, draw.choice(world[size]))
    form = draw.choice(("eats", "eats", "rests", "care"))
    if form == "eats":
        food = (draw.choice(world["taste"]), draw.choice(world["food"]))
        first = ("the", *animal, draw.choice(("eats", "finds")), *food)
        roles = ("-", "-", "animal", "-", "-", "food")
    elif form == "rests":
        first = ("the", *animal, draw.choice(_RESTS), "near", "the", draw.choice(world["place"]))
        roles = ("-", "-", "animal", "-", "-", "-", "place")
    else:
        person = draw.choice(_PEOPLE[draw.choice(("she", "he"))])
        first = ("the", person, draw.choice(_CARES), "the", *animal)
        roles = ("-", "person", "-", "-", "-", "animal")
    rest, place = draw.choice(_RESTS), draw.choice(world["place"])
    second = f"then the {size} animal {rest} near the {place}"
    return Story(" ".join(first), second, topic, size, roles)


def _of_thing(draw: random.Random, topic: str) -> Story:
    world, who = _THINGS[topic], draw.choice(("she", "he"))
    adjective = draw.choice((*_ANY, "small", "big"))
    thing = (adjective, draw.choice(world["thing"]))
    if draw.random() < 0.5:
        first = ("the", draw.choice(_PEOPLE[who]), draw.choice(world["does"]), "the", *thing)
        roles = ("-", "person", "-", "-", "-", "thing")
    else:
        first = ("the", *thing, draw.choice(("lies", "falls")), "near", "the")
        first = (*first, draw.choice(world["place"]))
        roles = ("-", "-", "thing", "-", "-", "-", "place")
    what = f"{draw.choice(('long', 'short'))} {draw.choice(world['what'])}"
    second = f"then {who} {draw.choice(world['then'])} the {what}"
    return Story(" ".join(first), second, topic, None, roles)


def story_pairs(told: Sequence[Story], *, seed: int = 0) -> list[tuple[str, str, bool]]:
    """Return (sentence, sentence, whether the second follows the first) for each story.

    With probability 1/2, the second sentence comes from a story with another topic.

    Args:
        told: stories with at least two topics.
        seed: of the draw.

    Raises:
        TypeError: not a list of stories.
        ValueError: stories with fewer than two topics.

    Example:
        >>> for first, second, follows in story_pairs(stories(3, seed=7), seed=2):
        ...     print(f"{first}. {second}.", follows)
        the old bat eats sweet fruit. then the small animal sleeps near the forest. True
        the king clicks the old screen. then he reads the long letter. True
        the woman swings the small glove. then the small animal sleeps near the forest. False
    """
    found: list[Story] = items("told", told, "story")
    seed = check_count("seed", seed, least=0)
    for i, story in enumerate(found):
        check_type(f"story {i} of told", story, Story)
    if len({story.topic for story in found}) < 2:
        raise ValueError("told must hold stories with at least two topics")
    draw = random.Random(seed)
    pairs = []
    for story in found:
        other = story
        if draw.random() < 0.5:
            while other.topic == story.topic:
                other = draw.choice(found)
        pairs.append((story.first, other.second, other is story))
    return pairs
