"""`timerd outbox`: the tables of a transactional outbox in the application's database, and the relay that drains it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from timerd.commands import options
from timerd.commands.call import CommandCall, form_of_listing, online
from timerd.commands.failures import CommandFailure, Unreachable, WrongInput
from timerd.commands.output import Form, Output, payload_fields
from timerd.commands.plain_log import log_plainly
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, parse_span, relative
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.outbox.ports import NamespaceFacts, OutboxFacts, OutboxStore, RefusedFact
    from timerd.outbox.relay import Relay

T = TypeVar("T")
_HELP = "A table in your own database from which tasks come."
_SHORTEST_LEASE_S, _LONGEST_LEASE_S = 1.0, 3600.0
_STATUS_S = 60.0
Database = Annotated[
    str,
    typer.Option(
        "--database",
        metavar="URL",
        envvar="TIMERD_OUTBOX_DATABASE",
        help="postgresql://USER@HOST/NAME, mysql://USER@HOST/NAME or sqlite:///FILE.",
    ),
]
_SEALED = (
    Column("no", Kind.FIGURE, "number"),
    Column("tasks", Kind.FIGURE),
    Column("sealed_time", Kind.MOMENT, "sealed"),
    Column("relay", Kind.WORD),
    Column("lease_end_time", Kind.MOMENT, "lease ends"),
)
_REFUSED = (
    Column("number", Kind.FIGURE),
    Column("refused_time", Kind.MOMENT, "refused"),
    Column("verb"),
    Column("queue", Kind.NAME),
    Column("key", Kind.NAME),
    Column("reason", Kind.NAME),
    Column("fire_time", Kind.INSTANT, is_wide=True),
    Column("payload", Kind.TEXT, is_wide=True),
    Column("problem", Kind.TEXT),
)


def init(
    database: Database,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the SQL instead, for your own migrations.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Make the tables of an outbox.

    In PostgreSQL also its functions. May be repeated."""
    store = _opened(database)
    if only_print:
        print(_sql_of(database))
        return
    _ask(store, store.make)
    Output(Form.of(json)).one({"database": store.name}, f"There is an outbox in {store.name}.")


def _sql_of(database: str) -> str:
    from timerd.outbox import mysql_schema, postgres_schema, sqlite_schema

    if database.startswith(("mysql", "mariadb")):
        return mysql_schema.script()
    return sqlite_schema.script() if database.startswith("sqlite") else postgres_schema.DDL.strip()


async def run(
    call: CommandCall,
    database: Database,
    lease: Annotated[str, typer.Option(metavar="SPAN", help="After so long another relay takes over.")] = "60s",
    poll: Annotated[str, typer.Option(metavar="SPAN", help="Between two looks at an empty outbox.")] = "50ms",
    http: Annotated[str, typer.Option("--http", metavar="HOST:PORT", help="Metrics and health, on loopback.")] = "",
    until_eof: Annotated[
        bool, typer.Option("--until-eof", help="End when stdin ends, as with who started it.")
    ] = False,
) -> None:
    """Send what is in the outbox until Ctrl-C.

    Any number may run at a time. A relay waits for a database or a server that is away."""
    from timerd.commands.end_of_input import end_of_input
    from timerd.commands.outbox_port import watched
    from timerd.outbox.relay import Relay, RelayOptions
    from timerd.outbox.sending import GrpcSending
    from timerd.sdk.working import run_until_signalled

    chosen = RelayOptions(_seconds("--lease", lease, _SHORTEST_LEASE_S), _seconds("--poll", poll, 0.001))
    store = _opened(database)
    call.bar.stop()
    log_plainly()
    await _look_once(store)
    sending = GrpcSending(call.endpoint.connection(), call.endpoint.timeout_s)
    relay = Relay(store, sending, chosen)
    try:
        async with watched(http, _opened(database), relay):
            call.out.one(
                {"relay": relay.owner, "database": store.name, "server": call.endpoint.server},
                f"Relay {relay.owner} sends from {store.name} to timerd at {call.endpoint.server}; Ctrl-C ends it.",
            )
            with end_of_input(relay.stop) if until_eof else nullcontext():
                exit_code = await run_until_signalled(relay)
    finally:
        await sending.close()
        await store.close()
    call.out.one(dict(relay.counts), _told(relay))
    if exit_code:
        raise typer.Exit(exit_code)


def _seconds(option: str, text: str, least_s: float) -> float:
    seconds = parse_span(text).total_seconds()
    if not least_s <= seconds <= _LONGEST_LEASE_S:
        raise WrongInput(f"{option} {text}: allowed are {least_s:g}s to 1h.")
    return seconds


async def _look_once(store: OutboxStore) -> None:
    """An outbox that is not there is told at once; a database that is away is waited for."""
    from timerd.outbox.ports import DatabaseAway, DatabaseWrong

    try:
        await store.facts()
    except DatabaseWrong as wrong:
        raise CommandFailure(str(wrong)) from wrong
    except DatabaseAway as away:
        logging.getLogger("timerd.outbox").warning("%s", away)


def _told(relay: Relay) -> str:
    counts = relay.counts
    return (
        f"{counted(counts['tasks'], 'row', 'were')} sent in {counted(counts['batches'], 'batch')}, of which "
        f"{counts['again']:,} again; {counted(counts['refused'], 'row', 'were')} refused."
    )


def status(database: Database, json: options.Json = False, output: options.OutputOption = None) -> None:
    """Show what waits, is on its way, or was refused.

    The exit code is 1 where the oldest row has waited for a minute."""
    out, store = Output(form_of_listing(json, output)), _opened(database)
    facts = _ask(store, store.facts)
    out.details(_record(facts), _shown(facts))
    if facts.sealed and out.form in (Form.TABLE, Form.WIDE):
        out.say("")
        out.many([_sealed_record(facts, index) for index in range(len(facts.sealed))], _SEALED, "")
        for why, tasks in _held_up(facts).items():
            out.say(f"{counted(tasks, 'row')} on the way must wait, and later ones like it: {why}")
    if facts.oldest_ms and facts.now_ms - facts.oldest_ms > _STATUS_S * 1000:
        raise CommandFailure(
            "The oldest row has waited for more than a minute: look whether `timerd outbox run` runs, and what it says."
        )


def _held_up(facts: OutboxFacts) -> Counter[str]:
    """What the server said -> how many rows."""
    waiting: Counter[str] = Counter()
    for each in facts.sealed:
        if each.why:
            waiting[each.why] += each.tasks
    return waiting


def _record(facts: OutboxFacts) -> dict[str, Any]:
    return {
        "outbox": facts.outbox,
        "rows": facts.rows,
        "oldest_time": _iso(facts.oldest_ms) if facts.oldest_ms else None,
        "sealed": [_sealed_record(facts, index) for index in range(len(facts.sealed))],
        "refused": facts.refused,
        "namespaces": {name: _namespace_record(of) for name, of in facts.namespaces.items()},
    }


def _namespace_record(of: NamespaceFacts) -> dict[str, Any]:
    oldest = {"oldest_time": _iso(of.oldest_ms) if of.oldest_ms else None}
    return {"rows": of.rows, **oldest, "sealed": of.sealed, "refused": of.refused}


def _sealed_record(facts: OutboxFacts, index: int) -> dict[str, Any]:
    each = facts.sealed[index]
    times = {"sealed_time": _iso(each.made_ms), "lease_end_time": _iso(each.until_ms)}
    whose = {"namespace": each.namespace, "relay": each.owner, "why": each.why}
    return {"no": each.no, "tasks": each.tasks, **whose, **times}


def _shown(facts: OutboxFacts) -> dict[str, object]:
    from timerd.outbox.ports import MOST_COUNTED

    more = " or more" if facts.rows >= MOST_COUNTED else ""
    return {
        "outbox": facts.outbox,
        "rows waiting": f"{facts.rows:,}{more}",
        "oldest": relative(_moment(facts.oldest_ms), _moment(facts.now_ms)) if facts.oldest_ms else "",
        "on their way": f"{sum(each.tasks for each in facts.sealed):,}",
        "refused": f"{facts.refused:,}",
        **(_of_namespaces(facts) if len(facts.namespaces) > 1 else {}),
    }


def _of_namespaces(facts: OutboxFacts) -> dict[str, object]:
    """Where there are several: which of them is held up shows in its oldest row, and in what is on its way."""
    now = _moment(facts.now_ms)
    oldest = {
        name: f", oldest {relative(_moment(of.oldest_ms), now)}" if of.oldest_ms else ""
        for name, of in facts.namespaces.items()
    }
    return {
        f"of {name}": f"{of.rows:,} waiting{oldest[name]}, {of.sealed:,} on their way, {of.refused:,} refused"
        for name, of in facts.namespaces.items()
    }


def refused(
    database: Database,
    numbers: Annotated[list[int] | None, typer.Argument(metavar="[NUMBER]...", help="Those to settle.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Put them into the outbox once more.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Forget them.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many.")] = 100,
    json: options.Json = False,
    output: options.OutputOption = None,
) -> None:
    """List the rows that the server refused, or settle some."""
    out, store = Output(form_of_listing(json, output)), _opened(database)
    if not (numbers or again or drop):
        facts = _ask(store, lambda: store.refused(limit))
        out.many([_refused_record(each) for each in facts], _REFUSED, "No row was refused.")
        return
    if not numbers or again == drop:
        raise WrongInput("To settle refused rows give their NUMBERs and either --again or --drop.")
    settled = _ask(store, lambda: store.settle_refused(numbers, again=again))
    what = "put into the outbox again" if again else "forgotten"
    out.one({"settled": settled}, f"{counted(settled, 'row', 'were')} {what}.")
    if settled < len(set(numbers)):
        raise CommandFailure("Some of these numbers are not there: `timerd outbox refused` lists those there are.")


def _refused_record(fact: RefusedFact) -> dict[str, Any]:
    from timerd.outbox.rows import RowVerb

    row = fact.refused.row
    return {
        "number": fact.number,
        "refused_time": _iso(fact.refused_ms),
        "verb": RowVerb(row.verb).name.lower(),
        "namespace": row.namespace,
        "queue": row.queue,
        "key": row.key,
        "fire_time": _iso(row.fire_at_ms) if row.fire_at_ms else None,
        **payload_fields(row.payload),
        "reason": fact.refused.reason,
        "problem": fact.refused.problem,
    }


def reset(
    database: Database,
    discard: Annotated[bool, typer.Option("--discard", help="Also remove all that waits or is on its way.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Really do it; without it nothing is changed.")] = False,
    json: options.Json = False,
) -> None:
    """Give a copy of a database an outbox of its own.

    Or one that was restored from a backup."""
    store = _opened(database)
    if not force:
        raise WrongInput("`timerd outbox reset` is for copies and restored databases only: add --force to do it.")
    gone = _ask(store, lambda: store.reset(discard=discard))
    record = {"database": store.name, "discarded": gone}
    Output(Form.of(json)).one(
        record, f"The outbox in {store.name} has a new identity; {counted(gone, 'row', 'were')} discarded."
    )


def _opened(database: str) -> OutboxStore:
    from timerd.outbox.opening import open_outbox
    from timerd.outbox.ports import DatabaseWrong

    try:
        return open_outbox(database)
    except DatabaseWrong as wrong:
        raise WrongInput(str(wrong)) from wrong


def _ask(store: OutboxStore, ask: Callable[[], Awaitable[T]]) -> T:
    from timerd.outbox.ports import DatabaseAway, DatabaseWrong

    async def asked() -> T:
        try:
            return await ask()
        finally:
            await store.close()

    try:
        return asyncio.run(asked())
    except DatabaseWrong as wrong:
        raise CommandFailure(str(wrong)) from wrong
    except DatabaseAway as away:
        raise Unreachable(str(away)) from away


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _iso(at_ms: int) -> str:
    return iso_of(_moment(at_ms))


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=_HELP, no_args_is_help=True)
    commands: Sequence[Callable[..., Any]] = (init, online(run), status, refused, reset)
    for command in commands:
        group.command()(command)
    app.add_typer(group, name="outbox")
