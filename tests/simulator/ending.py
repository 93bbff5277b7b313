"""Histories whose tasks make another one when they end (`on_end`), on one instance or on several.

A task in three makes none. Workers take what the ends make as they take everything, so it is failed, rejected and left
in hand as well. The same checkers judge that, and beside it R2: each end makes exactly one task, which tells it truly,
and whatever is found to have ended has made it. `python -m tests.simulator.ending --seeds 1000`, with `--cluster` of
several instances; `--seed 7` shows one as a trace, `--variant ends-not-made-again` breaks a rule.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from unittest.mock import patch
from zlib import crc32

import timerd.core.protocol.told_ends as told_ends_module
from tests.simulator.asking import NAME, new_tasks
from tests.simulator.checker import CLEAN_STOP_MS, Checker
from tests.simulator.cluster.branches import watched_cluster
from tests.simulator.cluster.checker import ClusterChecker
from tests.simulator.cluster.forms import ClusterForm
from tests.simulator.cluster.judge import STOP_MS
from tests.simulator.cluster.story import ClusterStory
from tests.simulator.events import Delivered, EndTold, Event, Wanted
from tests.simulator.judge import Verdict, noted, sentences, trace_of
from tests.simulator.known import Known
from tests.simulator.repeats import Repeats
from tests.simulator.sizes import sizes_of
from tests.simulator.story import Story, told
from tests.simulator.worker import Worker
from timerd.core.partition.open_records import OpenRecords
from timerd.services.engine.verbs import NewTasks

ENDS = "ends"
OUTCOMES = ("ACKED", "DEAD", "EXPIRED", "CANCELLED", "PURGED")
DIGEST_BYTES = 16
# No call has scheduled what an end has made.
BY_NO_CALL = -1


def on_end_of(name: str) -> str:
    return ENDS if crc32(name.encode()) % 3 else ""


@dataclass
class EndingWorker(Worker):
    """It takes what the ends make beside its queues, and names each by the delivery that has ended."""

    def __post_init__(self) -> None:
        self.queues = (*self.queues, ENDS)

    def _name_of(self, payload: bytes, queue: str, fire_at_ms: int) -> str:
        if queue != ENDS:
            return super()._name_of(payload, queue, fire_at_ms)
        said = json.loads(payload)
        of, ended = said["labels"][NAME], said["delivery_id"]
        name = f"end of {of} by {ended}"
        self.log(EndTold(self.loop.now_ms, name, of, ended, said["outcome"], fire_at_ms))
        return name


class EndingStory(Story):
    worker_type: ClassVar[type[Worker]] = EndingWorker

    def __post_init__(self) -> None:
        super().__post_init__()
        # What an end makes comes between.
        self.is_ordered = False

    def tasks_of(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> NewTasks:
        return new_tasks(request, names, wanted, on_end=on_end_of)


class EndingClusterStory(ClusterStory):
    worker_type: ClassVar[type[Worker]] = EndingWorker

    def tasks_of(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> NewTasks:
        tasks = super().tasks_of(request, names, wanted)
        return replace(tasks, rows=new_tasks(request, names, wanted, on_end=on_end_of).rows)


# -- the judge ---------------------------------------------------------------------------------------------------------


class EndChecks(Checker):
    """R2. `told`: of each task, the deliveries of it whose ends were told, and how they ended."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.told: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._tellers: set[str] = set()

    def _other(self, event: Event) -> None:
        if isinstance(event, EndTold):
            self._end_told(event)
        else:
            super()._other(event)

    def _end_told(self, event: EndTold) -> None:
        if event.name not in self._tellers:
            self._tellers.add(event.name)
            self._tasks[event.name] = Known(event.name, Wanted(event.fire_at_ms, ENDS), {BY_NO_CALL}, first_ms=1)
        task = self._tasks.get(event.of)
        if task is None or not on_end_of(event.of):
            self._wrong(f"R2: the end of {event.of} has made a task, and nobody asked for one")
            return
        before = self.told[event.of].setdefault(event.ended, event.outcome)
        if before != event.outcome:
            self._wrong(f"R2: one end of {event.of} was {before}, and {event.outcome}")
        if not self._may_have_ended(task, event.outcome):
            self._wrong(f"R2: {event.of} is told to be {event.outcome}, and nobody has ended it so")

    def _may_have_ended(self, task: Known, outcome: str) -> bool:
        has_failed = task.wanted.max_attempts < 20 or 20 in task.attempts.values()
        may_be_dead = bool(task.rejected or has_failed) or self._lost.may_have_used_up(task)
        may_expire = 0 < task.wanted.expire_at_ms <= self._now_ms + self._clocks_apart_ms
        reasons = {
            "ACKED": task.acked,
            "DEAD": may_be_dead,
            "EXPIRED": may_expire,
            "CANCELLED": bool(task.cancels) or bool(task.wanted.key),
        }
        return reasons.get(outcome, False)

    def _delivered(self, got: Delivered) -> None:
        known = self._tasks.get(got.name)
        if known is not None and got.name in self._tellers:
            digests = {each[:DIGEST_BYTES] for each in (*known.attempts, got.delivery_id)}
            if len(digests) > 1:
                self._wrong(f"R2: two tasks tell the {got.name}")
        super()._delivered(got)

    def _close(self) -> None:
        super()._close()
        for task in self._tasks.values():
            if task.stored and on_end_of(task.name) and task.name not in self._tellers:
                self._ended(task, self._looks.get(task.name, "unknown"), self.told[task.name])

    def _ended(self, task: Known, state: str, told: dict[str, str]) -> None:
        """A dead letter that was redriven has one more."""
        if not told and state in (*OUTCOMES, "FINISHED"):
            self._wrong(f"R2: {task.name} is {state}, and its end has made no task")
        if told and state in OUTCOMES and state not in told.values():
            self._wrong(f"R2: {task.name} is {state}, and is told to be {', '.join(told.values())}")
        last = [outcome for outcome in told.values() if outcome != "DEAD"]
        if len(last) > 1 or len(told) > 1 + len(task.redrives.of):
            self._wrong(f"R2: {task.name} is told to have ended {len(told)} times: {', '.join(told.values())}")


class EndingChecker(EndChecks):
    """Of one instance."""


class EndingClusterChecker(EndChecks, ClusterChecker):
    """Of several."""


# -- broken rules ------------------------------------------------------------------------------------------------------


@contextmanager
def ends_not_made_again() -> Iterator[None]:
    """A holder dies between the end and its task, and the next one does not make it."""
    with patch.object(OpenRecords, "redo_ends", lambda *_: None):
        yield


@contextmanager
def made_anew_by_each_holder() -> Iterator[None]:
    """Who meets the record of an end makes a task of another name."""
    number = iter(range(1, 1 << 30))

    def another(delivery_id: bytes) -> bytes:
        return delivery_id[:4] + next(number).to_bytes(8, "big")

    with patch.object(told_ends_module, "prefix_of", another):
        yield


@contextmanager
def left_by_a_move_and_told() -> Iterator[None]:
    """The row that a move has left tells an end as well."""
    with patch.object(told_ends_module, "_may_be_left", lambda *_: False):
        yield


BROKEN: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "correct": nullcontext,
    "ends-not-made-again": ends_not_made_again,
    "made-anew-by-each-holder": made_anew_by_each_holder,
    "left-by-a-move-and-told": left_by_a_move_and_told,
}


# -- histories ---------------------------------------------------------------------------------------------------------


def judged_ending(seed: int, broken: str = "correct", *, traced: bool = False) -> Verdict:
    """As judge.judged."""
    with BROKEN[broken](), sizes_of(seed), noted() as errors:
        story = told(EndingStory(seed, repeats=Repeats(seed)))
    return _verdict(story, EndingChecker(ordered=False), broken, errors, ".ending", traced=traced)


def judged_ending_cluster(seed: int, broken: str = "correct", *, traced: bool = False) -> Verdict:
    """As cluster.judge.judged."""
    with BROKEN[broken](), sizes_of(seed), watched_cluster(), noted() as errors:
        story = told(EndingClusterStory(seed, repeats=Repeats(seed)))
    stop_ms = STOP_MS if story.shape is ClusterForm.OVERRUN else CLEAN_STOP_MS
    checker = EndingClusterChecker(story.timing.ttl_ms, story.skew_ms, story.way_ms, stop_ms)
    return _verdict(story, checker, broken, errors, ".ending --cluster", traced=traced)


def _verdict(story: Story, checker: EndChecks, broken: str, errors: Any, form: str, *, traced: bool) -> Verdict:
    seen = getattr(story, "broken", [])
    wrong = sorted([*checker.judge(story.events), *seen])
    hits = Counter(outcome for told_of in checker.told.values() for outcome in told_of.values())
    trace = tuple(trace_of(story, wrong)) if traced else ()
    return Verdict(
        story.seed, broken, tuple(sentences(story, wrong, errors)), len(story.events), hits, trace, form, once=False
    )


def main() -> int:
    """Judges histories, or shows one of them as a trace."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.ending", description=__doc__)
    parser.add_argument("--cluster", action="store_true", help="several instances")
    parser.add_argument("--seed", type=int, help="this one, as a trace")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--variant", default="correct", choices=BROKEN, help="the rule that is broken")
    given = parser.parse_args()
    judged = judged_ending_cluster if given.cluster else judged_ending
    if given.seed is not None:
        verdict = judged(given.seed, given.variant, traced=True)
        print("\n".join([*verdict.trace, *verdict.wrong]))
        return len(verdict.wrong)
    hits, wrong = Counter[str](), 0
    for seed in range(given.first, given.first + given.seeds):
        verdict = judged(seed, given.variant)
        hits, wrong = hits + verdict.hits, wrong + bool(verdict.wrong)
        for sentence in verdict.wrong:
            print(f"{verdict.replay}: {sentence}", flush=True)
    print(f"{given.seeds} histories, {wrong} of them wrong; ends that were told: {dict(hits)}")
    return wrong


if __name__ == "__main__":
    sys.exit(main() > 0)
