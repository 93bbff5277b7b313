"""Histories with limit keys: the correct core keeps every promise, and each broken rule is caught."""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulator.keyed import judged_keyed
from tests.simulator.narrow import judged_narrow
from timerd.core.fairness import KeyedRows, LimitKeys
from timerd.core.partition.left_in_store import LeftInStore
from timerd.core.partition.reload import Reload
from timerd.core.partition.rows_in_hand import RowsInHand
from timerd.core.regulation import RuleKeyLimits, SharedKeyLimits

SEEDS = range(60)
# In so many deliveries at the least something else of the key, or of another key, waited for certain.
LIMITS, TURNS = 20, 15
# In little memory; and how often keys were cut, and brought in again.
NARROW_SEEDS, NARROW_TURNS, NARROW_CUTS = range(24), 100, 40


@pytest.mark.timeout(600)
def test_no_key_is_above_its_limit_and_each_has_its_turn() -> None:
    limits = turns = 0
    for seed in SEEDS:
        verdict, checker = judged_keyed(seed, once=seed % 3 == 0)
        assert not verdict.wrong, f"{verdict.replay}: {verdict.wrong}"
        limits, turns = limits + checker.judged_limits, turns + checker.judged_turns
    assert (limits >= LIMITS, turns >= TURNS) == (True, True), (limits, turns)


@pytest.mark.timeout(600)
def test_a_key_with_few_tasks_does_not_stand_behind_another_one_in_the_store() -> None:
    turns = cuts = reloads = 0
    leave, taken_out = LeftInStore.leave_of_keys, LeftInStore.taken_out

    def counted_leave(self: LeftInStore, *given: Any) -> None:
        nonlocal cuts
        cuts += 1
        leave(self, *given)

    def counted_reload(self: LeftInStore, *given: Any) -> Reload:
        nonlocal reloads
        found = taken_out(self, *given)
        reloads += bool(found.keys)
        return found

    with (
        patch.object(LeftInStore, "leave_of_keys", counted_leave),
        patch.object(LeftInStore, "taken_out", counted_reload),
    ):
        for seed in NARROW_SEEDS:
            verdict, checker = judged_narrow(seed, once=seed % 3 == 0)
            assert not verdict.wrong, f"{verdict.replay}: {verdict.wrong}"
            turns += checker.judged_turns
    assert (turns >= NARROW_TURNS, cuts >= NARROW_CUTS, reloads >= NARROW_CUTS) == (True, True, True)


@contextmanager
def in_hand_forgotten() -> Iterator[None]:
    room = RuleKeyLimits.room

    def forgets(self: Any, queue: Any, limit_key: str, picked: int, now_ms: int) -> Any:
        with patch.object(self._hands, "open", lambda *_: 0):
            return room(self, queue, limit_key, 0, now_ms)

    with patch.object(RuleKeyLimits, "room", forgets):
        yield


@contextmanager
def ends_unheard() -> Iterator[None]:
    """Who waits for the end of a delivery of its key is not told."""
    with patch.object(SharedKeyLimits, "on_less", lambda *_: None):
        yield


@contextmanager
def first_come() -> Iterator[None]:
    """What was filed first goes first, whosoever it is."""

    def turn(self: Any, queue: Any, now_ms: int, *, of: Any = LimitKeys.turn) -> Any:
        found = of(self, queue, now_ms)
        for line in found._turns.lines.values():
            head = line.head()
            line.tag, line.is_ready = float(head[0].order[head[1]]) if head is not None else line.tag, False
            found._turns.ready(line)
        return found

    with patch.object(LimitKeys, "turn", turn):
        yield


@contextmanager
def filed_is_forgotten() -> Iterator[None]:
    """What waits for its turn holds no mark back."""

    def oldest(_: Any) -> None:
        return None

    with patch.object(KeyedRows, "oldest_ms", oldest):
        yield


# By the seeds that show them; more are tried, for a change of the core gives other histories.
BROKEN: dict[str, tuple[Callable[[], AbstractContextManager[None]], Iterable[int]]] = {
    "in-hand-forgotten": (in_hand_forgotten, range(60)),
    "ends-unheard": (ends_unheard, range(60)),
    "first-come": (first_come, (772, 1556, *(seed for seed in range(900) if seed % 28 in (2, 16)))),
    "filed-is-forgotten": (filed_is_forgotten, range(60)),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_rule_is_caught(name: str) -> None:
    broken, seeds = BROKEN[name]
    with broken():
        assert any(judged_keyed(seed, once=seed % 3 == 0)[0].wrong for seed in seeds)


@contextmanager
def cut_by_queue() -> Iterator[None]:
    """A queue is cut at one place, whosever tasks stand behind it."""

    def cut(self: RowsInHand, queue: Any, share: float) -> None:
        if self.waiting.lane_rows(queue) > 1:
            self._cut(queue, self.waiting.lowest(queue, int(share * self.lane_bytes(queue))))

    with patch.object(RowsInHand, "_cut_keys", cut):
        yield


@contextmanager
def rest_not_brought() -> Iterator[None]:
    """What was cut is forgotten when it should be brought in again."""

    def taken_out(self: LeftInStore, queue: Any, _: Any, *, of: Any = LeftInStore.taken_out) -> Reload:
        found: Reload = of(self, queue, ())
        return found._replace(keys=dict(list(found.keys.items())[1:]))

    with patch.object(LeftInStore, "taken_out", taken_out):
        yield


@contextmanager
def cursors_hold_no_mark() -> Iterator[None]:
    with patch.object(LeftInStore, "oldest_ms", lambda _: None):
        yield


NARROW_BROKEN = {
    "cut-by-queue": cut_by_queue,
    "rest-not-brought": rest_not_brought,
    "cursors-hold-no-mark": cursors_hold_no_mark,
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NARROW_BROKEN)
def test_each_broken_rule_of_little_memory_is_caught(name: str) -> None:
    with NARROW_BROKEN[name]():
        assert any(judged_narrow(seed, once=seed % 3 == 0)[0].wrong for seed in range(60))
