"""`timerd limits`: limits with names, which queues share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands.call import CommandCall, listing, online
from timerd.commands.failures import WrongInput
from timerd.commands.key_rules import key_limits, overrides_record, overrides_text
from timerd.commands.limit_text import limit_record, limit_shown
from timerd.commands.output import Form, OutputRecord
from timerd.commands.queues import Burst, IfRevision, MaxInHand, Rate
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, shown
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.client import KeyAtLimit, LimitInfo

_COLUMNS = (
    Column("limit", Kind.ID),
    Column("in_hand", Kind.FIGURE, "in hand"),
    Column("max_in_hand", Kind.FIGURE, "of"),
    Column("rate", Kind.FIGURE),
    Column("burst", Kind.FIGURE, is_wide=True),
    Column("next_time", Kind.MOMENT, "next", is_wide=True),
    Column("held_until", Kind.MOMENT, "held until"),
    Column("revision", Kind.FIGURE, is_wide=True),
    Column("keyed", Kind.TEXT, "for"),
    Column("queues", Kind.TEXT),
)
EACH_KEY = "each limit key"
Keyed = Annotated[bool, typer.Option("--keyed", help="Each limit key has it for itself, over all its queues.")]
KeysOfTheirOwn = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="KEY=LIMIT", help="Of one limit key: acme=20, 30/m or any; again."),
]
LimitArgument = Annotated[str, typer.Argument(metavar="LIMIT", help="The limit.")]


async def list_limits(call: CommandCall) -> None:
    """List the limits, and the queues that list them."""
    client = await call.connect()
    made = _record if call.out.form in (Form.JSON, Form.NAME) else _row
    call.out.many([made(each) async for each in client.limits.list()], _COLUMNS, "There are no limits.")


async def show(call: CommandCall, limit: LimitArgument) -> None:
    """Show a limit, and the queues that list it."""
    client = await call.connect()
    found = await client.limits.get(limit)
    record = {
        **_record(found),
        "keys_at_limit": list(map(_key_record, found.keys_at_limit)),
        "keys_at_limit_count": found.keys_at_limit_count,
    }
    call.out.details(record, {**record, **_texts(found)})


async def put(
    call: CommandCall,
    limit: LimitArgument,
    rate: Rate = None,
    burst: Burst = None,
    max_in_hand: MaxInHand = None,
    keyed: Keyed = False,
    key: KeysOfTheirOwn = None,
    revision: IfRevision = 0,
) -> None:
    """Make a limit, or put it in the place of the one before.

    timerd limits set stripe --rate 100/s --burst 20 --max-in-hand 10

    timerd limits set partner --max-in-hand 10 --keyed --key acme=20
    """
    overrides = {name: own for name, own in key_limits(key or ()).items() if own is not None}
    if overrides and not keyed:
        raise WrongInput("--key is for a limit that each limit key has for itself: add --keyed, or leave --key out.")
    client = await call.connect()
    found = await client.limits.put(
        limit, rate=rate, burst=burst, max_in_hand=max_in_hand, keyed=keyed, overrides=overrides, revision=revision
    )
    call.out.one(_record(found), f"{_whose(found)} {limit_shown(found.limit)}.")


async def remove(call: CommandCall, limit: LimitArgument, revision: IfRevision = 0) -> None:
    """Delete a limit that no queue lists."""
    client = await call.connect()
    await client.limits.delete(limit, revision=revision)
    call.out.one({"limit": limit, "deleted": True}, f"{limit} is deleted.")


def _whose(limit: LimitInfo) -> str:
    others = f", but for {counted(len(limit.overrides), 'limit key')} with an override," if limit.overrides else ""
    return f"Of what goes by {limit.name} each limit key{others}" if limit.keyed else f"What goes by {limit.name}"


def _record(limit: LimitInfo) -> OutputRecord:
    return {
        "limit": limit.name,
        "namespace": limit.namespace,
        **limit_record(limit.limit),
        "in_hand": limit.in_hand,
        "next_time": iso_of(limit.next_time) if limit.next_time is not None else None,
        "held_until": iso_of(limit.held_until) if limit.held_until is not None else None,
        "revision": limit.revision,
        "keyed": limit.keyed,
        "overrides": overrides_record(limit.overrides),
        "queues": list(limit.queues),
    }


def _row(limit: LimitInfo) -> OutputRecord:
    """Of a table: what goes without saying is left out."""
    return {**_record(limit), "keyed": EACH_KEY if limit.keyed else ""}


def _texts(limit: LimitInfo) -> dict[str, str]:
    """What people see in the place of what programs read."""
    at_limit = "\n".join(map(key_text, limit.keys_at_limit))
    more = limit.keys_at_limit_count - len(limit.keys_at_limit)
    return {
        "keyed": EACH_KEY if limit.keyed else "",
        "queues": ", ".join(limit.queues),
        "overrides": overrides_text(limit.overrides),
        "keys_at_limit": f"{at_limit}\nand {counted(more, 'limit key')} more" if more else at_limit,
        "keys_at_limit_count": "",
    }


def key_text(key: KeyAtLimit) -> str:
    """In a sentence without an end."""
    held = "is held, since a handler was throttled, and " if key.throttled else ""
    waiting = counted(key.waiting, "due task", "wait")
    next_start = f"; the next one may start at {shown(key.next_time)}" if key.next_time is not None else ""
    return f"{key.limit_key} {held}has {key.in_hand} in hand, and {waiting}{next_start}"


def _key_record(key: KeyAtLimit) -> OutputRecord:
    return {
        "limit_key": key.limit_key,
        "in_hand": key.in_hand,
        "waiting": key.waiting,
        "next_time": iso_of(key.next_time) if key.next_time is not None else None,
        "throttled": key.throttled,
    }


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Limits that queues share.", no_args_is_help=True)
    group.command("list")(listing(list_limits))
    group.command()(listing(show))
    group.command("set")(online(put))
    group.command("rm")(online(remove))
    app.add_typer(group, name="limits")
