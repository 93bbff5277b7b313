"""What the logs of a worker and of callers say of a backfill, of a fixed delay and of a cycle, after kills of the
server. Each finding is a sentence; none: every promise held."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import NamedTuple

# A clock says whole milliseconds, and a log a fraction more.
ROUNDED_S = 0.002
# In which a turn comes once a later one has come, while its server lives.
LATE_S = 2.0


@dataclass(frozen=True, slots=True)
class Handled:
    """One delivery: `what` it stands for, an instant or a member; `due_s`: its fire time; `began_s`, `ended_s`: by the
    worker's clock."""

    what: str
    task_id: str
    due_s: float
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class MemberCall:
    """`ok_s`: when it was answered."""

    key: str
    is_put: bool
    asked_s: float
    ok_s: float


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A try to put a member of which its caller has given up hearing. The server may be at it until it is killed."""

    key: str
    given_up_s: float


@dataclass(frozen=True, slots=True)
class Cycles:
    """What is judged of a cycle: its numbers from `first` to before `end`, in which the members `always` were there.
    `away`: spans in which there was no server; `starved`: in which it waited for a processor."""

    origin_s: float
    period_s: float
    first: int
    end: int
    always: frozenset[str]
    away: Sequence[tuple[float, float]] = ()
    starved: Sequence[tuple[float, float]] = ()

    def number(self, due_s: float) -> int:
        return int((due_s - self.origin_s) // self.period_s)

    def lives(self) -> Iterator[tuple[float, float]]:
        """Spans in which there was a server, from when it was ready."""
        from_s = -inf
        for killed_s, ready_s in self.away:
            yield from_s, killed_s
            from_s = ready_s
        yield from_s, inf

    def is_starved(self, begin_s: float, end_s: float) -> bool:
        return any(from_s < end_s and until_s > begin_s for from_s, until_s in self.starved)


class LostTurn(NamedTuple):
    """Of a member in a cycle: it was due at `from_s`, and its task expired at `until_s`. `was_served`: whether there
    was a server for it."""

    key: str
    number: int
    from_s: float
    until_s: float
    was_served: bool


def once_each(handled: Iterable[Handled], expected: Iterable[str]) -> list[str]:
    """S1, S2 of a backfill: each instant of its span has one task."""
    tasks = _tasks(handled)
    wanted = set(expected)
    return [
        *(f"{each} has no task" for each in sorted(wanted - tasks.keys())),
        *(f"{each} is not of the span" for each in sorted(tasks.keys() - wanted)),
        *(f"{each} has {len(ids)} tasks" for each, ids in sorted(tasks.items()) if len(ids) > 1),
    ]


def apart(handled: Iterable[Handled], delay_s: float) -> list[str]:
    """S2, S4, S5 of a fixed delay: a task begins only when the one before is over for good, and is due a delay after
    that."""
    deliveries: defaultdict[str, list[Handled]] = defaultdict(list)
    for each in handled:
        deliveries[each.task_id].append(each)
    spans = sorted(
        (min(each.due_s for each in some), min(each.began_s for each in some), max(each.ended_s for each in some))
        for some in deliveries.values()
    )
    found: list[str] = []
    for (_, _, ended_s), (due_s, began_s, _) in pairwise(spans):
        if began_s < ended_s:
            found.append(f"a task began {ended_s - began_s:.3f} s before the end of the one before")
        if due_s < ended_s + delay_s - ROUNDED_S:
            found.append(f"a task was due {due_s - ended_s:.3f} s after the end of the one before")
    return found


def turns(
    handled: Sequence[Handled], calls: Sequence[MemberCall], cycles: Cycles, unanswered: Sequence[Unanswered] = ()
) -> list[str]:
    """S6, S7: a member has one turn in each cycle, and none after the OK of its removal, unless a put was under way
    beside that."""
    removals = [each for each in calls if not each.is_put and not _is_beside_a_put(each, unanswered, cycles)]
    had: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for each in handled:
        had[each.what, cycles.number(each.due_s)].add(each.task_id)
    return [
        *(f"{key} had turn {n} {len(ids)} times" for (key, n), ids in sorted(had.items()) if len(ids) > 1),
        *(f"{each.key} has lost turn {each.number}" for each in lost(handled, cycles) if each.was_served),
        *_after(removals, handled, calls),
    ]


def lost(handled: Sequence[Handled], cycles: Cycles) -> list[LostTurn]:
    """A turn is lost when its task expires, which is at the member's next moment. It had a server where one lived for
    all of that time, or gave out a turn that was due later and lived on for long enough to give out this one as
    well. How long a server takes to start, and a worker to find it, excuses nothing by itself; that others had the
    processor does."""
    dues: defaultdict[str, list[float]] = defaultdict(list)
    for each in handled:
        dues[each.what].append(each.due_s)
    in_order = sorted(handled, key=_began)
    found: list[LostTurn] = []
    for key in sorted(cycles.always):
        there = {cycles.number(due_s) for due_s in dues[key]}
        for number in sorted({*range(cycles.first, cycles.end)} - there):
            from_s, until_s = _window(dues[key], number, cycles)
            found.append(LostTurn(key, number, from_s, until_s, _was_served(from_s, until_s, in_order, cycles)))
    return found


def _window(dues_s: Sequence[float], number: int, cycles: Cycles) -> tuple[float, float]:
    """By the turns before and after it: where these differ its member was moved in between, and the time that is common
    to both is judged. Who never had a turn has no moment, and every time is one."""
    begin_s = cycles.origin_s + number * cycles.period_s
    before_s = max((due_s for due_s in dues_s if due_s < begin_s), default=None)
    after_s = min((due_s for due_s in dues_s if due_s >= begin_s), default=None)
    known = [each for each in (before_s, after_s) if each is not None]
    moments = [due_s + (number - cycles.number(due_s)) * cycles.period_s for due_s in known]
    return (max(moments), min(moments) + cycles.period_s) if moments else (begin_s, inf)


def _was_served(from_s: float, until_s: float, handled: Sequence[Handled], cycles: Cycles) -> bool:
    """`handled`: in the order in which they began."""
    for born_s, killed_s in cycles.lives():
        begin_s, end_s = max(born_s, from_s), min(killed_s, until_s)
        if begin_s >= end_s or cycles.is_starved(begin_s, end_s):
            continue
        if begin_s == from_s and end_s == until_s:
            return True
        within = handled[bisect_left(handled, begin_s, key=_began) : bisect_left(handled, end_s, key=_began)]
        first_s = next((each.began_s for each in within if each.due_s > from_s), inf)
        if end_s - first_s >= LATE_S:
            return True
    return False


def _began(each: Handled) -> float:
    return each.began_s


def _is_beside_a_put(removal: MemberCall, unanswered: Sequence[Unanswered], cycles: Cycles) -> bool:
    killed_s = max((from_s for from_s, _ in cycles.away if from_s < removal.asked_s), default=0.0)
    return any(each.key == removal.key and killed_s < each.given_up_s < removal.ok_s for each in unanswered)


def _after(removals: Sequence[MemberCall], handled: Sequence[Handled], calls: Sequence[MemberCall]) -> list[str]:
    first: dict[str, Handled] = {}
    for each in sorted(handled, key=lambda one: one.began_s):
        first.setdefault(each.task_id, each)
    found: list[str] = []
    for call in removals:
        again_s = min((one.asked_s for one in calls if one.key == call.key and one.asked_s > call.ok_s), default=1e18)
        found += [
            f"{call.key} had a turn {each.due_s - call.ok_s:.3f} s after the OK of its removal"
            for each in first.values()
            if each.what == call.key and call.ok_s < each.due_s and each.began_s < again_s
        ]
    return found


def _tasks(handled: Iterable[Handled]) -> dict[str, set[str]]:
    tasks: defaultdict[str, set[str]] = defaultdict(set)
    for each in handled:
        tasks[each.what].add(each.task_id)
    return tasks
