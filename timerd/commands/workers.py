"""`timerd workers`: who is connected, what for, and which slots of their pools are free."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import TYPE_CHECKING

import typer

from timerd.commands.call import CommandCall, listing
from timerd.commands.output import OutputRecord
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of

if TYPE_CHECKING:
    from timerd.v1.overview_service_pb2 import GetOverviewResponse, WorkerActivity

_COLUMNS = (
    Column("worker", Kind.ID),
    Column("namespace", Kind.NAME, is_spare=True),
    Column("instance", is_wide=True),
    Column("since", Kind.MOMENT),
    Column("settled", Kind.FIGURE),
    Column("slots", Kind.FIGURE, "slots free"),
    Column("serves", Kind.TEXT, "queues"),
)


async def workers(call: CommandCall) -> None:
    """List connected workers, their queues and free slots.

    Of each instance 200 workers at most, and of each worker 20 queues. A worker that takes tasks call by call (Receive)
    has no connection of its own and is not listed.
    """
    client = await call.connect()
    found = await client.overview()
    records = [_record(name, each) for name, each in _each(found)]
    if call.out.as_json:
        records += [{"instance": name, "answers": False} for name in found.silent]
        call.out.many(records, _COLUMNS, "")
        return
    call.out.many(map(_row, records), _COLUMNS, "No worker is connected.")
    for name in found.silent:
        call.out.say(f"{name} does not answer: its workers are missing here.")


def _each(found: GetOverviewResponse) -> Iterator[tuple[str, WorkerActivity]]:
    return ((instance.name, worker) for instance in found.instances for worker in instance.workers)


def _record(instance: str, worker: WorkerActivity) -> OutputRecord:
    pools = [
        {"pool": pool.name, "queues": list(pool.queues), "slots": pool.slots, "free": pool.free}
        for pool in worker.pools
    ]
    return {
        "worker": worker.worker,
        "namespace": worker.namespace,
        "instance": instance,
        "since": iso_of(worker.connect_time.ToDatetime(UTC)),
        "settled": worker.settled,
        "queues": list(worker.queues),
        "queue_count": worker.queue_count,
        "pools": pools,
    }


def _row(record: OutputRecord) -> OutputRecord:
    pools = record["pools"]
    pooled = {queue for pool in pools for queue in pool["queues"]}
    served = [f"{pool['pool']} ({', '.join(pool['queues'])})" for pool in pools]
    served += [queue for queue in record["queues"] if queue not in pooled]
    slots = f"{sum(pool['free'] for pool in pools)} of {sum(pool['slots'] for pool in pools)}" if pools else ""
    return {**record, "slots": slots, "serves": ", ".join(served)}


def register(app: typer.Typer) -> None:
    app.command()(listing(workers))
