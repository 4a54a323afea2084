"""Chapter 15's checker: right answers in every form, and what is said of wrong ones."""

from itertools import combinations, product
from statistics import mean

import numpy as np
import torch

from tests.unit.judging import table
from transformer_lib.checks.chapter15 import check


def by_product(differences):
    actual, found = mean(differences) - 1e-9, []
    for signs in product((1, -1), repeat=len(differences)):
        found.append(mean(s * d for s, d in zip(signs, differences, strict=True)) >= actual)
    return sum(found) / len(found)


def by_bits(differences):
    n, count = len(differences), 0
    for number in range(2**n):
        total = 0.0
        for i, difference in enumerate(differences):
            total += -difference if number >> i & 1 else difference
        count += total - sum(differences) > -1e-9
    return count / 2**n


def by_subsets(differences):
    # flipping a set takes twice its sum away: at least as large when that sum is not positive
    n, count = len(differences), 0
    for size in range(n + 1):
        count += sum(sum(flipped) <= 1e-9 for flipped in combinations(differences, size))
    return count / 2**n


def by_numpy(differences):
    signs = np.array(list(product((1, -1), repeat=len(differences))))
    sums = signs @ np.array(differences)
    return ((sums > np.sum(differences)) | np.isclose(sums, np.sum(differences))).mean()


def by_torch(differences):
    signs = torch.cartesian_prod(*[torch.tensor([1.0, -1.0])] * len(differences))
    sums = signs.view(-1, len(differences)) @ torch.tensor(differences)
    return (sums >= sum(differences) - 1e-6).double().mean()


def by_splitting(differences):
    def sums(rest):
        return [0.0] if not rest else [s + x for x in sums(rest[1:]) for s in (rest[0], -rest[0])]

    found = sums(list(differences))
    return sum(round(one, 6) >= round(sum(differences), 6) for one in found) / len(found)


def all_means(differences, signs=(1, -1)):
    ways = product(signs, repeat=len(differences))
    return [mean(s * d for s, d in zip(way, differences, strict=True)) for way in ways]


def one_at_a_time_alone(differences):
    found = [sum(differences) - 2 * difference for difference in differences]
    return sum(one >= sum(differences) for one in found) / len(found)


def with_zero(differences):
    found = all_means(differences, (-1, 0, 1))
    return sum(one >= mean(differences) for one in found) / len(found)


def in_place(differences):
    for i, difference in enumerate(differences):
        differences[i] = 2 * difference
    return by_product(differences)


test_right, test_wrong = table(
    check,
    right={"share_of_flips": [by_product, by_bits, by_subsets, by_numpy, by_torch, by_splitting]},
    wrong={
        "share_of_flips": [
            (lambda differences: 1 - by_product(differences), "two pairs have four ways"),
            (one_at_a_time_alone, "as it is, and flipped"),
            (with_zero, "one pair has two ways"),
            (lambda differences: [by_product(differences)], "it must be one number"),
            (in_place, "changes its input `differences`"),
        ]
    },
)
