"""What the log of a worker says of schedules of which one task at most may be open. Each finding is a sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Attempt:
    """One delivery of a task: `instant` is that of its schedule, `began_s` and `ended_s` are by the worker's clock."""

    schedule: str
    instant: str
    task_id: str
    began_s: float
    ended_s: float


def alone(attempts: Iterable[Attempt]) -> list[str]:
    """S4: of a schedule no task begins before the one before it is over for good, with all of its attempts."""
    return [said for schedule, some in sorted(_of_each(attempts).items()) for said in _beside(schedule, some)]


def _of_each(attempts: Iterable[Attempt]) -> dict[str, list[Attempt]]:
    found: defaultdict[str, list[Attempt]] = defaultdict(list)
    for each in attempts:
        found[each.schedule].append(each)
    return found


def _beside(schedule: str, attempts: Sequence[Attempt]) -> Iterator[str]:
    tasks: defaultdict[str, list[Attempt]] = defaultdict(list)
    for each in attempts:
        tasks[each.task_id].append(each)
    spans = sorted((min(a.began_s for a in some), max(a.ended_s for a in some)) for some in tasks.values())
    for (_, ended_s), (began_s, _) in pairwise(spans):
        if began_s < ended_s:
            yield f"{schedule}: a task began {ended_s - began_s:.3f} s before the end of the one before"


def one_task_each(attempts: Iterable[Attempt]) -> list[str]:
    """S2: an instant of a schedule has one task at most."""
    had: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for each in attempts:
        had[each.schedule, each.instant].add(each.task_id)
    return [f"{name}: {instant} has {len(ids)} tasks" for (name, instant), ids in sorted(had.items()) if len(ids) > 1]
