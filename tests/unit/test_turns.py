"""Whose turn it is: who was idle has saved nothing, and who was served has not forgotten it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from timerd.core.fairness import KeyedRows, LimitKeys
from timerd.core.fairness.limit_keys import KeyRoom, NoKeyLimits
from timerd.core.taken import QueueKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template

QUEUE = QueueKey("default", "mail")


class Mail:
    def __init__(self) -> None:
        self.keys = LimitKeys(set())
        self.home = KeyedRows(Partition(TIME_SCOPE, 0, 0), self.keys, lambda _: None)

    def file(self, limit_key: str, rows: int) -> None:
        group = RowGroup(np.zeros(rows, ROW), np.zeros(1, PREFIX), [Template(*QUEUE, limit_key=limit_key)], b"", [])
        self.home.file(QUEUE, group, rows)

    def take(self, most: int) -> str:
        turn = self.keys.turn(QUEUE, 0)
        names = "".join(chunk.limit_key(row) for chunk, row in turn.pick(most))
        turn.end()
        return names


def test_who_comes_later_has_saved_no_turns() -> None:
    mail = Mail()
    mail.file("a", 200)
    assert mail.take(100) == "a" * 100
    mail.file("b", 100)
    assert mail.take(20).count("b") in (10, 11)


def test_who_comes_again_and_again_does_not_go_before_who_waits() -> None:
    mail = Mail()
    mail.file("a", 50)
    sent = ""
    for _ in range(20):
        mail.file("b", 1)
        sent += mail.take(1)
    assert sent.count("a") == sent.count("b") == 10


class Weights(NoKeyLimits):
    """Key limits that know nothing but weights."""

    def __init__(self, **weights: float) -> None:
        self._weights = weights

    def weight(self, queue: QueueKey, limit_key: str, now_ms: int) -> float:
        return self._weights.get(limit_key, 1.0)


@pytest.mark.parametrize("at_once", [1, 7, 100])
def test_a_key_of_weight_three_starts_three_for_one(at_once: int) -> None:
    """Whatever one take takes. One that was idle has saved nothing."""
    mail = Mail()
    mail.keys.goes_by(Weights(a=3, c=0.25))
    for key in "abc":
        mail.file(key, 1_000)
    sent = "".join(mail.take(at_once) for _ in range(1_000 // at_once))
    assert sent.count("a") == pytest.approx(3 * sent.count("b"), rel=0.05)
    assert sent.count("b") == pytest.approx(4 * sent.count("c"), rel=0.05)
    mail.file("d", 1_000)
    assert "".join(mail.take(1) for _ in range(52)).count("d") in range(9, 13)
    mail.keys.goes_by(Weights(d=5))
    assert "".join(mail.take(1) for _ in range(80)).count("d") in range(48, 53)


def test_a_key_alone_is_taken_in_one_go() -> None:
    mail = Mail()
    mail.file("a", 1_000)
    assert mail.take(600) == "a" * 600
    assert mail.keys.waiting(QUEUE, "a") == 400


class OneIsBlocked(NoKeyLimits):
    """A key may start nothing until something of it ends. `asked`: how often somebody asked for it."""

    def __init__(self, limit_key: str) -> None:
        self._limit_key = limit_key
        self.asked = 0

    def room(self, queue: QueueKey, limit_key: str, picked: int, now_ms: int) -> KeyRoom:
        if limit_key != self._limit_key:
            return super().room(queue, limit_key, picked, now_ms)
        self.asked += 1
        return KeyRoom(0, math.inf)


def test_a_blocked_key_stops_nobody_and_is_not_looked_at_again() -> None:
    mail, limits = Mail(), OneIsBlocked("a")
    mail.keys.goes_by(limits)
    mail.file("a", 50)
    mail.file("b", 50)
    assert mail.take(5) == "b" * 5
    asked = limits.asked
    assert "".join(mail.take(5) for _ in range(9)) == "b" * 45
    assert limits.asked == asked


class Told(OneIsBlocked):
    """As that, until somebody says that something of it has ended."""

    def on_less(self, queue: QueueKey, limit_key: str, told: Callable[[], None]) -> None:
        self.told = told

    def end(self) -> None:
        self._limit_key = ""
        self.told()


def test_a_key_that_had_to_wait_keeps_its_place_among_equals() -> None:
    mail, limits = Mail(), Told("a")
    mail.keys.goes_by(limits)
    for key in "abc":
        mail.file(key, 2)
    assert mail.take(1) == "b"
    limits.end()
    assert mail.take(2) == "ac"
    assert mail.take(3) == "bac"
