"""`timerd cluster` and `timerd drain`: the instances, what each of them holds, and how one is taken out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands.call import CommandCall, listing, online
from timerd.commands.failures import CommandFailure, WrongInput
from timerd.commands.output import Form
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, parse_span, shown_span

if TYPE_CHECKING:
    from timerd.client import Client
    from timerd.v1.operate_pb2 import GetClusterResponse, HeldPartition, Instance

_INSTANCE_COLUMNS = (
    Column("name", Kind.ID),
    Column("address", Kind.NAME),
    Column("state"),
    Column("incarnation", Kind.FIGURE, is_wide=True),
    Column("heartbeat_age", Kind.FIGURE, "seen"),
    Column("partitions", Kind.FIGURE),
    Column("slowest_lag", Kind.FIGURE, "lag"),
    Column("clock", is_spare=True),
    Column("version", is_wide=True),
)
_PARTITION_COLUMNS = (
    Column("holder", Kind.NAME),
    Column("bucket", Kind.INSTANT),
    Column("queue_backlog", title="backlog"),
    Column("shard", Kind.FIGURE),
    Column("phase", is_spare=True),
    Column("token", Kind.FIGURE, is_spare=True),
    Column("lag", Kind.FIGURE),
    Column("waiting", Kind.FIGURE),
    Column("open", Kind.FIGURE),
)
# With a report, from those: what it says of itself.
_TOLD = ("version", "schema_version", "clock_trusted", "lease_trusted", "in_flight", "workers")
_LOOK_S = 0.25


async def cluster(call: CommandCall) -> None:
    """Show the instances and the partitions that they hold.

    Of an instance: address, state, last sign of life; of a partition: how far it lags behind.
    """
    found = await (await call.connect()).cluster()
    if call.out.as_json:
        call.out.many(map(instance_record, found.instances), (), "")
        return
    call.out.many(map(_instance_row, found.instances), _INSTANCE_COLUMNS, "No instance is known.")
    held = [_partition_row(each.name, part) for each in found.instances for part in each.report.partitions]
    if call.out.form is Form.NAME:
        return
    call.out.say("")
    call.out.many(held, _PARTITION_COLUMNS, "No partition is held: nothing is due soon.")


def instance_record(instance: Instance) -> dict[str, Any]:
    answers = instance.HasField("report")
    return {
        "name": instance.name,
        "address": instance.address,
        "state": state_name(instance),
        "incarnation": instance.incarnation,
        "heartbeat_age_s": instance.heartbeat_age.ToTimedelta().total_seconds(),
        "answers": answers,
        **({name: getattr(instance.report, name) for name in _TOLD} if answers else {}),
        "clock_difference_ms": instance.clock_difference_ms if answers else None,
        "clock_uncertainty_ms": instance.clock_uncertainty_ms if answers else None,
        "partitions": [held_record(part) for part in instance.report.partitions],
    }


def held_record(part: HeldPartition) -> dict[str, Any]:
    return {
        "bucket": iso_of(bucket_start(part.bucket_start_ms)),
        "bucket_start_ms": part.bucket_start_ms,
        "scope": part.scope,
        "shard": part.shard,
        "phase": part.phase,
        "fencing_token": part.fencing_token,
        "lag_ms": part.lag_ms,
        "waiting": part.waiting,
        "open": part.open,
    }


def state_name(instance: Instance) -> str:
    from timerd.v1 import operate_pb2

    return operate_pb2.InstanceState.Name(instance.state).removeprefix("INSTANCE_STATE_").lower()


def bucket_start(bucket_ms: int) -> datetime:
    return datetime.fromtimestamp(bucket_ms / 1000, UTC)


def _instance_row(instance: Instance) -> dict[str, Any]:
    record = instance_record(instance)
    parts: Sequence[HeldPartition] = instance.report.partitions
    lag = f"{max(part.lag_ms for part in parts) / 1000:.1f}s" if parts else ""
    missing = "" if instance.state in gone_states() else "no answer"
    difference = f"{instance.clock_difference_ms:+d} ms +- {instance.clock_uncertainty_ms}"
    return record | {
        "heartbeat_age": shown_span(instance.heartbeat_age.ToTimedelta()),
        "partitions": len(parts) if record["answers"] else missing,
        "slowest_lag": lag,
        "clock": "" if not instance.clock_uncertainty_ms else difference,
    }


def gone_states() -> Sequence[int]:
    from timerd.v1 import operate_pb2

    return (operate_pb2.INSTANCE_STATE_LEFT, operate_pb2.INSTANCE_STATE_DEAD)


def _partition_row(holder: str, part: HeldPartition) -> dict[str, Any]:
    return held_record(part) | {
        "holder": holder,
        "queue_backlog": f"{part.scope:016x}" if part.scope else "",
        "token": part.fencing_token or "",
        "lag": f"{part.lag_ms / 1000:.1f}s",
    }


async def drain(
    call: CommandCall,
    instance: Annotated[str, typer.Argument(metavar="INSTANCE", help="Its name, as `timerd cluster` shows it.")],
    wait: Annotated[str, typer.Option(metavar="SPAN", help="How long to wait until it holds nothing.")] = "60s",
) -> None:
    """Make an instance hand over all that it holds.

    It takes nothing new. It stays up, serves callers and workers, and is stopped by SIGTERM as always; started again,
    it takes its share again.
    """
    if not instance:
        raise WrongInput("The INSTANCE is empty: give the name that `timerd cluster` shows.")
    wait_s = parse_span(wait).total_seconds()
    client = await call.connect()
    begun = await client.drain(instance)
    if not begun.HasField("partitions_held"):
        raise CommandFailure(
            f"{instance} does not answer, and may have begun to hand over nevertheless: drain it again."
        )
    call.bar.begin(f"{instance} hands over", begun.partitions_held)
    left = await _until_empty(call, client, instance, begun.partitions_held, wait_s)
    if left != 0:
        what = "does not say what it holds" if left is None else f"still holds {left} of {begun.partitions_held}"
        raise CommandFailure(
            f"{instance} {what} after {wait}, and goes on handing over: `timerd cluster` shows how far it is, or name "
            "a longer --wait."
        )
    call.out.one(
        {"instance": instance, "partitions_handed_over": begun.partitions_held},
        f"{instance} holds nothing any more and gets nothing new: it can be stopped now (SIGTERM).",
    )


async def _until_empty(call: CommandCall, client: Client, instance: str, first: int, wait_s: float) -> int | None:
    """How many partitions it holds in the end; None: it does not answer."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + wait_s
    while True:
        left = held_by(await client.cluster(), instance)
        if left is not None:
            call.bar.reach(max(0, first - left))
        if left == 0 or loop.time() >= deadline_s:
            return left
        await asyncio.sleep(min(_LOOK_S, wait_s))


def held_by(found: GetClusterResponse, name: str) -> int | None:
    """One that has left holds nothing."""
    for instance in found.instances:
        if instance.name == name and (instance.HasField("report") or instance.state in gone_states()):
            return len(instance.report.partitions)
    return None if any(instance.name == name for instance in found.instances) else 0


def register(app: typer.Typer) -> None:
    app.command()(listing(cluster))
    app.command()(online(drain))
