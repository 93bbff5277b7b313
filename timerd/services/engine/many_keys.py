"""The tasks of many keys, for a call that names them all: read together, and remembered as one answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from timerd.core.protocol import recall, remember, resolve, resolve_once
from timerd.model.codec import dump_json
from timerd.model.identity import TaskId, parse_task_id
from timerd.model.registers import RegisterKey
from timerd.services.holding.driving import Performs, drive
from timerd.services.holding.driving_many import drive_all


async def resolved_each(
    named: Sequence[tuple[RegisterKey, bytes]], time_ms: Callable[[], int], runner: Performs
) -> list[TaskId | None]:
    """As below, of calls with a key each that came together: each is remembered by itself, under its own hash."""
    now_ms = time_ms()
    work = [resolve_once(name, call, now_ms) if call else resolve(name) for name, call in named]
    return await drive_all(work, runner)


async def resolved_once(
    names: Sequence[RegisterKey], request: bytes, time_ms: Callable[[], int], runner: Performs
) -> list[TaskId | None]:
    """The tasks that had the keys when the call with the hash `request` first looked: all its tries are about those,
    whichever have the keys by then. Without a hash those that have them now."""
    known = await drive(recall(request), runner) if request else None
    if known is None:
        tasks = await drive_all([resolve(name) for name in names], runner)
        if not request:
            return tasks
        known = await drive(remember(request, dump_json([str(task or "") for task in tasks]), time_ms()), runner)
    return [parse_task_id(text) if text else None for text in json.loads(known)]
