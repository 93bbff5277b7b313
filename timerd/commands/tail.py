"""`timerd tail`: deliveries as they happen, a line each."""

from __future__ import annotations

from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands.call import CommandCall, following
from timerd.commands.recent_ids import short_of
from timerd.commands.table import cut
from timerd.commands.times import iso_of, shown_span

if TYPE_CHECKING:
    from timerd.client import DeliveryEvent, Watched

_QUEUE_CHARS, _LINE_CHARS = 16, 80


async def tail(
    call: CommandCall,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Of this queue only.")] = "",
    most: Annotated[
        int, typer.Option("--max-per-second", min=1, max=1000, help="So many deliveries are told in a second.")
    ] = 50,
) -> None:
    """Show deliveries as they happen, until Ctrl-C.

    What is sent, and how it ends. What is too much is left out and counted.

    timerd tail mails
    """
    client = await call.connect()
    silent: tuple[str, ...] = ()
    async with aclosing(client.watch(queue, max_per_second=most)) as parts:  # type: ignore[type-var]
        async for part in parts:
            _show(call, part, silent)
            silent = tuple(part.silent)


def _show(call: CommandCall, part: Watched, silent_before: tuple[str, ...]) -> None:
    if part.is_resumed:
        call.out.line({"resumed": True}, "-- the connection was lost; what happened meanwhile is not shown")
    for name in sorted({*part.silent} - {*silent_before}):
        call.out.line({"silent": name}, f"-- what {name} sends is not heard")
    for event in part.events:
        call.out.line(event_record(event), event_line(event))
    if part.left_out:
        call.out.line({"left_out": part.left_out}, f"-- {part.left_out:,} left out")
    call.remember()


def event_record(event: DeliveryEvent) -> dict[str, Any]:
    again = event.next_attempt_time
    return {
        "task_id": event.task_id,
        "time": iso_of(event.time),
        "kind": event.kind.name,
        "queue": event.queue,
        "due_time": iso_of(event.due_time),
        "lateness_ms": round(event.late.total_seconds() * 1000),
        "attempt": event.attempt,
        "worker": event.worker,
        "instance": event.instance,
        "took_ms": None if event.took is None else round(event.took.total_seconds() * 1000),
        "next_attempt_time": iso_of(again) if again is not None else None,
    }


def event_line(event: DeliveryEvent) -> str:
    """Of 80 columns, the worker at its end."""
    span = f"+{_shown(event.late)}" if event.took is None else _shown(event.took)
    parts = [
        f"{event.time.astimezone():%H:%M:%S}.{event.time.microsecond // 1000:03}",
        f"{event.kind.name.lower():<10}",
        f"{cut(event.queue, _QUEUE_CHARS):<{_QUEUE_CHARS}}",
        f"{span:>8}",
        short_of(event.task_id),
    ]
    line = "  ".join(parts)
    tries = f"  #{event.attempt}" if event.attempt > 1 else ""
    return cut(f"{line}{tries}  {_clean(event.worker)}".rstrip(), _LINE_CHARS)


def _shown(span: timedelta) -> str:
    """Milliseconds below a second."""
    ms = round(span.total_seconds() * 1000)
    return f"{ms}ms" if ms < 1000 else shown_span(span)


def _clean(name: str) -> str:
    return "".join(char if char.isprintable() else " " for char in name)


def register(app: typer.Typer) -> None:
    app.command()(following(tail))
