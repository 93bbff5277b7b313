"""`timerd explain`: why a task is where it is, in a sentence."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands import options
from timerd.commands.call import CommandCall, listing
from timerd.commands.failures import WrongInput
from timerd.commands.output import OutputRecord
from timerd.commands.times import iso_of, shown_twice
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.client import Client, TaskInfo

# What is said of a task that waits for nothing.
NOT_DUE, IN_HAND, OVER = "NOT_DUE", "IN_HAND", "OVER"
# Of a backlog of millions a person wants the sentence, not the figure.
_COUNTING_S = 3.0
_ALIVE = ("PENDING", "RETRYING")


async def explain(
    call: CommandCall,
    task_id: Annotated[str | None, typer.Argument(metavar="ID", help="The task; or use --key.")] = None,
    key: options.KeyOption = None,
) -> None:
    """Say why a task is where it is.

    timerd explain --key order-4711
    """
    options.check_named(task_id, key)
    if (task_id is None) == (key is None):
        raise WrongInput("Name what to explain: either an ID, or --key.")
    named = None if task_id is None else call.whole_id(task_id)
    client = await call.connect()
    task = await client.get(named, key=key)
    reason, until, sentence = why(task)
    waiting = await waiting_with(client, task) if reason == "WORKER" else None
    if waiting:
        sentence += f" Of the queue {counted(waiting, 'task', 'wait')}."
    record: OutputRecord = {
        "task_id": task.id,
        "queue": task.queue,
        "state": task.state.name,
        "reason": reason,
        "until": iso_of(until) if until is not None else None,
        **holders(task),
        "waiting": waiting,
        "description": sentence,
    }
    call.out.details(
        record, {"task": task.id, "queue": task.queue, "state": task.state.name, reason.replace("_", " "): sentence}
    )


async def waiting_with(client: Client, task: TaskInfo) -> int | None:
    """How many tasks of its queue are due. None: so many that counting them takes too long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_COUNTING_S):
            now = (await client.server_info()).engine_time.ToDatetime(UTC)
            return int(await client.count(queue=task.queue, end=now + timedelta(milliseconds=1)))
    return None


def holders(task: TaskInfo) -> OutputRecord:
    """What a task waits for, by name: a limit, a limit key, the task before it. Empty: not for one with a name."""
    found = task.waiting_for
    limit, limit_key, behind = (found.limit, found.limit_key, found.task_id) if found is not None else ("", "", "")
    return {"limit": limit, "limit_key": limit_key, "behind": behind}


def why(task: TaskInfo) -> tuple[str, datetime | None, str]:
    """(reason, until when, a sentence)"""
    found = task.waiting_for
    if found is not None:
        return found.reason.name, found.until, found.description
    if task.state.name in _ALIVE:
        return NOT_DUE, task.due_time, f"It is due at {shown_twice(task.due_time)}."
    if task.state.name == "IN_FLIGHT":
        ends = " It was cancelled: no other attempt follows." if task.is_cancelling else ""
        return IN_HAND, None, f"A worker has it in hand: attempt {task.attempt}.{ends}"
    has_failed = task.last_error and task.state.name != "ACKED"
    error = f" Its last attempt failed: {task.last_error}" if has_failed else ""
    expiry = task.expire_time if task.state.name == "EXPIRED" else None
    over = "is over" if expiry is None else f"was worth something until {shown_twice(expiry)}"
    return OVER, None, f"It {over}, and nothing of it is sent any more.{error}"


def register(app: typer.Typer) -> None:
    app.command()(listing(explain))
