"""`timerd queues`: whether a queue takes tasks in and sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands.call import CommandCall, listing, online
from timerd.commands.output import OutputRecord
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, parse_moment, shown, shown_twice

if TYPE_CHECKING:
    from timerd.client import QueueInfo

_COLUMNS = (
    Column("queue", Kind.ID),
    Column("mode"),
    Column("until", Kind.MOMENT),
    Column("revision", Kind.FIGURE, is_wide=True),
    Column("note", Kind.TEXT),
)
RuledQueue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")]
IfRevision = Annotated[int, typer.Option("--revision", min=0, help="Only if it has this revision.")]
Note = Annotated[str, typer.Option("--note", help="Why, for people who look.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="It resumes by itself then.")]


async def list_queues(call: CommandCall) -> None:
    """List the queues that have, or had, rules."""
    client = await call.connect()
    call.out.many([_record(each) async for each in client.queues.list()], _COLUMNS, "No queue has rules.")


async def show(call: CommandCall, queue: RuledQueue) -> None:
    """Show the rules of a queue."""
    client = await call.connect()
    found = await client.queues.get(queue)
    record = _record(found)
    call.out.details(record, {**record, "until": shown_twice(found.until) if found.until is not None else ""})


async def pause(
    call: CommandCall, queue: RuledQueue, note: Note = "", until: Until = None, revision: IfRevision = 0
) -> None:
    """Send nothing of a queue to workers; it goes on taking tasks in."""
    end = parse_moment(until) if until is not None else None
    client = await call.connect()
    _tell(call, await client.queues.pause(queue, note=note, until=end, revision=revision), "sends nothing")


async def drain(
    call: CommandCall, queue: RuledQueue, note: Note = "", until: Until = None, revision: IfRevision = 0
) -> None:
    """Take no tasks in; what the queue has is sent."""
    end = parse_moment(until) if until is not None else None
    client = await call.connect()
    _tell(call, await client.queues.drain(queue, note=note, until=end, revision=revision), "takes nothing in")


async def stop(
    call: CommandCall, queue: RuledQueue, note: Note = "", until: Until = None, revision: IfRevision = 0
) -> None:
    """Take no tasks in, and send none."""
    end = parse_moment(until) if until is not None else None
    client = await call.connect()
    _tell(call, await client.queues.stop(queue, note=note, until=end, revision=revision), "takes and sends nothing")


async def resume(call: CommandCall, queue: RuledQueue, revision: IfRevision = 0) -> None:
    """Take tasks in and send them."""
    client = await call.connect()
    _tell(call, await client.queues.resume(queue, revision=revision), "takes in and sends")


def _tell(call: CommandCall, queue: QueueInfo, does: str) -> None:
    end = f" until {shown(queue.until)}" if queue.until is not None else ""
    sentence = f"{queue.name} is {queue.mode.name}{end}: it {does}."
    if queue.silent:
        sentence = (
            f"{queue.name} will be {queue.mode.name}{end}: PENDING, for these have not confirmed it: "
            f"{', '.join(queue.silent)}. They read it within 10 s; repeat the command to see."
        )
    call.out.one({**_record(queue), "silent": list(queue.silent)}, sentence)


def _record(queue: QueueInfo) -> OutputRecord:
    return {
        "queue": queue.name,
        "namespace": queue.namespace,
        "mode": queue.mode.name,
        "until": iso_of(queue.until) if queue.until is not None else None,
        "note": queue.note,
        "revision": queue.revision,
    }


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Pause queues, and what other rules they have.", no_args_is_help=True)
    group.command("list")(listing(list_queues))
    group.command()(listing(show))
    for command in (pause, resume, drain, stop):
        group.command()(online(command))
    app.add_typer(group, name="queues")
