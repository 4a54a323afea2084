"""Chapter 15's checker: right answers in every form, and what is said of wrong ones."""

from itertools import combinations, product
from statistics import mean

from tests.unit.judging import table
from transformer_lib.checks.chapter15 import check


def by_product(differences):
    actual, found = mean(differences) - 1e-9, []
    for signs in product((1, -1), repeat=len(differences)):
        found.append(mean(s * d for s, d in zip(signs, differences, strict=True)) >= actual)
    return sum(found) / len(found)


def by_subsets(differences):
    # flipping a set takes twice its sum away: at least as large when that sum is not positive
    n, count = len(differences), 0
    for size in range(n + 1):
        count += sum(sum(flipped) <= 1e-9 for flipped in combinations(differences, size))
    return count / 2**n


def one_at_a_time_alone(differences):
    found = [sum(differences) - 2 * difference for difference in differences]
    return sum(one >= sum(differences) for one in found) / len(found)


def in_place(differences):
    for i, difference in enumerate(differences):
        differences[i] = 2 * difference
    return by_product(differences)


test_right, test_wrong = table(
    check,
    right={
        "share_of_flips": [
            by_product,
            by_subsets,
        ]
    },
    wrong={
        "share_of_flips": [
            (lambda differences: 1 - by_product(differences), "two pairs have four ways"),
            (one_at_a_time_alone, "as it is, and flipped"),
            (in_place, "changes its input `differences`"),
        ]
    },
)
