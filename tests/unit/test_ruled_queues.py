"""Limits that go by rules are asked of queues that have any."""

from __future__ import annotations

import math

from timerd.core.dispatch import Allowance, Slice
from timerd.core.regulation import AllRules, KnownRules, RuledQueues
from timerd.core.taken import QueueKey
from timerd.model.regulations import Regulation

PLAIN, RULED = QueueKey("default", "plain"), QueueKey("default", "ruled")


class OneAtATime:
    """A limit that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[QueueKey] = []

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        self.asked.append(queue)
        return Allowance(min(tasks, 1), now_ms)

    def sent(self, sent: Slice) -> float:
        self.asked.append(sent.queue)
        return sent.now_ms + 5

    def forget(self, queue: QueueKey) -> None:
        self.asked.append(queue)


def sent(queue: QueueKey) -> Slice:
    return Slice(queue, 1_000, 1, 1, 10, is_dry=False, is_all=True)


def test_a_queue_without_rules_pays_for_none() -> None:
    known, limit = KnownRules(), OneAtATime()
    known.read(AllRules({RULED: Regulation(revision=1)}, {}), known.life)
    limits = RuledQueues(known, [limit])
    assert (limits.allow(PLAIN, 7, 1_000), limits.sent(sent(PLAIN))) == (Allowance(7, 1_000), 1_000)
    assert limit.asked == []
    assert (limits.allow(RULED, 7, 1_000).tasks, limits.sent(sent(RULED))) == (1, 1_005)
    assert limit.asked == [RULED, RULED]


def test_before_the_rules_are_read_every_queue_is_asked_for() -> None:
    known, limit = KnownRules(), OneAtATime()
    limits = RuledQueues(known, [limit])
    assert limits.allow(PLAIN, 7, 1_000).tasks == 1
    assert limits.allow(PLAIN, 0, 1_000).next_ms == 1_000 < math.inf
    limits.forget(PLAIN)
    assert limit.asked == [PLAIN, PLAIN, PLAIN]
