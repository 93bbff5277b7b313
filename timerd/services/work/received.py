"""What came in Deliver messages, a plain message for each task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from timerd.model.identity import ACK_TOKEN_BYTES, TASK_ID_BYTES, encode_id
from timerd.model.ordering import FENCE_BYTES
from timerd.v1 import work_service_pb2 as pb

DELIVERY_ID_BYTES = 20
# Of a task beside its payload, about.
TASK_BYTES = 256


def received(deliver: pb.Deliver) -> Iterator[pb.ReceivedTask]:
    lengths = list(deliver.payload_lengths) or [0]
    count = len(deliver.fire_at_ms)
    if len(lengths) == 1:
        lengths *= count
    ends = list(accumulate(lengths))
    late = frozenset(deliver.late)
    for at in range(count):
        task = _task(deliver, at)
        task.payload = deliver.payloads[ends[at] - lengths[at] : ends[at]]
        task.late = at in late
        yield task


def _task(deliver: pb.Deliver, at: int) -> pb.ReceivedTask:
    kinds = deliver.templates
    kind = kinds[deliver.template_index[at] if deliver.template_index else 0] if kinds else pb.DeliveryTemplate()
    task = pb.ReceivedTask(
        task_id=encode_id(_piece(deliver.task_ids, at, TASK_ID_BYTES)),
        delivery_id=encode_id(_piece(deliver.delivery_ids, at, DELIVERY_ID_BYTES)),
        ack_token=_piece(deliver.ack_tokens, at, ACK_TOKEN_BYTES),
        queue=deliver.queue,
        content_type=kind.content_type,
        labels=kind.labels,
        priority=kind.priority,
        fencing_scope=kind.fencing_scope,
        fencing_token=kind.fencing_token,
        attempt=deliver.attempts[at] if deliver.attempts else 1,
        key=deliver.keys[at] if deliver.keys else "",
        traceparent=deliver.traceparents[at] if deliver.traceparents else "",
    )
    task.fire_time.FromMilliseconds(deliver.fire_at_ms[at])
    task.attempt_timeout.FromMilliseconds(deliver.attempt_timeout_ms)
    if (deadline_ms := _instant(deliver.deadlines_ms, at)) > 0:
        task.deadline.FromMilliseconds(deadline_ms)
        left_ms = max(1, deadline_ms - deliver.sent_at_ms)
        task.attempt_timeout.FromMilliseconds(min(deliver.attempt_timeout_ms, left_ms))
    if (soft_ms := _instant(deliver.soft_deadlines_ms, at)) > 0:
        task.soft_deadline.FromMilliseconds(soft_ms)
    if deliver.previous_progress and deliver.previous_progress[at].ByteSize():
        task.previous_progress.CopyFrom(deliver.previous_progress[at])
    if kind.keep_result_ms:
        task.keep_result.FromMilliseconds(kind.keep_result_ms)
    if kind.stall_timeout_ms:
        task.stall_timeout.FromMilliseconds(kind.stall_timeout_ms)
    if deliver.ordering_keys and deliver.ordering_keys[at]:
        task.ordering_key = deliver.ordering_keys[at]
        task.order_fence = _piece(deliver.order_fences, at, FENCE_BYTES)
    if deliver.occurrences and deliver.occurrences[at].schedule_id:
        task.occurrence.CopyFrom(deliver.occurrences[at])
    return task


def _instant(column: Sequence[int], at: int) -> int:
    """0: there is none. A single value speaks for all."""
    return column[at if len(column) > 1 else 0] if column else 0


def _piece(column: bytes, at: int, size: int) -> bytes:
    return column[at * size : at * size + size]
