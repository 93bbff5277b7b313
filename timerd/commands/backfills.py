"""`timerd schedules backfill` and the like: tasks for the instants of a span of the past."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands.call import CommandCall, listing, online
from timerd.commands.failures import CommandFailure
from timerd.commands.output import OutputRecord
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, parse_moment

if TYPE_CHECKING:
    from timerd.client import Backfill, Client

_LOOK_S = 0.5
_COLUMNS = (
    Column("backfill_id", Kind.ID, "id"),
    Column("state"),
    Column("created", Kind.FIGURE),
    Column("total", Kind.FIGURE),
    Column("start", Kind.INSTANT),
    Column("end", Kind.INSTANT),
    Column("rate", Kind.FIGURE, is_wide=True),
    Column("overlap", is_wide=True),
    Column("create_time", Kind.MOMENT, is_wide=True),
    Column("error", Kind.TEXT),
)
ScheduleId = Annotated[str, typer.Argument(metavar="ID", help="The schedule.")]
Which = Annotated[str, typer.Argument(metavar="BACKFILL", help="Its backfill.")]


async def backfill(
    call: CommandCall,
    schedule_id: ScheduleId,
    begin: Annotated[str, typer.Option("--from", metavar="TIME", help="The begin of the span, part of it.")],
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="Its end, not part of it; now at most.")],
    rate: Annotated[int, typer.Option("--rate", min=1, help="Tasks a second, at most.")] = 100,
    overlap: Annotated[str, typer.Option("--overlap", help="allow, or buffer_all: one after the other.")] = "allow",
    backfill_id: Annotated[str, typer.Option("--id", help="A name of your own for it.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Until all its tasks are created.")] = False,
) -> None:
    """Create tasks for the instants of a span of the past.

    timerd schedules backfill report --from 2030-01-01T00:00:00Z --to 2030-02-01T00:00:00Z --wait
    """
    span = parse_moment(begin), parse_moment(end)
    client = await call.connect()
    begun = await client.schedules.backfill(
        schedule_id, start=span[0], end=span[1], rate=rate, overlap=overlap, backfill_id=backfill_id
    )
    if wait:
        begun = await _ended(call, client, begun)
    call.out.one(_record(begun), f"{begun.id}: {_sentence(begun)}")
    if begun.state.name == "CANCELLED":
        raise CommandFailure(f"The backfill {begun.id} was cancelled. {begun.error}".rstrip())


async def _ended(call: CommandCall, client: Client, begun: Backfill) -> Backfill:
    while begun.state.name == "RUNNING":
        call.bar.begin("backfilling", begun.total if begun.total_is_exact else None)
        call.bar.reach(begun.created)
        await asyncio.sleep(_LOOK_S)
        begun = await client.schedules.get_backfill(begun.schedule_id, begun.id)
    return begun


async def backfills(call: CommandCall, schedule_id: ScheduleId) -> None:
    """List the backfills of a schedule.

    Those that ended in the last week are included.
    """
    client = await call.connect()
    records = [_record(each) async for each in client.schedules.list_backfills(schedule_id)]
    call.out.many(records, _COLUMNS, "No backfills.")


async def cancel_backfill(call: CommandCall, schedule_id: ScheduleId, backfill_id: Which) -> None:
    """End a backfill: nothing of it starts any more."""
    client = await call.connect()
    ended = await client.schedules.cancel_backfill(schedule_id, backfill_id)
    call.out.one(_record(ended), f"{ended.id}: {_sentence(ended)}")


def _sentence(each: Backfill) -> str:
    total = f"{each.total:,}" if each.total_is_exact else f"more than {each.total:,}"
    return f"{each.state.name.lower()}, {each.created:,} of {total} task{'' if total == '1' else 's'} created."


def _record(each: Backfill) -> OutputRecord:
    return {
        "backfill_id": each.id,
        "schedule_id": each.schedule_id,
        "state": each.state.name,
        "created": each.created,
        "total": each.total,
        "total_is_exact": each.total_is_exact,
        "start": iso_of(each.start),
        "end": iso_of(each.end),
        "rate": each.rate,
        "overlap": each.overlap,
        "create_time": iso_of(each.create_time),
        "error": each.error,
    }


def add_to(group: typer.Typer) -> None:
    """Beside the commands of schedules."""
    group.command()(online(backfill))
    group.command()(listing(backfills))
    group.command()(online(cancel_backfill))
