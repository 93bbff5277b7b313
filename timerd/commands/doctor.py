"""`timerd doctor`: is this server well, and if not, what to do. Looks at the server's figures from outside and adds
the server's own advice; `findings` is where each figure is judged, doctor_cluster.py judges the other instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from timerd.commands.call import CommandCall, showing
from timerd.commands.doctor_cluster import (
    backlog_findings,
    backlog_notes,
    cluster_findings,
    cluster_of,
    cluster_record,
    cluster_rows,
    overview_of,
)
from timerd.commands.failures import CommandFailure
from timerd.commands.times import iso_of, shown, shown_span
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.v1.timer_service_pb2 import GetServerInfoResponse, Ledger

_ENDS = ("acked", "cancelled", "moved", "carried", "expired", "dead", "purged", "unexplained")
# So much says that nobody could look.
_NOT_SEEN_BYTES = 1 << 60
# Below it a night of backlog may fill the disk.
_DISK_FREE_BYTES = 1 << 30
_MEMORY_SHARE = 0.9
# Beyond it an engine stops firing (guarantee G4).
_CLOCK_OFFSET_MS = 100
_OVERDUE_S = 60.0


def findings(info: GetServerInfoResponse, now: datetime) -> Iterator[str]:
    """Sentences: what is wrong and what to do."""
    if not info.clock_trusted or abs(info.clock_offset_ms) > _CLOCK_OFFSET_MS:
        yield (
            f"The clock is not trusted (wall clock less engine clock: {info.clock_offset_ms} ms), so nothing fires: "
            "let NTP or chrony set the clock; the server goes on by itself after 30 s of stability."
        )
    if unexplained := info.ledger.unexplained:
        yield (
            f"{counted(unexplained, 'task')} ended in a way that the ledger cannot explain: keep the data folder and "
            "report it."
        )
    if (more := surplus(info.ledger)) > 0:
        yield f"The ledger does not balance: {counted(more, 'more task')} ended than were stored. Report it."
    if info.disk_free_bytes < _DISK_FREE_BYTES:
        yield f"Only {_mib(info.disk_free_bytes)} of disk are free: make room, or shorten `serve --keep-history`."
    if info.memory_budget_bytes and info.memory_used_bytes > _MEMORY_SHARE * info.memory_budget_bytes:
        yield (
            f"{_mib(info.memory_used_bytes)} of {_mib(info.memory_budget_bytes)} memory are in use: "
            "raise `serve --memory-mb`, or add workers."
        )
    if info.HasField("oldest_due_time") and _overdue_s(info, now) > _OVERDUE_S:
        work = "add workers" if info.workers else "no worker is connected: start one with `timerd work QUEUE`"
        yield f"The oldest due task has waited for {_overdue_s(info, now):.0f} s: {work}."
    yield from info.advice


def surplus(ledger: Ledger) -> int:
    """How many more ended than were inserted."""
    ended: int = sum(getattr(ledger, name) for name in _ENDS)
    return ended - ledger.inserted


def _overdue_s(info: GetServerInfoResponse, now: datetime) -> float:
    engine_now = info.engine_time.ToDatetime(UTC) if info.HasField("engine_time") else now
    return (engine_now - info.oldest_due_time.ToDatetime(UTC)).total_seconds()


def _disk(info: GetServerInfoResponse) -> str:
    """That of a store with nodes of its own is theirs to watch."""
    if info.disk_free_bytes >= _NOT_SEEN_BYTES:
        return "of the store's nodes: look there"
    return f"{_mib(info.disk_used_bytes)} used, {_mib(info.disk_free_bytes)} free"


def _mib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"


def lateness_quantile_ms(info: GetServerInfoResponse, share: float) -> float | None:
    return quantile_ms(info.lateness_bounds_ms, info.lateness_counts, share)


def quantile_ms(bounds_ms: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """The upper bound of the class in which the quantile lies; None before the first delivery, infinite in the last."""
    wanted, seen = share * sum(counts), 0
    for bound_ms, count in zip(bounds_ms, counts, strict=False):
        seen += count
        if count and seen >= wanted:
            return bound_ms
    return None if not sum(counts) else float("inf")


def record_of(info: GetServerInfoResponse, wrong: list[str]) -> dict[str, Any]:
    ledger = {name: getattr(info.ledger, name) for name in ("inserted", *_ENDS)}
    plain = (
        "version", "front_door", "store", "durability", "clock_trusted", "clock_offset_ms", "disk_free_bytes",
        "disk_used_bytes", "memory_used_bytes", "memory_budget_bytes", "partitions_open", "loaded", "in_flight",
        "workers",
    )  # fmt: skip
    oldest = iso_of(info.oldest_due_time.ToDatetime(UTC)) if info.HasField("oldest_due_time") else None
    return {
        "healthy": not wrong,
        "findings": wrong,
        "notes": list(info.notes),
        **{name: getattr(info, name) for name in plain},
        "uptime_s": info.uptime.ToTimedelta().total_seconds(),
        "oldest_due_time": oldest,
        "lateness_p50_ms": finite(lateness_quantile_ms(info, 0.5)),
        "lateness_p99_ms": finite(lateness_quantile_ms(info, 0.99)),
        "ledger": ledger,
    }


def finite(value: float | None) -> float | None:
    """JSON knows no infinity."""
    return None if value is None or value == float("inf") else value


def rows_of(info: GetServerInfoResponse) -> dict[str, str]:
    ledger, trusted = info.ledger, "trusted" if info.clock_trusted else "NOT trusted"
    ends = ", ".join(f"{getattr(ledger, name):,} {name}" for name in _ENDS if getattr(ledger, name))
    oldest = shown(info.oldest_due_time.ToDatetime(UTC)) if info.HasField("oldest_due_time") else "none is due"
    p50, p99 = (lateness_quantile_ms(info, share) for share in (0.5, 0.99))
    return {
        "version": f"{info.version}, up {shown_span(info.uptime.ToTimedelta())}",
        # A server of an older release does not say.
        "front door": info.front_door or "not known",
        "store": info.store,
        "durability": info.durability,
        "clock": f"{trusted}, wall less engine {info.clock_offset_ms} ms",
        "disk": _disk(info),
        "memory": f"{_mib(info.memory_used_bytes)} of {_mib(info.memory_budget_bytes)}",
        "tasks": f"{info.loaded:,} loaded, {info.in_flight:,} in flight, {counted(info.workers, 'worker')}",
        "oldest due": oldest,
        "lateness": "no delivery yet" if p50 is None else f"p50 <= {p50:g} ms, p99 <= {p99:g} ms",
        "ledger": (ends or "nothing has come due and ended yet")
        + (", balanced" if surplus(ledger) <= 0 else ", NOT balanced"),
    }


async def doctor(call: CommandCall) -> None:
    """Examine a server and the instances beside it.

    It looks at durability, clocks, disk, memory, ledger, schema and old buckets. Exit code 1 if something is wrong.
    """
    client = await call.connect()
    info = await client.server_info()
    found = await cluster_of(client)
    waiting = list(backlog_findings(await overview_of(client)))
    of_cluster = cluster_findings(found) if found is not None else ()
    wrong = [*findings(info, datetime.now(UTC)), *of_cluster, *waiting]
    call.out.details(record_of(info, wrong) | cluster_record(found), rows_of(info) | cluster_rows(found))
    for sentence in wrong:
        call.out.say(f"WRONG: {sentence}")
    for sentence in (*info.notes, *backlog_notes(found, waiting)):
        call.out.say(f"Note: {sentence}")
    if wrong:
        raise CommandFailure(f"{counted(len(wrong), 'thing', 'are')} wrong with {call.endpoint.server}.")
    call.out.say("All is well.")


def register(app: typer.Typer) -> None:
    app.command()(showing(doctor))
