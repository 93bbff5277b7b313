"""`timerd purge`: remove many tasks that have not ended. Says what it would do unless told to do it."""

from __future__ import annotations

from typing import Annotated

import typer

from timerd.commands import options
from timerd.commands.call import CommandCall, online
from timerd.commands.failures import WrongInput
from timerd.commands.look import filters
from timerd.model.counted import counted


async def purge(
    call: CommandCall,
    queue: options.Queue = "",
    since: options.From = None,
    until: options.To = None,
    label: options.LabelsOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All tasks of the namespace, without any filter.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Really remove them; without it nothing is changed.")] = False,
) -> None:
    """Remove tasks that have not ended; a dry run without --force."""
    narrow = bool(queue or since or until or label)
    if narrow == everything:
        what = "--all means without any filter" if everything else "Nothing says which tasks to purge"
        raise WrongInput(f"{what}: give --queue, --from, --to or --label, or else --all alone.")
    chosen = filters(queue, since or ("1970-01-01T00:00:00Z" if everything else None), until, label)
    client = await call.connect()
    call.bar.begin("purging")
    purged = await client.purge(**chosen, force=force)
    record = {"purged": int(purged), "dry_run": purged.dry_run, "in_hand": purged.with_workers}
    if purged.dry_run:
        call.out.one(
            record, f"{counted(int(purged), 'task')} would be removed. Nothing was: add --force to remove them."
        )
    else:
        in_hand = f" {_in_hand(purged.with_workers)}" if purged.with_workers else ""
        call.out.one(record, f"{counted(int(purged), 'task', 'were')} removed.{in_hand}")


def _in_hand(tasks: int) -> str:
    return (
        f"Workers had {tasks:,} more in hand and are told to end: these may still be acknowledged, and are not tried "
        "again."
    )


def register(app: typer.Typer) -> None:
    app.command()(online(purge))
