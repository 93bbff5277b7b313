"""`timerd get`, `list` and `count`: what is planned, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands import options
from timerd.commands.call import CommandCall, listing, online, showing
from timerd.commands.explain import holders
from timerd.commands.failures import CommandFailure, WrongInput
from timerd.commands.output import OutputRecord, labels_shown, payload_fields, payload_shown
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, parse_moment, parse_span, shown_twice

if TYPE_CHECKING:
    from timerd.client import Attempt, TaskInfo

_COLUMNS = (
    Column("due_time", Kind.MOMENT, "due"),
    Column("fire_time", Kind.MOMENT, "fires", is_wide=True),
    Column("queue", Kind.NAME),
    Column("state"),
    Column("attempt", Kind.FIGURE, is_wide=True),
    Column("priority", Kind.FIGURE, is_wide=True),
    Column("task_id", Kind.ID),
    Column("key", Kind.NAME),
    Column("labels", Kind.TEXT, is_spare=True),
    Column("payload", Kind.TEXT),
)
_STATES = ("pending", "in_flight", "acked", "cancelled", "dead", "expired", "purged", "finished", "retrying")


def filters(
    queue: str, since: str | None, until: str | None, label: Sequence[str] | None, state: Sequence[str] | None = None
) -> dict[str, Any]:
    """The keywords that list, count and purge of the client share."""
    given: dict[str, Any] = {"queue": queue, "labels": options.parse_labels(label)}
    given |= _range_of(since, until)
    return given | ({"states": _states(state)} if state else {})


def _range_of(since: str | None, until: str | None) -> dict[str, datetime]:
    given = {"start": since, "end": until}
    ends = {name: parse_moment(text) for name, text in given.items() if text is not None}
    if len(ends) == len(given) and ends["start"] >= ends["end"]:
        raise WrongInput(f"--from ({since}) must be before --to ({until}).")
    return ends


def _states(names: Sequence[str]) -> list[Any]:
    from timerd.client import TaskState

    wrong = [name for name in names if name.lower().replace("-", "_") not in _STATES]
    if wrong:
        raise WrongInput(f"{wrong[0]!r} is not a state: allowed are {', '.join(_STATES)}.")
    return [TaskState[name.upper().replace("-", "_")] for name in names]


def task_record(task: TaskInfo, *, payload: bool = True) -> dict[str, Any]:
    return {
        "task_id": task.id,
        "namespace": task.namespace,
        "queue": task.queue,
        "fire_time": iso_of(task.fire_time),
        "fire_at_ms": task.fire_at_ms,
        "due_time": iso_of(task.due_time),
        "due_at_ms": task.due_at_ms,
        "state": task.state.name,
        **(payload_fields(task.payload) if payload else {}),
        "content_type": task.content_type,
        "labels": task.labels,
        "priority": task.priority,
        "key": task.key,
        "ordering_key": task.ordering_key,
        "limit_key": task.limit_key,
        "on_end": task.on_end,
        "on_demand": task.on_demand,
        "keep_result_s": task.keep_result.total_seconds() if task.keep_result is not None else None,
        "stall_timeout_s": task.stall_timeout.total_seconds() if task.stall_timeout is not None else None,
        "expire_time": iso_of(task.expire_time) if task.expire_time else None,
        "attempt": task.attempt,
        "last_error": task.last_error,
        "progress": task.progress.fraction if task.progress is not None else None,
        "is_cancelling": task.is_cancelling,
    }


def history_record(task: TaskInfo) -> list[dict[str, Any]]:
    return [
        {
            "attempt": each.attempt,
            "send_time": iso_of(each.send_time) if each.send_time is not None else None,
            "end_time": iso_of(each.end_time),
            "end": each.end.name,
            "worker": each.worker,
            "error": each.error,
        }
        for each in task.history
    ]


def _attempt_shown(each: Attempt) -> str:
    worker = f" ({each.worker})" if each.worker else ""
    return f"{each.attempt}: {each.end.name} at {iso_of(each.end_time)}{worker}: {each.error}"


def _waiting(task: TaskInfo) -> dict[str, Any] | None:
    """None: for nothing."""
    found = task.waiting_for
    if found is None:
        return None
    until = iso_of(found.until) if found.until is not None else None
    return {
        "reason": found.reason.name,
        "until": until,
        "description": found.description,
        **holders(task),
    }


async def get(
    call: CommandCall,
    task_id: Annotated[str | None, typer.Argument(metavar="ID", help="The task; or use --key.")] = None,
    key: options.KeyOption = None,
) -> None:
    """Show one task and what became of it."""
    task_id = _named(call, task_id, key, "show")
    client = await call.connect()
    _show(call, await client.get(task_id, key=key))


async def wait(
    call: CommandCall,
    task_id: Annotated[str | None, typer.Argument(metavar="ID", help="The task; or use --key.")] = None,
    key: options.KeyOption = None,
    most: Annotated[str | None, typer.Option("--for", metavar="SPAN", help="Wait at most so long, as 30s.")] = None,
) -> None:
    """Wait until a task has ended, and show it.

    The exit code is 0 where a worker has acknowledged it.

    timerd wait --key order-4711 --for 30s
    """
    task_id = _named(call, task_id, key, "wait for")
    timeout = parse_span(most) if most is not None else None
    client = await call.connect()
    call.bar.begin("waiting")
    task = await client.wait(task_id, key=key, timeout=timeout)
    _show(call, task)
    if not task.state.is_over:
        raise CommandFailure(f"The task has not ended within {most}: it is {task.state.name}.")
    if task.state.name != "ACKED":
        raise CommandFailure(f"No worker has acknowledged the task: it is {task.state.name}.")


def _named(call: CommandCall, task_id: str | None, key: str | None, purpose: str) -> str | None:
    """The whole id. Raises WrongInput."""
    options.check_named(task_id, key)
    if (task_id is None) == (key is None):
        raise WrongInput(f"Name what to {purpose}: either an ID, or --key.")
    return None if task_id is None else call.whole_id(task_id)


def _show(call: CommandCall, task: TaskInfo) -> None:
    record = task_record(task) | {"waiting_for": _waiting(task), "history": history_record(task)}
    if task.result is not None:
        record |= payload_fields(task.result, "result") | {"result_content_type": task.result_content_type}
    shows = record | _times_shown(task) | {"labels": labels_shown(task.labels)}
    shows["waiting_for"] = task.waiting_for.description if task.waiting_for is not None else ""
    if task.is_cancelling:
        shows["state"] = f"{task.state.name}; it was cancelled, and no other attempt follows"
    del shows["fire_at_ms"], shows["due_at_ms"], shows["is_cancelling"]
    shows["history"] = "\n".join(map(_attempt_shown, task.history))
    for name in ("payload", "result"):
        if f"{name}_base64" in shows:
            shows[name] = payload_shown(shows, name)
            del shows[f"{name}_base64"]
    call.out.details(record, {name.replace("_", " "): value for name, value in shows.items()})


async def list_tasks(
    call: CommandCall,
    queue: options.Queue = "",
    since: options.From = None,
    until: options.To = None,
    state: options.States = None,
    label: options.LabelsOption = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many.")] = 100,
    payload: Annotated[bool, typer.Option(help="Show the payloads too.")] = True,
) -> None:
    """List tasks by the time they are due (or were), earliest first."""
    records: list[OutputRecord] = []
    chosen = filters(queue, since, until, label, state)
    client = await call.connect()
    call.bar.begin("reading", limit)
    async for task in client.list(**chosen, include_payload=payload, page_size=min(limit, 1000)):
        records.append(task_record(task, payload=payload))
        call.bar.advance()
        if len(records) == limit:
            break
    count = call.out.many(records, _COLUMNS if payload else _COLUMNS[:-1], "No such tasks.")
    if count == limit:
        call.out.say(f"(the first {limit}; see --limit, --from and --to)")


def _times_shown(task: TaskInfo) -> dict[str, str]:
    return {"fire_time": shown_twice(task.fire_time), "due_time": shown_twice(task.due_time)}


async def count(
    call: CommandCall,
    queue: options.Queue = "",
    since: options.From = None,
    until: options.To = None,
    state: options.States = None,
    label: options.LabelsOption = None,
) -> None:
    """Count tasks, exactly or by an estimate.

    The number is exact where --from, --to, --state or --label is given.
    """
    chosen = filters(queue, since, until, label, state)
    client = await call.connect()
    call.bar.begin("counting")
    number = await client.count(**chosen)
    sentence = f"{int(number):,}"
    if number.estimated:
        sentence = f"about {sentence} (an estimate; give --from or --to for an exact number)"
    call.out.one({"count": int(number), "estimated": number.estimated}, sentence)


def register(app: typer.Typer) -> None:
    app.command()(listing(get))
    app.command()(online(wait))
    app.command("list")(listing(list_tasks))
    app.command()(showing(count))
