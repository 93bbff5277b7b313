"""`timerd limits`: limits with names, which queues share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands.call import CommandCall, listing, online
from timerd.commands.limit_text import limit_record, limit_shown
from timerd.commands.output import OutputRecord
from timerd.commands.queues import Burst, IfRevision, MaxInHand, Rate
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of

if TYPE_CHECKING:
    from timerd.client import LimitInfo

_COLUMNS = (
    Column("limit", Kind.ID),
    Column("in_hand", Kind.FIGURE, "in hand"),
    Column("max_in_hand", Kind.FIGURE, "of"),
    Column("rate", Kind.FIGURE),
    Column("burst", Kind.FIGURE, is_wide=True),
    Column("next_time", Kind.MOMENT, "next", is_wide=True),
    Column("held_until", Kind.MOMENT, "held until"),
    Column("revision", Kind.FIGURE, is_wide=True),
    Column("queues", Kind.TEXT),
)
LimitArgument = Annotated[str, typer.Argument(metavar="LIMIT", help="The limit.")]


async def list_limits(call: CommandCall) -> None:
    """List the limits, and the queues that list them."""
    client = await call.connect()
    call.out.many([_record(each) async for each in client.limits.list()], _COLUMNS, "There are no limits.")


async def show(call: CommandCall, limit: LimitArgument) -> None:
    """Show a limit, and the queues that list it."""
    client = await call.connect()
    record = _record(await client.limits.get(limit))
    call.out.details(record, {**record, "queues": ", ".join(record["queues"])})


async def put(
    call: CommandCall,
    limit: LimitArgument,
    rate: Rate = None,
    burst: Burst = None,
    max_in_hand: MaxInHand = None,
    revision: IfRevision = 0,
) -> None:
    """Make a limit, or put it in the place of the one before.

    timerd limits set stripe --rate 100/s --burst 20 --max-in-hand 10
    """
    client = await call.connect()
    found = await client.limits.put(limit, rate=rate, burst=burst, max_in_hand=max_in_hand, revision=revision)
    call.out.one(_record(found), f"What goes by {found.name} {limit_shown(found.limit)}.")


async def remove(call: CommandCall, limit: LimitArgument, revision: IfRevision = 0) -> None:
    """Delete a limit that no queue lists."""
    client = await call.connect()
    await client.limits.delete(limit, revision=revision)
    call.out.one({"limit": limit, "deleted": True}, f"{limit} is deleted.")


def _record(limit: LimitInfo) -> OutputRecord:
    return {
        "limit": limit.name,
        "namespace": limit.namespace,
        **limit_record(limit.limit),
        "in_hand": limit.in_hand,
        "next_time": iso_of(limit.next_time) if limit.next_time is not None else None,
        "held_until": iso_of(limit.held_until) if limit.held_until is not None else None,
        "revision": limit.revision,
        "queues": list(limit.queues),
    }


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Limits that queues share.", no_args_is_help=True)
    group.command("list")(listing(list_limits))
    group.command()(listing(show))
    group.command("set")(online(put))
    group.command("rm")(online(remove))
    app.add_typer(group, name="limits")
