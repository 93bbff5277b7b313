"""Weights by Zipf's law, exponent 1.1: after a rebalance no slot costs more than 1.15 times the mean, but for those of
members that make any slot cost more."""

from __future__ import annotations

import random

import pytest

from timerd.core.balance import AIM, HEAVY_PART, Balance, SlotCosts, WeightedMember, balanced
from timerd.core.slots import hash_of, slot_of

MEMBERS = 20_000


def zipf(seed: int) -> dict[str, float]:
    ranks = list(range(1, MEMBERS + 1))
    random.Random(seed).shuffle(ranks)
    return {f"{seed}-{number}": rank**-1.1 for number, rank in enumerate(ranks)}


def costs_of(weights: dict[str, float], slots: int) -> SlotCosts:
    costs = SlotCosts(slots)
    for key, weight in weights.items():
        costs.add(WeightedMember(weight, key, hash_of(key)))
    return costs


def slots_after(weights: dict[str, float], balance: Balance, slots: int) -> list[list[str]]:
    members: list[list[str]] = [[] for _ in range(slots)]
    for key in weights:
        members[slot_of(balance.places.get(key) or hash_of(key), slots)].append(key)
    return members


@pytest.mark.parametrize("slots", [3, 6, 24, 96])
def test_slots_without_a_giant_are_even(slots: int) -> None:
    weights = zipf(slots)
    costs = costs_of(weights, slots)
    balance = balanced(costs, MEMBERS // 100)
    mean = sum(weights.values()) / slots
    light = sum(each for each in weights.values() if each <= mean / HEAVY_PART) / slots
    giants = {key for key, weight in weights.items() if weight + light > AIM * mean}
    after = slots_after(weights, balance, slots)
    even = [sum(weights[key] for key in members) for members in after if not giants & {*members}]
    assert max(even) <= AIM * mean
    assert len(even) >= slots - len(giants)
    assert balance.largest_key == (max(giants, key=weights.__getitem__) if giants else "")
    assert balance.largest == pytest.approx(max(sum(weights[key] for key in members) for members in after))


def test_none_is_named_where_all_slots_can_be_even() -> None:
    weights = {f"m{number}": 1.0 for number in range(5_000)}
    balance = balanced(costs_of(weights, 10), 50)
    assert (balance.places, balance.largest_key) == ({}, "")
