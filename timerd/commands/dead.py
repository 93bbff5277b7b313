"""`timerd dead-letters` and `redrive`: tasks that failed for good, and their second life."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands import options
from timerd.commands.call import CommandCall, listing, online
from timerd.commands.failures import CommandFailure, WrongInput
from timerd.commands.look import history_record, task_record
from timerd.commands.output import OutputRecord
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, parse_moment
from timerd.model.attempts import gist_of
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.client import DeadLetter

_COLUMNS = (
    Column("death_time", Kind.MOMENT, "died"),
    Column("queue", Kind.NAME),
    Column("task_id", Kind.ID),
    Column("attempts", Kind.FIGURE, "tries"),
    Column("key", Kind.NAME, is_wide=True),
    Column("payload", Kind.TEXT),
    Column("last_error", Kind.TEXT),
)


async def dead_letters(
    call: CommandCall,
    queue: options.Queue = "",
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Died at or after this.")] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Died before this.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many.")] = 100,
) -> None:
    """List tasks that were rejected or whose attempts are used up."""
    records: list[OutputRecord] = []
    start, end = (parse_moment(text) if text is not None else None for text in (since, until))
    client = await call.connect()
    call.bar.begin("reading", limit)
    async for letter in client.dead_letters(queue, start=start, end=end, page_size=min(limit, 1000)):
        records.append(_record(letter, call.out.as_json))
        call.bar.advance()
        if len(records) == limit:
            break
    call.out.many(records, _COLUMNS, "No dead letters.")


def _record(letter: DeadLetter, as_json: bool) -> OutputRecord:
    error = letter.last_error if as_json else _said(letter.last_error)
    record = task_record(letter.task)
    # It is due no more.
    del record["due_time"], record["due_at_ms"]
    death = {"death_time": iso_of(letter.death_time), "attempts": letter.attempts, "last_error": error}
    return record | death | ({"history": history_record(letter.task)} if as_json else {})


def _said(error: str) -> str:
    """In a line: its last one, but of a stack, which ends with code, what stands before it."""
    last = error.rstrip().rpartition("\n")[2]
    return gist_of(error) if last.startswith(" ") else last


async def redrive(
    call: CommandCall,
    task_ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Dead letters; or --queue.")] = None,
    queue: Annotated[str, typer.Option(help="All dead letters of this queue.")] = "",
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Died at or after this.")] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Died before this.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 1000,
) -> None:
    """Give dead letters a new life at once. Their ids stay."""
    options.check_named(*(task_ids or ()))
    ids = list(map(call.whole_id, task_ids or ()))
    if bool(ids) == bool(queue):
        raise WrongInput("Name what to redrive: either one or more IDs, or --queue.")
    start, end = (parse_moment(text) if text is not None else None for text in (since, until))
    client = await call.connect()
    call.bar.begin("redriving")
    redriven = await client.redrive(ids, queue=queue, start=start, end=end, max_redriven=limit)
    record = {"redriven": int(redriven), "missing": list(redriven.missing), "refused": dict(redriven.refused)}
    call.out.one(record, f"{counted(int(redriven), 'task', 'live')} again.")
    if redriven.refused:
        first, sentence = next(iter(redriven.refused.items()))
        raise CommandFailure(f"{len(redriven.refused)} cannot live again, as {first!r}: {sentence}")
    if redriven.missing:
        raise CommandFailure(
            f"{len(redriven.missing)} of {len(ids)} are no dead letters of this namespace, as {redriven.missing[0]!r}: "
            "`timerd dead-letters` lists those there are."
        )


async def purge_dead(
    call: CommandCall,
    queue: options.Queue = "",
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Died at or after this.")] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Died before this.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Really remove them; without it nothing is changed.")] = False,
) -> None:
    """Remove dead letters for good; a dry run without --force.

    Those that halt their ordering keys stay.
    """
    if force and not (queue or since or until):
        raise WrongInput("Nothing says which dead letters to purge: give --queue, --from or --to.")
    start, end = (parse_moment(text) if text is not None else None for text in (since, until))
    client = await call.connect()
    call.bar.begin("purging" if force else "counting")
    purged = await client.purge_dead_letters(queue, start=start, end=end, force=force)
    record = {"purged": int(purged), "staying": purged.staying, "dry_run": purged.dry_run}
    staying = counted(purged.staying, "dead letter", "stay")
    stay = f" {staying}, because ordering keys stand still (timerd keys)." if purged.staying else ""
    if not int(purged):
        said = "There are none to remove."
    elif purged.dry_run:
        how = "add --force" if queue or since or until else "give --queue, --from or --to, and --force,"
        said = f"{counted(int(purged), 'dead letter')} would be removed. Nothing was: {how} to remove them."
    else:
        said = f"{counted(int(purged), 'dead letter', 'were')} removed."
    call.out.one(record, said + stay)


def register(app: typer.Typer) -> None:
    app.command("dead-letters")(listing(dead_letters))
    app.command()(online(redrive))
    app.command("purge-dead")(online(purge_dead))
