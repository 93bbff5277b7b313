"""`timerd audit`: what operators did, from the audit log of a server."""

from __future__ import annotations

import json as encoding
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from timerd.commands import options
from timerd.commands.failures import failure_of_os
from timerd.commands.output import Form, Output, OutputRecord
from timerd.commands.table import Column, Kind

_COLUMNS = (
    Column("at", Kind.INSTANT),
    Column("caller", Kind.NAME),
    Column("method"),
    Column("outcome"),
    Column("asked", Kind.TEXT),
    Column("peer", Kind.TEXT, is_wide=True),
    Column("replied", Kind.TEXT, is_wide=True),
)


def audit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The audit log, as auth.audit_file names it.")],
    caller: Annotated[str, typer.Option("--caller", metavar="NAME", help="Only what this caller did.")] = "",
    method: Annotated[str, typer.Option("--method", metavar="NAME", help="Only this verb, for example Purge.")] = "",
    json: options.Json = False,
) -> None:
    """Show what operators did, from the audit log of a server.

    One line for each call, in the order in which they were asked. The outcome is OK, the code of a refusal, or unknown
    where the server ended before it was done."""
    out = Output(Form.of(json))
    try:
        out.many(_calls(file, caller, method), _COLUMNS, "Nothing was done.")
    except OSError as error:
        raise failure_of_os(error) from error


def _calls(file: Path, caller: str, method: str) -> Iterator[OutputRecord]:
    from timerd.services.transport.audit_log import read_audit_log

    for call in read_audit_log(file):
        if caller in ("", call.caller) and method in ("", call.method):
            texts = {"asked": _text(call.request), "replied": _text(call.result)}
            yield call.record() | texts


def _text(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={each}" for name, each in value.items())
    return value if isinstance(value, str) else encoding.dumps(value)


def register(app: typer.Typer) -> None:
    app.command()(audit)
