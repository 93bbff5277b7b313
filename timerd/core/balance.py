"""Where members of a high cost go, so that no slot of a cycle costs much more than the others.

A member has eight candidate places on the circle, of which the first is that of its hash. One that costs more than a
fiftieth of a slot's mean may be moved to another one; all others stay, for moving them changes little.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from timerd.core.slots import hash_of, slot_of

CANDIDATES = 8
# A slot may cost so many times the mean.
AIM = 1.15
# Of a slot's mean: what costs less is never moved.
HEAVY_PART = 50
# Of them, the costliest.
MOST_HEAVY = 10_000


class WeightedMember(NamedTuple):
    """`place`: the hash that counts, its own one or where it was moved. `behind`: it has its turn so many slots later,
    around the circle; of each kind of turn that a key has there is one of these, and they move together."""

    weight: float
    key: str
    place: int
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Balance:
    """`places`: of those that were moved. Costs are sums of weights. `largest_key`: of the member whose slot costs more
    than it may, wherever it is, for the light ones of a slot stay there; empty: there is none."""

    places: Mapping[str, int]
    members: int
    mean: float
    largest_before: float
    largest: float
    largest_key: str = ""


class SlotCosts:
    """Members are added one by one: of most only the sum of their slot is kept."""

    def __init__(self, slots: int) -> None:
        self.sums = [0.0] * slots
        self.members = 0
        self._costliest: list[WeightedMember] = []

    def add(self, member: WeightedMember) -> None:
        self.members += 1
        self.sums[(slot_of(member.place, len(self.sums)) + member.behind) % len(self.sums)] += member.weight
        if len(self._costliest) < MOST_HEAVY:
            heapq.heappush(self._costliest, member)
        elif member > self._costliest[0]:
            heapq.heapreplace(self._costliest, member)

    @property
    def mean(self) -> float:
        return sum(self.sums) / len(self.sums)

    def heavy(self) -> list[WeightedMember]:
        """The costliest first."""
        least = self.mean / HEAVY_PART
        return sorted((each for each in self._costliest if each.weight > least), reverse=True)


def candidates(key: str) -> list[int]:
    """The same in every language: the hash of the key, then those of the key, a line feed and a number from 1 on."""
    return [hash_of(key), *(hash_of(f"{key}\n{number}") for number in range(1, CANDIDATES))]


def balanced(costs: SlotCosts, most_moved: int) -> Balance:
    """The costliest slot gives one member away after the other, until none costs more than 1.15 times the mean, nothing
    more helps, or so many are moved."""
    heavy, mean = costs.heavy(), costs.mean
    moving = _Moving(list(costs.sums), heavy)
    while len(moving.places) < most_moved and moving.lighten(AIM * mean):
        pass
    light = mean - sum(each.weight for each in heavy) / len(costs.sums)
    giant = heavy[0].key if heavy and heavy[0].weight + light > AIM * mean else ""
    return Balance(moving.moved(), costs.members, mean, max(costs.sums), max(moving.sums), giant)


class _Moving:
    def __init__(self, sums: list[float], heavy: Sequence[WeightedMember]) -> None:
        self.sums = sums
        self.places: dict[str, int] = {}
        self._before = {each.key: each.place for each in heavy}
        # The kinds of each key; and by slot the keys of which some kind is there, in the order in which they came.
        self._kinds: dict[str, list[WeightedMember]] = {}
        self._keys: dict[int, dict[str, None]] = {}
        for each in heavy:
            self._kinds.setdefault(each.key, []).append(each)
            self._keys.setdefault(self._slot(each, each.place), {})[each.key] = None
        # The costliest first; a sum that is not that of its slot any more is left out.
        self._order = [(-cost, slot) for slot, cost in enumerate(sums)]
        heapq.heapify(self._order)

    def lighten(self, limit: float) -> bool:
        """Whether a member was moved out of some slot that costs more than the limit."""
        while self._order:
            cost, slot = -self._order[0][0], self._order[0][1]
            if cost != self.sums[slot]:
                heapq.heappop(self._order)
            elif cost <= limit:
                return False
            elif (found := self._best(slot)) is not None:
                self._move(*found)
                return True
            else:
                # Nothing helps it.
                heapq.heappop(self._order)
        return False

    def _best(self, slot: int) -> tuple[str, int] | None:
        """Of its members and their candidates: where all slots that change are cheapest afterwards. None: they never
        get cheaper than this one is."""
        options = (
            (max(self.sums[where] + more for where, more in changes.items()), key, place)
            for key in self._keys.get(slot, ())
            for place in candidates(key)
            if (changes := self._changes(key, place))
        )
        dearest, key, place = min(options, default=(self.sums[slot], "", 0), key=lambda option: option[0])
        return (key, place) if dearest < self.sums[slot] else None

    def _changes(self, key: str, place: int) -> dict[int, float]:
        """What each slot costs more, were the key there; empty: it stays in its slots."""
        changes: dict[int, float] = {}
        for each in self._kinds[key]:
            here, there = self._slot(each, each.place), self._slot(each, place)
            if here == there:
                return {}
            changes[here] = changes.get(here, 0.0) - each.weight
            changes[there] = changes.get(there, 0.0) + each.weight
        return changes

    def _move(self, key: str, place: int) -> None:
        changes, kinds = self._changes(key, place), self._kinds[key]
        for each in kinds:
            self._keys[self._slot(each, each.place)].pop(key, None)
        self._kinds[key] = [each._replace(place=place) for each in kinds]
        for each in kinds:
            self._keys.setdefault(self._slot(each, place), {})[key] = None
        self.places[key] = place
        for slot, more in changes.items():
            self.sums[slot] += more
            heapq.heappush(self._order, (-self.sums[slot], slot))

    def _slot(self, member: WeightedMember, place: int) -> int:
        return (slot_of(place, len(self.sums)) + member.behind) % len(self.sums)

    def moved(self) -> dict[str, int]:
        """Without those that came back to where they were."""
        return {key: place for key, place in self.places.items() if place != self._before[key]}


def merged(before: Mapping[str, int], moved: Mapping[str, int], alive: Iterable[str]) -> dict[str, int]:
    """The places of a new layout: those who are members, and are not where their hash is."""
    places = {**before, **moved}
    return {key: places[key] for key in alive if key in places and places[key] != hash_of(key)}
