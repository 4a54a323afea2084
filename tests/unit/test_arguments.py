"""Checks of single values: what they let through and what they say."""

import pytest
import torch

from transformer_lib.arguments import check_number, check_vectors


@pytest.mark.parametrize("ends", ["[]", "[)", "(]", "()"])
def test_a_range_includes_its_ends_or_not(ends: str) -> None:
    for value, allowed in ((0, ends[0] == "["), (0.5, True), (1.0, ends[1] == "]")):
        if allowed:
            check_number("p", value, 0, 1, ends)
        else:
            message = rf"p must be in \{ends[0]}0, 1\{ends[1]}, got {value}"
            with pytest.raises(ValueError, match=message):
                check_number("p", value, 0, 1, ends)
    for value in (-1, 2, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="p must be in"):
            check_number("p", value, 0, 1, ends)


@pytest.mark.parametrize(("ends", "words"), [("[)", "of at least 0"), ("()", "above 0")])
def test_a_range_without_an_end(ends: str, words: str) -> None:
    check_number("eps", 10**300, 0, ends=ends)
    for value in (-1, float("inf"), float("nan"), 10**400):
        with pytest.raises(ValueError, match=f"eps must be a finite number {words}"):
            check_number("eps", value, 0, ends=ends)
    with pytest.raises(TypeError, match=r"eps must be a finite number.*True"):
        check_number("eps", True, 0, ends=ends)


def test_under_autocast_vectors_are_of_any_floating_dtype_but_float64():
    like = torch.zeros(3)
    with torch.autocast("cpu", torch.bfloat16):
        check_vectors("x", like.bfloat16(), 3, like, dims=1)
        for x, other in ((like.double(), like), (like, like.double())):
            with pytest.raises(TypeError, match=f"x must be {other.dtype} like"):
                check_vectors("x", x, 3, other, dims=1)
