"""`timerd cancel`, `reschedule` and `fire-now`: what can still happen to a task that waits."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands import options
from timerd.commands.call import CommandCall, online
from timerd.commands.failures import CommandFailure, WrongInput
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, parse_due, parse_span, shown

if TYPE_CHECKING:
    from datetime import datetime

    from timerd.client import CancelOutcome, Client

_BATCH = 1000
# So many are waited for at a time.
_WAITING = 100
_LONGEST_WAIT = timedelta(minutes=10)
_NO_DELIVERY_STARTS = frozenset({"CANCELLED", "ALREADY_CANCELLED"})
_MEANING = {
    "CANCELLED": "no delivery of it starts any more",
    "ALREADY_FIRED": "too late, it has fired or ended",
    "IN_FLIGHT": "a worker has it in hand; its retries are stopped",
    "ALREADY_CANCELLED": "another call had cancelled it before",
    "FINISHED": "it ended so long ago that its outcome is no longer kept",
    "NOT_FOUND": "there is no such task",
    "PENDING": "the cancel is on disk, but who holds the task did not confirm it yet",
}
_TOLD = (Column("outcome"), Column("meaning", Kind.NAME))
TaskIdsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="ID...", help="Ids of tasks, as `schedule` gave them.")
]


async def cancel(
    call: CommandCall,
    task_ids: TaskIdsArgument = None,
    key: options.KeyOption = None,
    wait: Annotated[
        str | None,
        typer.Option(
            "--wait", metavar="SPAN", help="Wait at most so long for those that a worker has: 30s, up to 10m."
        ),
    ] = None,
) -> None:
    """Cancel tasks. Exit code 1 if one of them may still arrive.

    A worker that has one is told to end it.
    """
    options.check_named(*(task_ids or ()), key)
    ids = list(map(call.whole_id, task_ids or ()))
    if bool(ids) == (key is not None):
        raise WrongInput("Name what to cancel: either one or more IDs, or --key.")
    span = parse_span(wait) if wait is not None else None
    if span is not None and span > _LONGEST_WAIT:
        raise WrongInput(f"--wait {wait} is too long: give 10m at most.")
    client = await call.connect()
    if key is not None:
        outcomes = [(key, await client.cancel(key=key, wait=span))]
    else:
        outcomes = list(zip(ids, await _cancel_all(call, client, ids, span), strict=True))
    name = "key" if key is not None else "task_id"
    records = [{name: each, "outcome": outcome.name, "meaning": _meaning(outcome)} for each, outcome in outcomes]
    call.out.many(records, (Column(name, Kind.ID), *_TOLD), "")
    alive = sum(outcome.name not in _NO_DELIVERY_STARTS for _, outcome in outcomes)
    if alive:
        is_unknown = any(outcome.name == "NOT_FOUND" for _, outcome in outcomes)
        unknown = f" {sentence}" if is_unknown and (sentence := call.not_found()) else ""
        raise CommandFailure(f"{alive} of {len(outcomes)} were not cancelled.{unknown}")


def _meaning(outcome: CancelOutcome) -> str:
    return _MEANING.get(outcome.name, "an answer of a newer server")


async def _cancel_all(call: CommandCall, client: Client, ids: list[str], wait: timedelta | None) -> list[CancelOutcome]:
    outcomes: list[CancelOutcome] = []
    call.bar.begin("cancelling", len(ids))
    for start in range(0, len(ids) if wait else 0, _WAITING):
        some = ids[start : start + _WAITING]
        outcomes += await asyncio.gather(*(client.cancel(task_id, wait=wait) for task_id in some))
        call.bar.reach(len(outcomes))
    if wait:
        return outcomes
    for start in range(0, len(ids), _BATCH):
        outcomes += await client.cancel_many(ids[start : start + _BATCH])
        call.bar.reach(len(outcomes))
    return outcomes


async def reschedule(
    call: CommandCall,
    task_id: Annotated[str | None, typer.Argument(metavar="ID", help="The task; or use --key.")] = None,
    delay: options.Delay = None,
    at: options.AtOption = None,
    key: options.KeyOption = None,
) -> None:
    """Give a task another time, earlier or later. Its id stays."""
    when, wait = parse_due(delay, at)
    options.check_named(task_id, key)
    if (task_id is None) == (key is None):
        raise WrongInput("Name what to move: either an ID, or --key.")
    task_id = None if task_id is None else call.whole_id(task_id)
    client = await call.connect()
    fire_time = await client.reschedule(task_id, key=key, at=when, delay=wait)
    _tell(call, "task_id" if task_id else "key", task_id or key or "", fire_time)


def _tell(call: CommandCall, name: str, which: str, fire_time: datetime) -> None:
    call.out.one({name: which, "fire_time": iso_of(fire_time)}, f"{which} fires at {shown(fire_time)}.")


async def fire_now(call: CommandCall, task_ids: Annotated[list[str], typer.Argument(metavar="ID...")]) -> None:
    """Do not wait any longer: deliver tasks now."""
    options.check_named(*task_ids)
    ids = list(map(call.whole_id, task_ids))
    client = await call.connect()
    for task_id in ids:
        _tell(call, "task_id", task_id, await client.fire_now(task_id))


def register(app: typer.Typer) -> None:
    app.command()(online(cancel))
    app.command()(online(reschedule))
    app.command("fire-now")(online(fire_now))
