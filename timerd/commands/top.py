"""`timerd top`: one screen of what all instances do just now, from counters and estimates alone, as the page has it.

A rate is what two looks differ by. The server answers anew once a second, so that is how long a round takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands import options
from timerd.commands.call import CommandCall, repeating
from timerd.commands.doctor import finite, quantile_ms
from timerd.commands.output import OutputRecord
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, shown_span
from timerd.commands.watch import checked_seconds
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.v1.overview_service_pb2 import GetOverviewResponse, InstanceActivity, QueueActivity

_LOOK_S = 1.1
_MOST_QUEUES = 15
_MOST_NAMED = 3
_BARS = " ▁▂▃▄▅▆▇█"
_QUEUES = (
    Column("queue", Kind.NAME),
    Column("namespace", Kind.NAME, is_spare=True),
    Column("fires_per_s", Kind.FIGURE, "fires/s"),
    Column("due", Kind.FIGURE),
    Column("in_hand", Kind.FIGURE),
    Column("pending", Kind.FIGURE),
    Column("dead", Kind.FIGURE),
    Column("workers", Kind.FIGURE),
)
_INSTANCES = (
    Column("name", Kind.ID),
    Column("version", is_spare=True),
    Column("up"),
    Column("loaded", Kind.FIGURE),
    Column("in_flight", Kind.FIGURE),
    Column("oldest_due", Kind.FIGURE),
    Column("memory_mib", Kind.FIGURE, "MiB"),
)
OnceOption = Annotated[bool, typer.Option("--once", help="One screen, and end.")]


async def top(call: CommandCall) -> None:
    """Show what all instances do just now, until Ctrl-C.

    The figures are those of the page: rates and lateness of the last second, tasks of the next hour, queues, instances.
    """
    client = await call.connect()
    before = await client.overview()
    await asyncio.sleep(_LOOK_S)
    after, load = await client.overview(), await client.load()
    record = record_of(before, after, load.tasks)
    if call.out.as_json:
        return call.out.one(record, "")
    call.out.say(_summary(record))
    call.out.say("")
    call.out.many(map(_queue_row, record["queues"][:_MOST_QUEUES]), _QUEUES, "No queue has had a task since the start.")
    call.out.say("")
    call.out.many(map(_instance_row, record["instances"]), _INSTANCES, "No instance answers.")


def record_of(before: GetOverviewResponse, after: GetOverviewResponse, minutes: Sequence[int]) -> dict[str, Any]:
    """What two looks say; of the queues those first that wait for a worker, then those with the most fires."""
    seconds = max(1.0, (after.engine_time.ToMilliseconds() - before.engine_time.ToMilliseconds()) / 1000)
    known = {(each.namespace, each.queue): each for each in before.queues}
    queues = [_queue_record(each, known.get((each.namespace, each.queue)), seconds) for each in after.queues]
    bounds = after.lateness_bounds_ms
    late = [
        _more(*pair) for pair in zip(*(_lateness(each.queues, len(bounds)) for each in (after, before)), strict=True)
    ]
    return {
        "engine_time": iso_of(after.engine_time.ToDatetime(UTC)),
        "fires_per_s": round(sum(each["fires_per_s"] for each in queues), 1),
        "due": sum(each["due"] for each in queues),
        "in_hand": sum(each["in_hand"] for each in queues),
        "lateness_p50_ms": finite(quantile_ms(bounds, late, 0.5)),
        "lateness_p99_ms": finite(quantile_ms(bounds, late, 0.99)),
        "fired": sum(late),
        "minutes": list(minutes),
        "silent": list(after.silent),
        "queues": sorted(queues, key=_rank),
        "instances": [_instance_record(each, after) for each in after.instances],
    }


def _rank(queue: OutputRecord) -> tuple[bool, float, int, str]:
    return not queue["lacks_worker"], -queue["fires_per_s"], -queue["due"], queue["queue"]


def _more(now: int, then: int) -> int:
    """An instance that was started anew begins at 0."""
    return max(0, now - then)


def _lateness(queues: Iterable[QueueActivity], bounds: int) -> list[int]:
    """How many deliveries of all queues are in each class; the last one has no bound."""
    counts = [each.lateness_counts for each in queues]
    return [sum(each[place] for each in counts if place < len(each)) for place in range(bounds + 1)]


def _queue_record(now: QueueActivity, then: QueueActivity | None, seconds: float) -> dict[str, Any]:
    sent = _more(now.sent, then.sent if then is not None else 0)
    return {
        "queue": now.queue,
        "namespace": now.namespace,
        "fires_per_s": round(sent / seconds, 1),
        "due": now.due,
        "in_hand": now.in_hand,
        "pending": now.pending,
        "dead": now.dead,
        "workers": now.workers,
        "lacks_worker": now.lacks_worker,
    }


def _queue_row(record: OutputRecord) -> OutputRecord:
    return {**record, "workers": "none!"} if record["lacks_worker"] else record


def _instance_record(instance: InstanceActivity, found: GetOverviewResponse) -> dict[str, Any]:
    up_ms = found.engine_time.ToMilliseconds() - instance.start_time.ToMilliseconds()
    return {
        "name": instance.name,
        "version": instance.version,
        "up_s": round(max(0, up_ms) / 1000),
        "loaded": instance.loaded,
        "in_flight": instance.in_flight,
        "oldest_due_ms": instance.oldest_due_ms,
        "memory_mib": instance.memory_used_bytes >> 20,
    }


def _instance_row(record: OutputRecord) -> OutputRecord:
    oldest = f"{record['oldest_due_ms'] / 1000:.1f}s" if record["oldest_due_ms"] else ""
    return {**record, "up": shown_span(timedelta(seconds=record["up_s"])), "oldest_due": oldest}


def _summary(record: OutputRecord) -> str:
    late = ", ".join(f"{name} {_late(record[f'lateness_{name}_ms'])}" for name in ("p50", "p99"))
    lines = [
        f"fires {record['fires_per_s']:,}/s   due now {record['due']:,}   in hand {record['in_hand']:,}",
        f"late  {late if record['fired'] else 'nothing was sent in the last second'}",
        f"next hour {counted(sum(record['minutes']), 'task')}, by the minute:",
        f"|{bars(record['minutes'])}|",
    ]
    waiting = [each["queue"] for each in record["queues"] if each["lacks_worker"]]
    said = [f"{queue}: tasks are due, and no worker is connected" for queue in waiting[:_MOST_NAMED]]
    return "\n".join([*lines, *(f"{name} does not answer" for name in record["silent"]), *said])


def _late(bound_ms: float | None) -> str:
    return "beyond all classes" if bound_ms is None else f"<= {bound_ms:g} ms"


def bars(figures: Sequence[int]) -> str:
    """A character for each figure, the highest one full; what is not 0 is seen."""
    most = max(figures, default=0) or 1
    return "".join(_BARS[-(-figure * (len(_BARS) - 1) // most)] for figure in figures)


def seconds_of_top(watch: options.WatchOption = "2", once: OnceOption = False) -> float | None:
    """The pause between rounds; None: there is one."""
    return None if once else checked_seconds(watch or "")


def register(app: typer.Typer) -> None:
    app.command()(repeating(top, seconds_of_top))
