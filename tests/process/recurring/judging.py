"""What the logs of a worker and of callers say of a backfill, of a fixed delay and of a cycle, after kills of the
server. Each finding is a sentence; none: every promise held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

# A clock says whole milliseconds, and a log a fraction more.
ROUNDED_S = 0.002


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
    `away`: spans in which there was no server."""

    origin_s: float
    period_s: float
    first: int
    end: int
    always: frozenset[str]
    away: Sequence[tuple[float, float]] = ()

    def number(self, due_s: float) -> int:
        return int((due_s - self.origin_s) // self.period_s)

    def is_excused(self, number: int) -> bool:
        """A member's task expires when it has the next turn, and nobody served it for most of that time."""
        begin_s, end_s = (self.origin_s + each * self.period_s for each in (number - 1, number + 2))
        return any(
            until_s - from_s > self.period_s / 2 and until_s > begin_s and from_s < end_s
            for from_s, until_s in self.away
        )


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
    numbers = [number for number in range(cycles.first, cycles.end) if not cycles.is_excused(number)]
    return [
        *(f"{key} had turn {n} {len(ids)} times" for (key, n), ids in sorted(had.items()) if len(ids) > 1),
        *(f"{key} has lost turn {n}" for n in numbers for key in sorted(cycles.always) if not had[key, n]),
        *_after(removals, handled, calls),
    ]


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
