"""The caller-chosen keys of one message: reserved before its rows are written, given to its tasks afterwards.

What KEEP and REJECT come to is decided once for a message, after its keys are reserved and before its rows are written:
a repeat hears the same when the key is free by then, and so does a try of the call that was held up.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from timerd.core.protocol import (
    Conflict,
    Procedure,
    Reserved,
    activate,
    give_back,
    key_lost,
    of_this_try,
    recall,
    remember,
    reserve,
    was_lost,
)
from timerd.model.codec import dump_json
from timerd.model.errors import AlreadyExists, NotStored
from timerd.model.identity import TaskId, parse_task_id
from timerd.model.registers import name_key
from timerd.services.engine.key_lines import KeyLines
from timerd.services.engine.verbs import NewTasks
from timerd.services.holding.driving import Performs, drive
from timerd.services.holding.driving_many import drive_all

_KEPT = b"kept"


@dataclass(slots=True)
class Keys:
    """Of the rows of one message that have a key. `reserved`: those to write for; `kept`: row -> the task that has the
    key and stays; `refused`: row -> why nothing of it is written."""

    reserved: dict[int, Reserved] = field(default_factory=dict)
    kept: dict[int, TaskId] = field(default_factory=dict)
    refused: dict[int, NotStored] = field(default_factory=dict)

    @property
    def left_out(self) -> frozenset[int]:
        return frozenset((*self.kept, *self.refused))


NO_KEYS = Keys()


class Keying:
    """`time_ms`: the time, by which it is judged whether a try was held up. `in_cluster`: other instances may give keys
    to calls meanwhile."""

    def __init__(self, runner: Performs, time_ms: Callable[[], int], *, in_cluster: bool = False) -> None:
        self._runner = runner
        self._time_ms = time_ms
        self._in_cluster = in_cluster
        self._lines = KeyLines()

    @asynccontextmanager
    async def in_line(self, tasks: NewTasks) -> AsyncIterator[None]:
        """Behind the calls that came before for one of its keys. Nobody overtakes a call there, so what it has waited
        does not hold it up."""
        if not tasks.keys:
            yield
            return
        since_ms = self._time_ms()
        async with self._lines.place({name_key(tasks.namespace, key) for key, _ in tasks.keys.values()}):
            tasks.waited_ms = 0 if self._in_cluster else self._time_ms() - since_ms
            yield

    async def reserve(self, tasks: NewTasks, ids: Sequence[TaskId], now_ms: int) -> Keys:
        """Raises Overtaken where nothing else is left of the message."""
        may_stay = any(policy is not Conflict.REPLACE for _, policy in tasks.keys.values())
        known = await self._recall(tasks) if may_stay else None
        left = [row for row in tasks.keys if known is None or row not in known]
        work = [self._reserving(tasks, ids[row], row) for row in left]
        found = dict(zip(left, await drive_all(work, self._runner), strict=True))
        taken = {row: held.taken_by for row, held in found.items() if held.taken_by is not None}
        if may_stay and known is None:
            known = await self._decide(tasks, taken, now_ms)
            # Another try decided to write these, and had reserved their keys before.
            for row in taken.keys() - known.keys():
                found[row] = await drive(self._reserving(tasks, ids[row], row), self._runner)
        keys = _as_decided(tasks, known or {})
        for row, held in found.items():
            await self._sort(tasks, keys, row, held)
        return keys

    def _reserving(self, tasks: NewTasks, task: TaskId, row: int) -> Procedure[Reserved]:
        key, policy = tasks.keys[row]
        name = name_key(tasks.namespace, key)
        return reserve(name, task, policy, self._time_ms, tasks.asked_ms, tasks.waited_ms)

    async def _recall(self, tasks: NewTasks) -> dict[int, str] | None:
        """Row -> the task that has its key, as it was decided before; None: nothing was."""
        stored = await drive(recall(_KEPT + tasks.prefix), self._runner)
        return _read(tasks, stored) if stored is not None else None

    async def _decide(self, tasks: NewTasks, taken: Mapping[int, TaskId], now_ms: int) -> dict[int, str]:
        """Once for all tries of the call, also that nothing is kept: a task that had the key may end between two of
        them, and one would write what the other has said to be kept."""
        indexes = tasks.rows.columns["index"]
        answer = dump_json({str(int(indexes[row])): str(task) for row, task in taken.items()})
        stored = await drive(remember(_KEPT + tasks.prefix, answer, now_ms), self._runner)
        return _read(tasks, stored)

    async def _sort(self, tasks: NewTasks, keys: Keys, row: int, held: Reserved) -> None:
        if row in keys.left_out:
            if held.stored:
                await drive(give_back(name_key(tasks.namespace, tasks.keys[row][0]), held), self._runner)
        elif held.refused is not None:
            keys.refused[row] = held.refused
        elif held.taken_by is not None:
            # Another try decided to write it, and has lost the key since.
            keys.refused[row] = of_this_try(key_lost())
        elif not held.had_it:
            keys.reserved[row] = held

    async def activate(
        self, tasks: NewTasks, ids: Sequence[TaskId], keys: Keys, *, may_be_repeat: bool
    ) -> Mapping[int, NotStored]:
        """After the rows are durable: why those are refused that are. Raises Aborted where all have lost their keys."""
        lost = await self._lost_before(tasks, ids, keys) if may_be_repeat else []
        ours = {row: held for row, held in keys.reserved.items() if row not in lost}
        now_ms = self._time_ms()
        work = [
            activate(name_key(tasks.namespace, tasks.keys[row][0]), ids[row], held, now_ms)
            for row, held in ours.items()
        ]
        answers = await drive_all(work, self._runner)
        lost += [row for row, task in zip(ours, answers, strict=True) if task is not None]
        if len(lost) == len(tasks.rows):
            raise key_lost()
        return keys.refused | {row: key_lost() for row in lost}

    async def _lost_before(self, tasks: NewTasks, ids: Sequence[TaskId], keys: Keys) -> list[int]:
        """The rows of a repeat that lost their key the first time and have reserved it anew: the task that has it keeps
        it, and they stay cancelled."""
        anew = [row for row, held in keys.reserved.items() if not held.is_behind]
        lost = [row for row in anew if await drive(was_lost(ids[row]), self._runner)]
        for row in lost:
            name = name_key(tasks.namespace, tasks.keys[row][0])
            await drive(give_back(name, keys.reserved[row]), self._runner)
        return lost


def _read(tasks: NewTasks, stored: bytes) -> dict[int, str]:
    """By the places of the tasks in the request: the good rows of a repeat may be others."""
    rows = {int(index): row for row, index in enumerate(tasks.rows.columns["index"].tolist())}
    kept: dict[str, str] = json.loads(stored)
    return {rows[int(index)]: task for index, task in kept.items() if int(index) in rows}


def _as_decided(tasks: NewTasks, known: Mapping[int, str]) -> Keys:
    keys = Keys()
    for row, text in known.items():
        key, policy = tasks.keys[row]
        task = parse_task_id(text)
        if policy is Conflict.REJECT or task is None:
            keys.refused[row] = _taken(key)
        else:
            keys.kept[row] = task
    return keys


def _taken(key: str) -> AlreadyExists:
    sentence = f"The key {key!r} is taken by another task: choose another key, or the policy KEEP or REPLACE."
    return AlreadyExists(sentence, "KEY_TAKEN", field="key")
