"""Histories with ordering keys: the correct core keeps every promise, and each broken rule is caught."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

import timerd.core.protocol.move as move_module
from tests.simulator.ordered import judged_ordered
from timerd.core.ordering import Halts, OrderKeys
from timerd.services.holding.halting import Halting

# The last ones have keys that stand still and are redriven while others wait.
SEEDS = (*range(45), 97, 115, 211)
# So many deliveries followed another one of their key, and so many another one that had halted it.
SERIAL, HALTS = 100, 3


@pytest.mark.timeout(600)
def test_one_of_a_key_at_a_time_in_order_and_none_while_it_stands_still() -> None:
    serial = halts = 0
    for seed in SEEDS:
        verdict, checker = judged_ordered(seed, once=seed % 2 == 0)
        assert not verdict.wrong, f"seed {seed}: {verdict.wrong}"
        serial, halts = serial + checker.judged_serial, halts + checker.judged_halts
    assert (serial >= SERIAL, halts >= HALTS) == (True, True), (serial, halts)


def next_beside() -> AbstractContextManager[Any]:
    """The next one does not wait for the end of the one before."""
    return patch.object(OrderKeys, "is_next", lambda _, filed: filed.line.first() is filed)


def sent_blocks_nothing() -> AbstractContextManager[Any]:
    return patch.object(OrderKeys, "block", lambda *_: None)


def dead_halts_nothing() -> AbstractContextManager[Any]:
    return patch.object(Halting, "of", lambda *_: [])


def redriven_behind() -> AbstractContextManager[Any]:
    """What is redriven has its place by its new time."""
    return patch.object(move_module, "at_place", lambda extra, *_: extra)


def redriven_not_waited_for() -> AbstractContextManager[Any]:
    """While what is redriven is on its way to its place, the others go."""
    return patch.object(Halts, "lets_go", lambda self, queue, key, *_: self.find(queue, key) is None)


# By the seeds that show them; more are tried, for a change of the core gives other histories.
HOLD, HALT, PASS = (range(first, 600, 3) for first in range(3))
BROKEN: dict[str, tuple[Callable[[], AbstractContextManager[Any]], Iterable[int]]] = {
    "next-beside": (next_beside, (42, 84, 132, *HOLD)),
    "sent-blocks-nothing": (sent_blocks_nothing, (5, 62, 104, *PASS)),
    "dead-halts-nothing": (dead_halts_nothing, (97, *HALT)),
    "redriven-behind": (redriven_behind, (97, 118, 145, *HALT)),
    "redriven-not-waited-for": (redriven_not_waited_for, (97, 907, *HALT)),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_rule_is_caught(name: str) -> None:
    broken, seeds = BROKEN[name]
    with broken():
        assert any(judged_ordered(seed, once=seed % 2 == 0)[0].wrong for seed in seeds)
