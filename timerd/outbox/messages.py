"""The bytes of a sealed batch: what is written into it, and what is read from it again.

A batch of schedules is one ScheduleBatchRequest, one of cancels a CancelBatchRequest. One of moves is their single
requests one after the other, each behind its length: they go together as a RescheduleBatchRequest, and one by one to a
server of an earlier release, and count once whichever way they come. One of chains is several batches, its links,
each behind its verb, its number of rows and its length: each counts once by itself, and what is left goes on as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from timerd.outbox.rows import CHAINS, OutboxRow, RowVerb, SealedBatch
from timerd.outbox.template_options import options_of, template_of
from timerd.sdk.values import ms_of_timestamp, timestamp_of_ms
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

_LENGTH = struct.Struct(">I")
# Verb, rows and length.
_LINK = struct.Struct(">BII")


def schedule_request(request_id: str, made_ms: int, rows: Sequence[OutboxRow]) -> bytes:
    """As columns where nothing but payload and instant differs, for the server takes these in fastest."""
    first = rows[0]
    request = pb.ScheduleBatchRequest(namespace=first.namespace, request_id=request_id)
    request.request_time.CopyFrom(timestamp_of_ms(made_ms))
    request.template.CopyFrom(template_of(first.queue, first.options))
    if any(row.key or (row.queue, row.options) != (first.queue, first.options) for row in rows):
        _write_items(request.items, rows)
    else:
        _write_columns(request.columns, rows)
    return request.SerializeToString(deterministic=True)


def _write_columns(columns: pb.TaskColumns, rows: Sequence[OutboxRow]) -> None:
    columns.fire_at_ms.extend([row.fire_at_ms for row in rows])
    columns.payload_lengths.extend([len(row.payload) for row in rows])
    columns.payloads = b"".join([row.payload for row in rows])


def _write_items(items: pb.TaskItems, rows: Sequence[OutboxRow]) -> None:
    shared = (rows[0].queue, rows[0].options)
    for row in rows:
        item = items.items.add(payload=row.payload, key=row.key, fire_time=timestamp_of_ms(row.fire_at_ms))
        if (row.queue, row.options) != shared:
            item.template.CopyFrom(template_of(row.queue, row.options))


def cancel_request(request_id: str, made_ms: int, rows: Sequence[OutboxRow]) -> bytes:
    request = pb.CancelBatchRequest(namespace=rows[0].namespace, request_id=request_id, keys=[row.key for row in rows])
    request.request_time.CopyFrom(timestamp_of_ms(made_ms))
    return request.SerializeToString(deterministic=True)


def moves_request(request_id: str, made_ms: int, rows: Sequence[OutboxRow]) -> bytes:
    made = timestamp_of_ms(made_ms)
    parts = []
    for index, row in enumerate(rows):
        call = pb.RescheduleRequest(
            namespace=row.namespace, request_id=f"{request_id}.{index}", key=row.key, request_time=made
        )
        call.fire_time.CopyFrom(timestamp_of_ms(row.fire_at_ms))
        data = call.SerializeToString(deterministic=True)
        parts += [_LENGTH.pack(len(data)), data]
    return b"".join(parts)


def chains_request(request_id: str, made_ms: int, rows: Sequence[OutboxRow]) -> bytes:
    """`rows`: of each key in their order."""
    links = enumerate(_links_of(rows))
    return joined(
        [(each[0].verb, len(each), REQUEST_OF[each[0].verb](f"{request_id}.{n}", made_ms, each)) for n, each in links]
    )


def _links_of(rows: Sequence[OutboxRow]) -> list[list[OutboxRow]]:
    """Each of one verb, and of each key one row: that which comes behind another one is in a later link."""
    links: list[list[OutboxRow]] = []
    behind: dict[str, int] = {}
    for row in rows:
        later = range(behind.get(row.key, 0), len(links))
        place = next((each for each in later if links[each][0].verb == row.verb), len(links))
        if place == len(links):
            links.append([])
        links[place].append(row)
        behind[row.key] = place + 1
    return links


def joined(links: Iterable[tuple[int, int, bytes]]) -> bytes:
    """`links`: verb, number of rows, request."""
    return b"".join(part for verb, rows, data in links for part in (_LINK.pack(verb, rows, len(data)), data))


def links_in(batch: SealedBatch) -> list[SealedBatch]:
    """As batches of their own, whose bytes stay as they were sealed."""
    links, at = [], 0
    while at < len(batch.request):
        verb, rows, length = _LINK.unpack_from(batch.request, at)
        at += _LINK.size
        links.append(batch._replace(verb=verb, tasks=rows, request=batch.request[at : at + length]))
        at += length
    return links


REQUEST_OF: Mapping[int, Callable[[str, int, Sequence[OutboxRow]], bytes]] = {
    RowVerb.SCHEDULE: schedule_request,
    RowVerb.CANCEL: cancel_request,
    RowVerb.RESCHEDULE: moves_request,
    CHAINS: chains_request,
}


def calls_in(request: bytes) -> list[bytes]:
    """The single requests of a batch of moves."""
    calls, at = [], 0
    while at < len(request):
        [length] = _LENGTH.unpack_from(request, at)
        at += _LENGTH.size
        calls.append(request[at : at + length])
        at += length
    return calls


def moves_together(namespace: str, calls: Sequence[bytes]) -> bytes:
    """A RescheduleBatchRequest of some moves of a batch, in which each of them is as it was sealed."""
    together = pb.RescheduleBatchRequest(namespace=namespace)
    for each in calls:
        together.moves.add().MergeFromString(each)
    return together.SerializeToString(deterministic=True)


def rows_in(batch: SealedBatch) -> list[OutboxRow]:
    """The rows again, without their ids."""
    if batch.verb == CHAINS:
        return [row for link in links_in(batch) for row in rows_in(link)]
    if batch.verb == RowVerb.SCHEDULE:
        return list(_scheduled(pb.ScheduleBatchRequest.FromString(batch.request)))
    if batch.verb == RowVerb.CANCEL:
        cancels = pb.CancelBatchRequest.FromString(batch.request)
        return [OutboxRow(0, RowVerb.CANCEL, cancels.namespace, "", 0, key, b"", "") for key in cancels.keys]
    return [_moved(pb.RescheduleRequest.FromString(each)) for each in calls_in(batch.request)]


def keys_in(batch: SealedBatch) -> frozenset[tuple[str, str]]:
    """Of its rows, those that have one, with their namespace."""
    if batch.verb == RowVerb.SCHEDULE:
        items = pb.ScheduleBatchRequest.FromString(batch.request).items.items
        return frozenset((batch.namespace, item.key) for item in items if item.key)
    return frozenset((batch.namespace, row.key) for row in rows_in(batch))


def _moved(call: pb.RescheduleRequest) -> OutboxRow:
    return OutboxRow(0, RowVerb.RESCHEDULE, call.namespace, "", ms_of_timestamp(call.fire_time), call.key, b"", "")


def _scheduled(request: pb.ScheduleBatchRequest) -> Iterator[OutboxRow]:
    shared = _named(request.template)
    if request.WhichOneof("tasks") == "columns":
        columns = request.columns
        ends = accumulate(columns.payload_lengths, initial=0)
        for fire_at_ms, (start, stop) in zip(columns.fire_at_ms, pairwise(ends), strict=True):
            payload = columns.payloads[start:stop]
            yield OutboxRow(0, RowVerb.SCHEDULE, request.namespace, shared[0], fire_at_ms, "", payload, shared[1])
        return
    for item in request.items.items:
        queue, options = _named(item.template) if item.HasField("template") else shared
        fire_at_ms = ms_of_timestamp(item.fire_time)
        yield OutboxRow(0, RowVerb.SCHEDULE, request.namespace, queue, fire_at_ms, item.key, item.payload, options)


def _named(template: task_pb2.TaskTemplate) -> tuple[str, str]:
    return template.queue, options_of(template)
