"""Cancel or purge many tasks with a few requests: the same steps as core/cancel.py, each for all at once.

Only for tasks that still live at home and have not ended; whoever was moved, carried or settled goes the long way,
which is core/cancel.py, each by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from timerd.core.cancel import KINDS, Cancelled
from timerd.core.holding import Asked
from timerd.core.procedures import (
    AskToEndMany,
    Ending,
    Find,
    FindSettledMany,
    HolderAnswer,
    Procedure,
    ReadRegisters,
    SetMarks,
)
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import Partition
from timerd.model.registers import move_key
from timerd.model.settle import Outcome
from timerd.model.storage import Found, Mark

Tasks = Sequence[TaskId]


def end_many(tasks: Tasks, outcome: Outcome, request: bytes) -> Procedure[list[Cancelled | None]]:
    """One answer a task, in order; None: it goes the long way."""
    answers: dict[TaskId, Cancelled] = {}
    unmoved = yield from _unmoved(tasks)
    plain: list[tuple[Partition, Tasks]] = []
    for partition, at_home in _by_home(unmoved).items():
        free = yield from _plain(partition, at_home)
        plain.append((partition, free))
    marks = [Mark(p, home_key(t), KINDS[outcome], request) for p, group in plain for t in group]
    if marks:
        yield SetMarks(marks)
    still = set((yield from _unmoved([t for _, group in plain for t in group])))
    for partition, group in plain:
        here = [t for t in group if t in still]
        if here:
            answers.update((yield from _ask(partition, here, outcome, request)))
    return [answers.get(task) for task in tasks]


def home_key(task: TaskId) -> RowKey:
    return RowKey(task.position_ms, task.digest, 0)


def _by_home(tasks: Tasks) -> dict[Partition, list[TaskId]]:
    groups: dict[Partition, list[TaskId]] = defaultdict(list)
    for task in dict.fromkeys(tasks):
        groups[task.home].append(task)
    return groups


def _unmoved(tasks: Tasks) -> Procedure[list[TaskId]]:
    if not tasks:
        return []
    stored: list[bytes | None] = yield ReadRegisters([move_key(t.digest) for t in tasks])
    return [t for t, move in zip(tasks, stored, strict=True) if move is None]


def _plain(partition: Partition, group: Tasks) -> Procedure[list[TaskId]]:
    """Whose row is at home, unmarked and not over."""
    found: Sequence[Found] = yield Find(partition, [(t.position_ms, t.digest) for t in group])
    there = [t for t, f in zip(group, found, strict=True) if len(f.rows) == 1 and not f.marks]
    endings: list[Ending] = yield FindSettledMany(partition, [home_key(t) for t in there])
    return [t for t, ending in zip(there, endings, strict=True) if ending.outcome is None]


def _ask(partition: Partition, group: Tasks, outcome: Outcome, request: bytes) -> Procedure[dict[TaskId, Cancelled]]:
    """The marks are durable: now the holder. What it does not know for sure goes the long way."""
    keys = [home_key(t) for t in group]
    found: Sequence[Found] = yield Find(partition, [(t.position_ms, t.digest) for t in group])
    replies: list[HolderAnswer] = yield AskToEndMany(partition, keys, outcome, request)
    nobody = [k for k, r in zip(keys, replies, strict=True) if r.asked is None]
    endings: list[Ending] = (yield FindSettledMany(partition, nobody)) if nobody else []
    settled = {k: e.outcome for k, e in zip(nobody, endings, strict=True)}
    out: dict[TaskId, Cancelled] = {}
    for task, key, place, reply in zip(group, keys, found, replies, strict=True):
        first = next((m.value for m in place.marks if m.kind == KINDS[outcome]), request)
        if reply.asked is Asked.SILENT:
            out[task] = Cancelled.PENDING
        elif reply.asked is Asked.OPEN or (reply.in_hand and settled.get(key) is None):
            out[task] = Cancelled.IN_FLIGHT
        elif reply.asked is Asked.WAITING or (reply.asked is None and settled[key] is None):
            mine = (reply.request if reply.asked else first) == request
            out[task] = Cancelled.CANCELLED if mine else Cancelled.ALREADY_CANCELLED
    return out
