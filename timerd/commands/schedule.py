"""`timerd schedule`: one task, or a file with one payload a line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from timerd.commands import options
from timerd.commands.call import CommandCall, online
from timerd.commands.failures import CommandFailure, WrongInput, failure_of
from timerd.commands.input_lines import InputLines
from timerd.commands.output import OutputRecord, payload_fields, payload_shown
from timerd.commands.task_options import lifetime, with_task_options
from timerd.commands.times import iso_of, parse_due, shown, shown_span
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.client import Task, TimerdError

_POLICIES = ("keep", "replace", "reject")


@with_task_options
async def schedule(
    call: CommandCall,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Workers of this queue receive it.")],
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", help="Text for the worker (- is stdin).")] = None,
    delay: options.Delay = None,
    at: options.AtOption = None,
    file: Annotated[Path | None, typer.Option("--file", help="One payload a line; also a pipe (- is stdin).")] = None,
    key: Annotated[str | None, typer.Option(help="A name of your own, unique in the namespace.")] = None,
    on_conflict: options.OnConflict = "reject",
    ordering_key: Annotated[str, typer.Option(help="Tasks with the same one start one at a time, in order.")] = "",
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="May be given again.")] = None,
    *,
    tasks: dict[str, Any],
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
        "ordering_key": ordering_key,
        **tasks,
    }
    if file is not None:
        if payload is not None or key is not None:
            raise WrongInput("--file stands for many tasks: give neither a PAYLOAD nor --key with it.")
        return await _many(call, queue, file, cast("datetime | timedelta", wait if when is None else when), shared)
    data = await _payload(payload)
    client = await call.connect()
    named: dict[str, Any] = {} if key is None else {"key": key, "on_conflict": on_conflict}
    task = await client.schedule(queue, data, at=when, delay=wait, **named, **shared)
    call.out.one(_record(task), _sentence(task))


async def call_handler(
    call: CommandCall,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="A worker of this queue answers.")],
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="Text for the worker (- is stdin).")] = "",
    most: Annotated[str, typer.Option("--for", metavar="SPAN", help="Wait at most so long for the answer.")] = "30s",
) -> None:
    """Have a task handled at once, and show its result.

    timerd call sums '[1, 2]' --for 5s
    """
    timeout, data = lifetime("--for", most), await _payload(payload)
    assert timeout is not None
    client = await call.connect()
    call.bar.begin("waiting")
    result = await client.call(queue, data, timeout=timeout)
    record = {"result": None} if result is None else payload_fields(result, "result")
    call.out.one(record, payload_shown(record, "result") if result is not None else "Done.")


async def _payload(given: str | None) -> bytes:
    if given is None:
        raise WrongInput("What shall the worker receive? Give a PAYLOAD (- reads it from stdin), or --file.")
    return await InputLines(Path("-")).content() if given == "-" else given.encode(errors="surrogateescape")


def _record(task: Task) -> OutputRecord:
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
    return f"Scheduled: {task.id} is due {when}, at {shown(task.fire_time)}."


async def _many(call: CommandCall, queue: str, file: Path, due: datetime | timedelta, shared: dict[str, Any]) -> None:
    from timerd.client import TimerdError

    lines = InputLines(file)
    client = await call.connect()
    call.bar.begin(f"reading {lines.name}", lines.size_bytes)
    async for batch in lines.batches():
        try:
            tasks = await client.schedule_many(queue, [(line, due) for line in batch], **shared)
        except TimerdError as error:
            raise _stopped(call, lines, error) from error
        _tell_many(call, tasks)
        call.bar.begin(f"scheduling, {lines.count + len(batch):,} stored", lines.size_bytes)
        call.bar.reach(lines.read_bytes)
    if not lines.count:
        raise WrongInput(f"{lines.name} is empty: nothing was scheduled. Each of its lines would be a task.")
    call.out.say(f"Scheduled {counted(lines.count, 'task')} on {queue}.")


def _stopped(call: CommandCall, lines: InputLines, error: TimerdError) -> CommandFailure:
    """By an error of the lines that come after those that `lines` has counted."""
    from timerd.client import PartlyStored

    if isinstance(error, PartlyStored):
        _tell_many(call, error.tasks)
    failure = failure_of(error, call.endpoint.server)
    sentence = str(failure)
    if error.item is not None:
        line = f"{lines.name}, line {lines.count + error.item + 1}: "
        failure, sentence = WrongInput(), sentence.replace(f"Item {error.item}: ", line, 1)
    return type(failure)(sentence + lines.stored)


def _tell_many(call: CommandCall, tasks: list[Task]) -> None:
    if call.out.as_json:
        call.out.many(map(_record, tasks), (), "")


def register(app: typer.Typer) -> None:
    app.command()(online(schedule))
    app.command("call")(online(call_handler))
