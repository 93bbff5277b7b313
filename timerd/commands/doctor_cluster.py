"""What `timerd doctor` looks at beyond the server that it asks: the other instances, their clocks and versions, and
buckets that nobody finishes."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeVar

from timerd.commands.cluster import gone_states
from timerd.commands.times import shown, shown_span
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.client import Client
    from timerd.v1.operate_pb2 import GetClusterResponse, Instance
    from timerd.v1.overview_service_pb2 import GetOverviewResponse

_Known = TypeVar("_Known")
# As far as an engine's clock may be off before it stops firing (guarantee G4).
_CLOCK_DIFFERENCE_MS = 100


async def cluster_of(client: Client) -> GetClusterResponse | None:
    """None: the server is older than the question."""
    return await _if_known(client.cluster())


async def overview_of(client: Client) -> GetOverviewResponse | None:
    """As cluster_of."""
    return await _if_known(client.overview())


async def _if_known(asked: Awaitable[_Known]) -> _Known | None:
    from timerd.client import TimerdError

    try:
        return await asked
    except TimerdError as error:
        if error.code != "UNIMPLEMENTED":
            raise
        return None


def backlog_findings(found: GetOverviewResponse | None) -> Iterator[str]:
    """What came due without a worker is in memory for ten minutes, and found there; after that it is in the store."""
    for queue in found.queues if found is not None else ():
        if queue.has_backlog and not queue.workers:
            place = "" if queue.namespace == "default" else f" of the namespace {queue.namespace}"
            yield (
                f"Tasks of the queue {queue.queue}{place} came due and wait in the store, for no worker of it is "
                f"connected: start one, as with `timerd work {queue.queue}`."
            )


def backlog_notes(found: GetClusterResponse | None, named: Sequence[str]) -> Iterator[str]:
    """Of a queue that was not used since the start the server knows no name; what was purged may be looked through."""
    if found is not None and found.backlog_buckets and not named:
        yield (
            f"{counted(found.backlog_buckets, 'bucket')} may hold tasks that came due and wait in the store for a "
            "worker of their queue: `timerd list` shows what waits."
        )


def cluster_findings(found: GetClusterResponse) -> Iterator[str]:
    """Sentences: what is wrong and what to do."""
    from timerd.v1 import operate_pb2

    for instance in found.instances:
        yield from _instance_findings(instance, found.answered_by)
    if all(each.state != operate_pb2.INSTANCE_STATE_SERVING for each in found.instances):
        yield "No instance takes partitions, so nothing more will fire: start one."
    schemas = {each.name: each.report.schema_version for each in _living(found) if each.HasField("report")}
    if len(set(schemas.values())) > 1:
        told = ", ".join(f"{name} version {version}" for name, version in sorted(schemas.items()))
        yield f"The instances know different versions of the tables ({told}): restart those of the older one."
    if found.overdue_buckets:
        oldest = shown(found.oldest_overdue_bucket.ToDatetime(UTC))
        yield (
            f"{counted(found.overdue_buckets, 'bucket', 'are')} not finished although "
            f"over for long, the oldest of {oldest}: after an outage they are worked off, oldest first; else look at "
            "one with `timerd partition`."
        )


def _instance_findings(instance: Instance, asked: str) -> Iterator[str]:
    from timerd.v1 import operate_pb2

    name, report = instance.name, instance.report
    if instance.state == operate_pb2.INSTANCE_STATE_DEAD:
        age = shown_span(instance.heartbeat_age.ToTimedelta())
        yield f"{name} has given no sign of life for {age}, and others do its work: start it again, or see why it died."
    elif instance.state not in gone_states() and not instance.HasField("report"):
        yield (
            f"{name} lives, but does not answer {asked} at {instance.address}: look at the network between the "
            "instances, and at `serve --advertise`."
        )
    for advice in report.tzdata_advice:
        yield f"{name}: {advice}"
    if not instance.HasField("report") or name == asked:
        return
    if not report.clock_trusted:
        yield f"The clock of {name} is not trusted, so it fires nothing: let NTP or chrony set it."
    if not report.lease_trusted:
        yield f"{name} is not sure of its lease, so it fires nothing: look at its way to the store."
    if abs(instance.clock_difference_ms) - instance.clock_uncertainty_ms > _CLOCK_DIFFERENCE_MS:
        yield (
            f"The clock of {name} is {instance.clock_difference_ms:+d} ms (within {instance.clock_uncertainty_ms} ms) "
            f"off that of {asked}: what one of them fires is early or late by that. Let NTP or chrony set both."
        )


def _living(found: GetClusterResponse) -> list[Instance]:
    return [each for each in found.instances if each.state not in gone_states()]


def cluster_record(found: GetClusterResponse | None) -> dict[str, Any]:
    if found is None:
        return {}
    living = _living(found)
    schemas = [each.report.schema_version for each in living if each.HasField("report")]
    return {
        "instances": [each.name for each in living],
        "schema_version": max(schemas, default=0),
        "clock_difference_ms": max((abs(each.clock_difference_ms) for each in living), default=0),
        "overdue_buckets": found.overdue_buckets,
        "backlog_buckets": found.backlog_buckets,
    }


def cluster_rows(found: GetClusterResponse | None) -> dict[str, str]:
    if found is None:
        return {}
    record = cluster_record(found)
    names = record["instances"]
    clocks = f"; clocks at most {record['clock_difference_ms']} ms apart" if len(names) > 1 else ""
    return {
        "instances": f"{len(names)} ({', '.join(names)}){clocks}",
        "schema": f"version {record['schema_version']}" if record["schema_version"] else "",
        "buckets": f"{found.overdue_buckets} overdue, {found.backlog_buckets} with tasks that wait for workers",
    }
