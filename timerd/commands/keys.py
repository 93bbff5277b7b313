"""`timerd keys`: which ordering keys of a queue stand still or have the most waiting, and how they go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands.call import CommandCall, listing, online
from timerd.commands.failures import WrongInput
from timerd.commands.output import OutputRecord
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of

if TYPE_CHECKING:
    from timerd.client import Client, KeyInfo

MOST = 1_000
_COLUMNS = (
    Column("key", Kind.ID),
    Column("state"),
    Column("waiting", Kind.FIGURE),
    Column("since", Kind.MOMENT),
    Column("next", Kind.MOMENT, is_wide=True),
    Column("task", is_wide=True),
)
KeyedQueue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")]
OrderingKey = Annotated[str, typer.Argument(metavar="KEY", help="The ordering key.")]
Most = Annotated[int, typer.Option("--limit", min=1, max=MOST, help="So many at most.")]


async def list_keys(call: CommandCall, queue: KeyedQueue, limit: Most = 20) -> None:
    """List keys that stand still, or have the most waiting."""
    client = await call.connect()
    found = [_record(each) for each in await client.queues.keys(queue, limit=limit)]
    call.out.many(found, _COLUMNS, f"No ordering key of {queue} waits for anything.")


async def resume(call: CommandCall, queue: KeyedQueue, key: OrderingKey) -> None:
    """Redrive the dead letter that halts a key; the key goes on."""
    client = await call.connect()
    halting = await _halting(client, queue, key)
    redriven = await client.redrive([halting])
    call.out.one(
        {"key": key, "task": halting, "redriven": int(redriven)}, f"The key {key} goes on; {halting} is tried again."
    )


async def skip(call: CommandCall, queue: KeyedQueue, key: OrderingKey) -> None:
    """Let a key go on without its dead letter."""
    client = await call.connect()
    halting = await _halting(client, queue, key)
    skipped = await client.queues.skip_key(queue, key, task_id=halting)
    call.out.one({"key": key, "task": skipped}, f"The key {key} goes on; {skipped} stays a dead letter.")


async def _halting(client: Client, queue: str, key: str) -> str:
    """The task that halts it. Those that stand still are the first of the list."""
    found = {each.key: each.task_id for each in await client.queues.keys(queue, limit=MOST) if each.halted}
    if (halting := found.get(key)) is None:
        raise WrongInput(f"The ordering key {key!r} of {queue} does not stand still: see `timerd keys list {queue}`.")
    return halting


def _record(found: KeyInfo) -> OutputRecord:
    return {
        "key": found.key,
        "state": "HALTED" if found.halted else "RETRY" if found.next_time is not None else "GOES",
        "waiting": found.waiting,
        "since": iso_of(found.since) if found.since is not None else None,
        "next": iso_of(found.next_time) if found.next_time is not None else None,
        "task": found.task_id,
    }


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Ordering keys that stand still or wait.", no_args_is_help=True)
    group.command("list")(listing(list_keys))
    group.command()(online(resume))
    group.command()(online(skip))
    app.add_typer(group, name="keys")
