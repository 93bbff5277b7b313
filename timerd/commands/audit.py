"""`timerd audit`: what operators did, from the audit log of a server."""

from __future__ import annotations

import json as encoding
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from timerd.commands import options
from timerd.commands.call import form_of_listing
from timerd.commands.failures import failure_of_os
from timerd.commands.output import Output, OutputRecord
from timerd.commands.table import Column, Kind
from timerd.model.identity import DEFAULT_NAMESPACE

_COLUMNS = (
    Column("at", Kind.INSTANT),
    Column("caller", Kind.NAME),
    Column("method"),
    Column("outcome"),
    Column("asked", Kind.TEXT),
    Column("peer", Kind.TEXT, is_wide=True),
    Column("replied", Kind.TEXT, is_wide=True),
)

_OF_THE_CALL = ("request_id", "request_time", "page_token")
_USUAL = ("namespace", DEFAULT_NAMESPACE)


def audit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The audit log, as auth.audit_file names it.")],
    caller: Annotated[str, typer.Option("--caller", metavar="NAME", help="Only what this caller did.")] = "",
    method: Annotated[str, typer.Option("--method", metavar="NAME", help="Only this verb, for example Purge.")] = "",
    json: options.Json = False,
    output: options.OutputOption = None,
) -> None:
    """Show what operators did, from the audit log of a server.

    One line for each call, in the order in which they were asked. The outcome is OK, the code of a refusal, or unknown
    where the server ended before it was done."""
    out = Output(form_of_listing(json, output))
    calls = _calls(file, caller, method)
    try:
        out.many(calls if out.as_json else map(_with_texts, calls), _COLUMNS, "Nothing was done.")
    except OSError as error:
        raise failure_of_os(error) from error


def _calls(file: Path, caller: str, method: str) -> Iterator[OutputRecord]:
    from timerd.services.transport.audit_log import read_audit_log

    for call in read_audit_log(file):
        if caller in ("", call.caller) and method in ("", call.method):
            yield call.record()


def _with_texts(record: OutputRecord) -> OutputRecord:
    return {**record, "asked": _text(record["request"]), "replied": _text(record["result"])}


def _text(value: object) -> str:
    """What names the call, and not what it did, is left out, as is the namespace that a call has by itself."""
    if isinstance(value, dict):
        said = {name: each for name, each in value.items() if name not in _OF_THE_CALL and (name, each) != _USUAL}
        return " ".join(
            _text(each) if isinstance(each, dict) else f"{name}={_text(each)}" for name, each in said.items()
        )
    return value if isinstance(value, str) else encoding.dumps(value)


def register(app: typer.Typer) -> None:
    app.command()(audit)
