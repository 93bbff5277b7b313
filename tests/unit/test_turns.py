"""Whose turn it is: who was idle has saved nothing, and who was served has not forgotten it."""

from __future__ import annotations

import numpy as np

from timerd.core.fairness import KeyedRows, LimitKeys
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


def test_a_key_alone_is_taken_in_one_go() -> None:
    mail = Mail()
    mail.file("a", 1_000)
    assert mail.take(600) == "a" * 600
    assert mail.keys.waiting(QUEUE, "a") == 400
