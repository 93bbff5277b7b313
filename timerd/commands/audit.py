"""`timerd audit`: what operators did, from the server, or from the file that one wrote."""

from __future__ import annotations

import json as encoding
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands.call import CommandCall, listing
from timerd.commands.failures import WrongInput, failure_of_os
from timerd.commands.output import OutputRecord
from timerd.commands.table import Column, Kind
from timerd.commands.times import parse_moment
from timerd.model.identity import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from timerd.v1.overview_service_pb2 import AuditedCall

_COLUMNS = (
    Column("at", Kind.INSTANT),
    Column("caller", Kind.NAME),
    Column("method"),
    Column("outcome"),
    Column("asked", Kind.TEXT),
    Column("peer", Kind.TEXT, is_wide=True),
    Column("replied", Kind.TEXT, is_wide=True),
    Column("id", Kind.ID, is_wide=True),
)

_OF_THE_CALL = ("request_id", "request_time", "page_token")
_USUAL = ("namespace", DEFAULT_NAMESPACE)


async def audit(
    call: CommandCall,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A file, as auth.audit_file names it. Default: the server.")
    ] = None,
    caller: Annotated[str, typer.Option("--caller", metavar="NAME", help="Only what this caller did.")] = "",
    method: Annotated[str, typer.Option("--method", metavar="NAME", help="Only this verb, for example Purge.")] = "",
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Asked at or after this.")] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Asked before this.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many of what the server has.")] = 100,
) -> None:
    """Show what operators did.

    The server has the last 90 days, the newest first. With FILE it is read from there, in the order in which they were
    asked. The outcome is OK, the code of a refusal, or unknown where the server ended before it was done."""
    if file is not None:
        if since is not None or until is not None:
            raise WrongInput("--from and --to are for what the server has: leave them out with FILE.")
        _show(call, _of_file(file, caller, method))
        return
    start, end = (parse_moment(text) if text is not None else None for text in (since, until))
    records: list[OutputRecord] = []
    client = await call.connect()
    call.bar.begin("reading", limit)
    async for each in client.audited(caller, method, start=start, end=end, page_size=min(limit, 1000)):
        records.append(_record(each))
        call.bar.advance()
        if len(records) == limit:
            break
    _show(call, records)


def _show(call: CommandCall, calls: Iterable[OutputRecord]) -> None:
    try:
        call.out.many(calls if call.out.as_json else map(_with_texts, calls), _COLUMNS, "Nothing was done.")
    except OSError as error:
        raise failure_of_os(error) from error


def _of_file(file: Path, caller: str, method: str) -> Iterator[OutputRecord]:
    from timerd.services.transport.audit_log import read_audit_log

    for call in read_audit_log(file):
        if caller in ("", call.caller) and method in ("", call.method):
            yield call.record()


def _record(call: AuditedCall) -> OutputRecord:
    """As a line of the file has it."""
    return {
        "at": call.request_time.ToJsonString(),
        "caller": call.caller,
        "peer": call.peer,
        "method": call.method,
        "request": encoding.loads(call.request),
        "outcome": call.outcome,
        "result": call.result if call.outcome != "OK" else encoding.loads(call.result),
        "id": call.id,
    }


def _with_texts(record: OutputRecord) -> OutputRecord:
    return {**record, "asked": _text(record["request"]), "replied": _text(record["result"])}


def _text(value: object) -> str:
    """What names the call, and not what it did, is left out, as is the namespace that a call has by itself."""
    if isinstance(value, dict):
        said = {name: each for name, each in value.items() if name not in _OF_THE_CALL and (name, each) != _USUAL}
        return " ".join(_field(name, each) for name, each in said.items())
    return value if isinstance(value, str) else encoding.dumps(value)


def _field(name: str, value: object) -> str:
    """An empty message says by being there, as the breaker of a queue does."""
    if isinstance(value, dict):
        return _text(value) or name
    return f"{name}={_text(value)}"


def register(app: typer.Typer) -> None:
    app.command()(listing(audit))
