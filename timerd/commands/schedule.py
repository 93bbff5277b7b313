"""`timerd schedule`: one task, or a file with one payload a line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands import options
from timerd.commands.call import Call, online
from timerd.commands.failures import WrongInput
from timerd.commands.output import Record
from timerd.commands.times import iso_of, parse_due, parse_span, shown, shown_span

if TYPE_CHECKING:
    from timerd.client import Task

_POLICIES = ("keep", "replace", "reject")
_RETRY = "Retry"


async def schedule(
    call: Call,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Workers of this queue receive it.")],
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", help="Text for the worker (- is stdin).")] = None,
    delay: options.Delay = None,
    at: options.At = None,
    file: Annotated[Path | None, typer.Option("--file", help="One payload a line (- is stdin).")] = None,
    key: Annotated[str | None, typer.Option(help="A name of your own, unique in the namespace.")] = None,
    on_conflict: Annotated[
        str, typer.Option(help="When the key is in use: keep the old task, replace it, or reject this one.")
    ] = "reject",
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="May be given again.")] = None,
    priority: Annotated[int, typer.Option(min=0, max=10, help="A level is worth 64 s of waiting among due tasks.")] = 0,
    content_type: Annotated[str, typer.Option(help="Handed to the worker, for example application/json.")] = "",
    expire_in: Annotated[str | None, typer.Option(metavar="SPAN", help="Not delivered so long after its time.")] = None,
    max_attempts: Annotated[
        int, typer.Option(min=0, help="Deliveries in all; 0 = the server's default (20).", rich_help_panel=_RETRY)
    ] = 0,
    backoff: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Wait before the second attempt.", rich_help_panel=_RETRY)
    ] = None,
    max_backoff: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Longest wait between attempts.", rich_help_panel=_RETRY)
    ] = None,
    attempt_timeout: Annotated[
        str | None, typer.Option(metavar="SPAN", help="How long one attempt may take.", rich_help_panel=_RETRY)
    ] = None,
) -> None:
    """Schedule a task: it is safe on disk when this command ends.

    timerd schedule mails 'hello' --in 10s
    """
    when, wait = parse_due(delay, at)
    if key == "":
        raise WrongInput("--key is empty: give a name, or leave it out.")
    if on_conflict not in _POLICIES:
        raise WrongInput(f"--on-conflict is {on_conflict!r}: allowed are keep, replace and reject.")
    shared: dict[str, Any] = {
        "labels": options.parse_labels(label),
        "priority": priority,
        "content_type": content_type,
        "retry": _retry(max_attempts, backoff, max_backoff, attempt_timeout),
        "expire_at": _expire_at(when, wait, expire_in),
    }
    if file is not None:
        if payload is not None or key is not None:
            raise WrongInput("--file stands for many tasks: give neither a PAYLOAD nor --key with it.")
        return await _many(call, queue, file, when or wait, shared)
    data = _payload(payload)
    client = await call.connect()
    named: dict[str, Any] = {} if key is None else {"key": key, "on_conflict": on_conflict}
    task = await client.schedule(queue, data, at=when, delay=wait, **named, **shared)
    call.out.one(_record(task), _sentence(task))


def _payload(given: str | None) -> bytes:
    if given is None:
        raise WrongInput("What shall the worker receive? Give a PAYLOAD (- reads it from stdin), or --file.")
    return sys.stdin.buffer.read() if given == "-" else given.encode(errors="surrogateescape")


def _retry(max_attempts: int, backoff: str | None, max_backoff: str | None, attempt_timeout: str | None) -> object:
    from timerd.client import RetryPolicy

    if not max_attempts and backoff is max_backoff is attempt_timeout is None:
        return None
    spans = {"initial_backoff": backoff, "max_backoff": max_backoff, "attempt_timeout": attempt_timeout}
    given: dict[str, Any] = {name: parse_span(text) for name, text in spans.items() if text is not None}
    return RetryPolicy(max_attempts=max_attempts, **given)


def _expire_at(when: datetime | None, wait: timedelta | None, expire_in: str | None) -> datetime | None:
    if expire_in is None:
        return None
    due = when if when is not None else datetime.now(UTC) + (wait or timedelta())
    return due + parse_span(expire_in)


def _record(task: Task) -> Record:
    return {
        "task_id": task.id,
        "queue": task.queue,
        "fire_time": iso_of(task.fire_time),
        "fire_at_ms": task.fire_at_ms,
        "outcome": task.outcome.name,
        "key": task.key,
    }


def _sentence(task: Task) -> str:
    ahead = task.fire_time - datetime.now(UTC)
    when = f"in {shown_span(ahead)}" if ahead > timedelta() else "now"
    if task.outcome.name == "KEPT":
        return f"The key is in use: task {task.id} keeps it."
    return f"Scheduled: {task.id} fires {when}, at {shown(task.fire_time)}."


async def _many(call: Call, queue: str, file: Path, due: datetime | timedelta | None, shared: dict[str, Any]) -> None:
    from timerd.client import PartlyStored, TimerdError

    assert due is not None
    total = None if str(file) == "-" else sum(1 for _ in _lines(file))
    client = await call.connect()
    call.bar.begin("scheduling", total)
    try:
        items = ((line, due) for line in _lines(file))
        tasks = await client.schedule_many(queue, items, progress=call.bar.reach, **shared)
    except TimerdError as error:
        if isinstance(error, PartlyStored):
            _tell_many(call, error.tasks)
        if error.item is None:
            raise
        line = f"{_name(file)}, line {error.item + 1}: "
        raise WrongInput(str(error).replace(f"Item {error.item}: ", line, 1)) from error
    _tell_many(call, tasks)
    call.out.say(f"Scheduled {len(tasks):,} tasks on {queue}.")


def _tell_many(call: Call, tasks: list[Task]) -> None:
    if call.out.as_json:
        call.out.many(map(_record, tasks), (), "")


def _name(file: Path) -> str:
    return "stdin" if str(file) == "-" else str(file)


def _lines(file: Path) -> Iterator[bytes]:
    if str(file) == "-":
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
        return
    with file.open("rb") as lines:
        yield from (line.rstrip(b"\r\n") for line in lines)


def register(app: typer.Typer) -> None:
    app.command()(online(schedule))
