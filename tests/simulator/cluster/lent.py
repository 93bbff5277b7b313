"""Histories of a cluster in which so many of a queue are in hand at most, of all instances together.

The checker of clusters judges them, and beside it each start (G20): by what workers are known to have in hand when it
is sent, under leases that are not over, there are no more than the limit allows. Also around a fault: what a dead
instance had sent counts until its leases are over. All is delivered at last.
`python -m tests.simulator.cluster.lent --seeds 1000`; `--seed 7` shows one as a trace, `--variant` breaks a rule.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from math import inf
from typing import Any
from unittest.mock import patch

from tests.simulator.checker import CLEAN_STOP_MS
from tests.simulator.cluster.branches import watched_cluster
from tests.simulator.cluster.checker import ClusterChecker
from tests.simulator.cluster.forms import ClusterForm
from tests.simulator.cluster.judge import STOP_MS
from tests.simulator.cluster.ruled import QUEUE, RuledStory
from tests.simulator.events import Broke, Delivered, Held, Settled
from tests.simulator.judge import Verdict, noted, sentences, trace_of
from tests.simulator.repeats import Repeats
from tests.simulator.sizes import sizes_of
from tests.simulator.story import told
from timerd.core.regulation import BorrowedPermits, PermitKeeper
from timerd.model.regulations import QueueLimit

# The server counts leases in whole milliseconds, and looks now and then.
ROUNDED_MS = 2


def most_of(seed: int) -> int:
    return (1, 2, 3)[seed % 3]


class LentStory(RuledStory):
    def limit(self) -> QueueLimit:
        return QueueLimit(most_of(self.seed))


# -- the judge ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Hold:
    """A delivery that has come to a worker. `until_ms`: its lease is over for certain not before. `ended_ms`: when the
    worker has said something of it, or is not known to have it any more."""

    name: str
    worker: str
    delivery_id: bytes
    came_ms: float
    lease_ms: int
    until_ms: float
    ended_ms: float = inf

    def is_in_hand(self, at_ms: float) -> bool:
        return self.came_ms <= at_ms < min(self.until_ms, self.ended_ms)


class LentChecker(ClusterChecker):
    """`most`: of the queue in hand."""

    def __init__(self, most: int, *given: Any) -> None:
        super().__init__(*given)
        self._most = most
        self._holds: list[_Hold] = []
        # How often a start came while as many were in hand as may be beside it.
        self.judged = 0

    def _delivered(self, got: Delivered) -> None:
        task = self._tasks.get(got.name)
        if task is not None and task.wanted.queue == QUEUE.queue:
            self._judge_start(got)
            # A later attempt that the same worker has is one in hand.
            self._let_go(got.worker, got.sent_ms, {got.delivery_id})
            until_ms = got.sent_ms + got.lease_ms - self._unsure_ms - ROUNDED_MS
            self._holds.append(_Hold(got.name, got.worker, got.delivery_id, got.at_ms, got.lease_ms, until_ms))
        super()._delivered(got)

    def _judge_start(self, got: Delivered) -> None:
        at_ms = got.sent_ms
        beside = [
            each
            for each in self._holds
            if each.is_in_hand(at_ms) and not self._is_same(each, got) and self._go_by_one(each.name, got.name)
        ]
        self.judged += len(beside) == self._most - 1
        if len(beside) >= self._most:
            names = ", ".join(f"{each.name} of {each.worker}" for each in beside)
            self._wrong(f"G20: {got.name} was sent beside {names}: {self._most} may be in hand")

    def _go_by_one(self, _: str, __: str) -> bool:
        """Whether tasks of these names count for one limit."""
        return True

    @staticmethod
    def _is_same(hold: _Hold, got: Delivered) -> bool:
        """To the same worker once more: it has one."""
        return (hold.worker, hold.delivery_id) == (got.worker, got.delivery_id)

    def _say(self, said: Settled) -> None:
        self._let_go(said.worker, said.at_ms, {said.delivery_id})
        super()._say(said)

    def _release(self, worker: str, ids: Any) -> None:
        if ids is not None:
            self._let_go(worker, self._now_ms, set(ids))
        super()._release(worker, ids)

    def _broke(self, broke: Broke) -> None:
        """Of whom hangs up nobody knows whether it goes on."""
        if broke.hung_up:
            self._let_go(broke.worker, broke.at_ms, None)
        super()._broke(broke)

    def _held(self, held: Held) -> None:
        """An extension counts as far as it was heard for certain."""
        if not (held.resumed or self._is_shaken or self._is_stopping):
            for hold in self._held_by(held.worker, set(held.delivery_ids)):
                hold.until_ms = max(hold.until_ms, held.at_ms + held.lease_ms - self._unsure_ms - ROUNDED_MS)
        super()._held(held)

    def _let_go(self, worker: str, at_ms: float, ids: set[bytes] | None) -> None:
        for hold in self._held_by(worker, ids):
            hold.ended_ms = min(hold.ended_ms, at_ms)

    def _held_by(self, worker: str, ids: set[bytes] | None) -> list[_Hold]:
        return [each for each in self._holds if each.worker == worker and (ids is None or each.delivery_id in ids)]


# -- broken rules ------------------------------------------------------------------------------------------------------


@contextmanager
def lends_at_once() -> Iterator[None]:
    """P2: a new keeper does not ask what others have."""
    with patch.object(PermitKeeper, "unheard", lambda _: []):
        yield


@contextmanager
def dead_have_nothing() -> Iterator[None]:
    """P5: what an instance had that is gone is free at once."""

    def gone(self: Any, name: str, *_: Any) -> None:
        self._expected.pop(name, None)
        self._borrowers.pop(name, None)

    with patch.object(PermitKeeper, "_gone", gone), patch.object(PermitKeeper, "_take_unknown", lambda *_: None):
        yield


@contextmanager
def late_grants_count() -> Iterator[None]:
    """P3: a grant counts that answers an earlier statement."""
    with patch.object(BorrowedPermits, "_counts", lambda *_: True):
        yield


@contextmanager
def lent_to_each() -> Iterator[None]:
    """P1: what others have is not taken off."""
    with patch.object(PermitKeeper, "free", lambda _, limit: limit):
        yield


BROKEN: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "correct": nullcontext,
    "lent-to-each": lent_to_each,
    "lends-at-once": lends_at_once,
    "dead-have-nothing": dead_have_nothing,
    "late-grants-count": late_grants_count,
}


# -- histories ---------------------------------------------------------------------------------------------------------


def judged_lent(seed: int, broken: str = "correct", *, traced: bool = False) -> Verdict:
    """As judge.judged."""
    with BROKEN[broken](), sizes_of(seed), watched_cluster(), noted() as errors:
        story = told(LentStory(seed, repeats=Repeats(seed)))
    stop_ms = STOP_MS if story.shape is ClusterForm.OVERRUN else CLEAN_STOP_MS
    checker = LentChecker(most_of(seed), story.timing.ttl_ms, story.skew_ms, story.way_ms, stop_ms)
    wrong = sorted([*checker.judge(story.events), *story.broken])
    hits = Counter(starts=len(story.starts), judged=checker.judged)
    trace = tuple(trace_of(story, wrong)) if traced else ()
    found = tuple(sentences(story, wrong, errors))
    return Verdict(seed, broken, found, len(story.events), hits, trace, ".cluster.lent", once=False)


def main() -> int:
    """Judges histories, or shows one of them as a trace."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.cluster.lent", description=__doc__)
    parser.add_argument("--seed", type=int, help="this one, as a trace")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--variant", default="correct", choices=BROKEN, help="the rule that is broken")
    given = parser.parse_args()
    if given.seed is not None:
        verdict = judged_lent(given.seed, given.variant, traced=True)
        print("\n".join([*verdict.trace, *verdict.wrong]))
        return len(verdict.wrong)
    hits, wrong = Counter[str](), 0
    for seed in range(given.first, given.first + given.seeds):
        verdict = judged_lent(seed, given.variant)
        hits, wrong = hits + verdict.hits, wrong + bool(verdict.wrong)
        for sentence in verdict.wrong:
            print(f"{verdict.replay}: {sentence}", flush=True)
    print(f"{given.seeds} histories, {wrong} of them wrong; {hits['judged']} starts that took the last permit")
    return wrong


if __name__ == "__main__":
    sys.exit(main() > 0)
