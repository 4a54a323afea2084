"""The stories of chapters 19 and 20 are what their docstring promises."""

from collections import defaultdict

import pytest

from transformer_lib.data import stories, story_pairs

TOLD = stories(12_000, seed=1)


def test_each_word_has_a_role_and_one_word_is_the_subject():
    assert stories(5, seed=3) == stories(5, seed=3) != stories(5, seed=4)
    for story in TOLD:
        assert len(story.roles) == len(story.first.split())
        assert sum(role in ("animal", "thing") for role in story.roles) == 1
        assert ("animal" in story.roles) == story.alive


def test_two_words_name_animals_as_well_as_things():
    named = defaultdict(set)
    for story in TOLD:
        for word, role in zip(story.first.split(), story.roles, strict=True):
            named[word].add(role)
    assert {word for word, roles in named.items() if len(roles) > 1} == {"mouse", "bat"}
    assert named["mouse"] == named["bat"] == {"animal", "thing"}


def test_what_decides_is_to_the_left_in_some_sentences_and_to_the_right_in_others():
    left, right = defaultdict(set), defaultdict(set)
    for story in TOLD:
        words = story.first.split()
        for i, word in enumerate(words):
            if word in ("mouse", "bat"):
                left[tuple(words[:i])].add(story.alive)
                right[tuple(words[i + 1 :])].add(story.alive)
    assert any(len(senses) == 2 for senses in left.values())  # the old mouse ...
    assert right[()] == {True, False}  # ... the old mouse
    assert all(len(senses) == 1 for there, senses in left.items() if len(there) > 3)
    assert all(len(senses) == 1 for there, senses in right.items() if there)


def test_the_words_on_both_sides_tell_which_animal_it_is():
    between = {(s.first.split()[1], s.first.split()[-1], s.first.split()[2])
               for s in TOLD if " eats " in s.first}  # fmt: skip
    small_fish = {animal for size, food, animal in between if (size, food) == ("small", "fish")}
    assert small_fish == {"cat", "otter", "heron", "penguin"}
    assert len({animal for size, _, animal in between if size == "small"}) == 12
    assert len({animal for _, food, animal in between if food == "fish"}) == 8
    hungry = {animal for mood, _, animal in between if mood == "hungry"}
    assert {"cat", "bear", "mouse", "cow"} <= hungry  # of both sizes


def test_the_second_sentence_fits_the_first():
    for story in TOLD:
        assert (story.size or "the") in story.second
        who = {"girl": "she", "man": "he"}.get(story.first.split()[1])
        assert story.alive or who in (None, story.second.split()[1])


def test_half_of_the_pairs_follow_and_the_others_have_another_topic():
    pairs = story_pairs(TOLD, seed=2)
    assert pairs == story_pairs(TOLD, seed=2)
    assert 0.45 < sum(follows for _, _, follows in pairs) / len(pairs) < 0.55
    topics = defaultdict(set)
    for story in TOLD:
        topics[story.second].add(story.topic)
    for story, (first, second, follows) in zip(TOLD, pairs, strict=True):
        assert first == story.first
        assert (second == story.second) if follows else (story.topic not in topics[second])


def test_stories_of_one_topic_have_no_others_to_mix_with():
    with pytest.raises(ValueError, match="two topics"):
        story_pairs(TOLD[:1])
