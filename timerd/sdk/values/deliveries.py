"""What a handler receives: views on the columns of one Deliver message, made of slices when they are looked at.

A batch of a thousand tasks is a thousand small objects that point at one message; nothing is copied for a field that
the handler does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from functools import cached_property
from itertools import accumulate
from math import inf
from time import monotonic

from timerd.sdk.values.ended_tasks import ENDED_CONTENT, EndedTask
from timerd.sdk.values.ids import encode_id
from timerd.sdk.values.interruptions import Interruption, InterruptReason
from timerd.sdk.values.order_fences import OrderFence
from timerd.sdk.values.progress import NOTED, Noted, Progress
from timerd.sdk.values.schedule_values import Occurrence
from timerd.sdk.values.slots import SLOT_CONTENT, Slot
from timerd.sdk.values.times import datetime_of_ms, now_ms
from timerd.v1 import task_pb2
from timerd.v1 import work_service_pb2 as pb


class DeliveredBatch:
    """One Deliver message, its columns taken out of protobuf once."""

    def __init__(
        self,
        message: pb.Deliver,
        lost: Set[bytes] = frozenset(),
        received_ms: int | None = None,
        report: Callable[[bytes, Progress], None] = lambda token, progress: None,
    ) -> None:
        self.queue = message.queue
        self.received_ms = now_ms() if received_ms is None else received_ms
        self.fire_at_ms = list(message.fire_at_ms)
        self.ack_tokens = message.ack_tokens
        self.token_bytes = len(self.ack_tokens) // max(1, len(self.fire_at_ms))
        self.payloads = message.payloads
        self.lost = lost
        self._report = report
        # By ack token: when their handlers have said something last.
        self._said_s: dict[bytes, float] = {}
        # By `time.monotonic`. A server that does not say how long an attempt may take ends it by itself.
        self.received_s = monotonic()
        self.attempt_ends_s = self.received_s + (message.attempt_timeout_ms / 1000 or inf)
        self._message = message
        # For how long the handler of each may be silent. None: each of them for any time.
        self.stalls_s = self._stalls_s() if any(each.stall_timeout_ms for each in message.templates) else None
        self._interruptions: dict[int, Interruption] = {}

    def __len__(self) -> int:
        return len(self.fire_at_ms)

    def _stalls_s(self) -> list[float]:
        each_s = [each.stall_timeout_ms / 1000 or inf for each in self._message.templates]
        return [each_s[kind] for kind in self._template_index] if self._template_index else each_s[:1] * len(self)

    def report(self, token: bytes, progress: Progress) -> None:
        """What a handler says of its progress; from any thread."""
        self._said_s[token] = monotonic()
        self._report(token, progress)

    def said_s(self, start: int, stop: int) -> float:
        """When a handler of these has said something last."""
        if not self._said_s:
            return -inf
        return max([self._said_s.get(self.tokens(index, index + 1), -inf) for index in range(start, stop)])

    def interruption(self, index: int) -> Interruption:
        """From any thread: the same for all who ask."""
        return self._interruptions.setdefault(index, Interruption())

    def reason(self, index: int) -> InterruptReason | None:
        found = self._interruptions.get(index)
        return found.reason if found is not None else None

    def interrupt(self, index: int, reason: InterruptReason) -> bool:
        """Whether it was not interrupted before."""
        return self.interruption(index)._set(reason)

    @cached_property
    def payload_ends(self) -> list[int]:
        lengths = list(self._message.payload_lengths) or [0]
        if len(lengths) == 1 and len(self) != 1:
            lengths *= len(self)
        return [0, *accumulate(lengths)]

    @cached_property
    def task_ids(self) -> bytes:
        return self._message.task_ids

    @cached_property
    def delivery_ids(self) -> bytes:
        return self._message.delivery_ids

    @cached_property
    def attempts(self) -> list[int]:
        return list(self._message.attempts)

    @cached_property
    def late(self) -> frozenset[int]:
        return frozenset(self._message.late)

    @cached_property
    def traceparents(self) -> list[str]:
        return list(self._message.traceparents)

    @cached_property
    def deadlines_ms(self) -> list[int]:
        return self._instants(self._message.deadlines_ms)

    @cached_property
    def soft_deadlines_ms(self) -> list[int]:
        return self._instants(self._message.soft_deadlines_ms)

    def _instants(self, column: Sequence[int]) -> list[int]:
        return list(column) * len(self) if len(column) == 1 else list(column)

    def deadline_s(self, start: int, stop: int) -> float:
        """The last deadline of these, by `time.monotonic`. What is left until then is by the server's clock, which may
        differ from the one here."""
        if not self.deadlines_ms:
            return inf
        left_ms = [ms - self._message.sent_at_ms if ms else inf for ms in self.deadlines_ms[start:stop]]
        return self.received_s + max(left_ms) / 1000

    @cached_property
    def occurrences(self) -> list[pb.DeliveredOccurrence]:
        return list(self._message.occurrences)

    @cached_property
    def previous_progress(self) -> list[task_pb2.Progress]:
        return list(self._message.previous_progress)

    @cached_property
    def ordering_keys(self) -> list[str]:
        return list(self._message.ordering_keys)

    @cached_property
    def is_awaited(self) -> bool:
        """Whether something may wait for their ends: a caller for a result, or the next task of an ordering key."""
        return bool(self._message.ordering_keys) or any(template.keep_result_ms for template in self._templates)

    @cached_property
    def order_fences(self) -> bytes:
        return self._message.order_fences

    @cached_property
    def keys(self) -> list[str]:
        return list(self._message.keys)

    @cached_property
    def _templates(self) -> list[DeliveryTemplate]:
        return [DeliveryTemplate(template) for template in self._message.templates] or [
            DeliveryTemplate(pb.DeliveryTemplate())
        ]

    @cached_property
    def _template_index(self) -> list[int]:
        return list(self._message.template_index)

    def template(self, index: int) -> DeliveryTemplate:
        return self._templates[self._template_index[index] if self._template_index else 0]

    def tokens(self, start: int, stop: int) -> bytes:
        return self.ack_tokens[start * self.token_bytes : stop * self.token_bytes]


class DeliveryTemplate:
    """What deliveries have in common, read once per message."""

    __slots__ = ("content_type", "fencing_scope", "fencing_token", "keep_result_ms", "labels", "priority")

    def __init__(self, template: pb.DeliveryTemplate) -> None:
        self.labels: Mapping[str, str] = dict(template.labels)
        self.content_type = template.content_type
        self.priority = template.priority
        self.fencing_scope = template.fencing_scope
        self.fencing_token = template.fencing_token
        self.keep_result_ms = template.keep_result_ms


class Delivery:
    """A delivery is one attempt at a due task, in the hands of a handler.

    Workers make it. The task may be delivered more than once: `delivery_id` tells repeats.

    Args:
        batch: the message that has the delivery.
        index: the place of the delivery in that message, from 0 on.
    """

    __slots__ = ("_batch", "_index", "_payload")

    def __init__(self, batch: DeliveredBatch, index: int) -> None:
        self._batch = batch
        self._index = index
        self._payload: bytes | None = None

    @property
    def payload(self) -> bytes:
        """The payload is what the caller has sent; a text comes as UTF-8."""
        payload = self._payload
        if payload is None:
            ends, index = self._batch.payload_ends, self._index
            payload = self._payload = self._batch.payloads[ends[index] : ends[index + 1]]
        return payload

    @property
    def task_id(self) -> str:
        """The id names the task, as `Task.id` does for its caller."""
        return encode_id(_slice(self._batch.task_ids, self._index, len(self._batch)))

    @property
    def delivery_id(self) -> str:
        """The delivery id is the same over all attempts and repeats, so a receiver tells duplicates by it."""
        return encode_id(_slice(self._batch.delivery_ids, self._index, len(self._batch)))

    @property
    def attempt(self) -> int:
        """The attempt is the number of this delivery, 1 for the first."""
        attempts = self._batch.attempts
        return attempts[self._index] if attempts else 1

    @property
    def fire_at_ms(self) -> int:
        """The fire time is the instant for which the task was scheduled, in milliseconds since the epoch."""
        return self._batch.fire_at_ms[self._index]

    @property
    def fire_time(self) -> datetime:
        """The fire time is the instant for which the task was scheduled, in UTC."""
        return datetime_of_ms(self.fire_at_ms)

    @property
    def late(self) -> bool:
        """This flag says that `soft_deadline` has passed, or that the fire time had passed when it was scheduled."""
        return self._index in self._batch.late

    @property
    def deadline(self) -> datetime | None:
        """The deadline is the instant, in UTC, at which this attempt is over by the task's `expire_after`; or None."""
        deadlines_ms = self._batch.deadlines_ms
        return datetime_of_ms(deadlines_ms[self._index]) if deadlines_ms and deadlines_ms[self._index] else None

    @property
    def soft_deadline(self) -> datetime | None:
        """The soft deadline is the instant, in UTC, from which on the task is late; or None."""
        deadlines_ms = self._batch.soft_deadlines_ms
        return datetime_of_ms(deadlines_ms[self._index]) if deadlines_ms and deadlines_ms[self._index] else None

    @property
    def lateness(self) -> timedelta:
        """The lateness is the time from the fire time to the arrival at this worker; 0 or more."""
        return timedelta(milliseconds=max(0, self._batch.received_ms - self.fire_at_ms))

    @property
    def fencing_scope(self) -> str:
        """The fencing scope names the part of the tasks within which fencing tokens are compared."""
        return self._batch.template(self._index).fencing_scope

    @property
    def fencing_token(self) -> int:
        """The fencing token grows with each change of the instance that fires a scope.

        A receiver that keeps the highest token of each `fencing_scope` can refuse the deliveries of a stale instance.
        """
        return self._batch.template(self._index).fencing_token

    @property
    def queue(self) -> str:
        """The queue is the one for which the handler was registered."""
        return self._batch.queue

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels are those of the task; empty where it has none."""
        return self._batch.template(self._index).labels

    @property
    def content_type(self) -> str:
        """The content type says what the payload is; empty where its caller did not say it."""
        return self._batch.template(self._index).content_type

    @property
    def priority(self) -> int:
        """The priority is that of the task, 0 to 10."""
        return self._batch.template(self._index).priority

    @property
    def key(self) -> str:
        """The key is the name that the caller has given to the task; empty where there is none."""
        keys = self._batch.keys
        return keys[self._index] if keys else ""

    @property
    def ordering_key(self) -> str:
        """Tasks of the queue with the same ordering key are delivered one at a time, in order; empty: it has none."""
        keys = self._batch.ordering_keys
        return keys[self._index] if keys else ""

    @property
    def order_fence(self) -> OrderFence | None:
        """The order fence grows along all starts of an ordering key; None where the task has none.

        A receiver that keeps the largest one of each key can refuse a worker that was given up.
        """
        if not self.ordering_key:
            return None
        return OrderFence.of(_slice(self._batch.order_fences, self._index, len(self._batch)))

    @property
    def occurrence(self) -> Occurrence | None:
        """The occurrence says for which instant a schedule made the task; None where no schedule did."""
        occurrences = self._batch.occurrences
        message = occurrences[self._index] if occurrences else None
        return Occurrence.of(message) if message is not None and message.schedule_id else None

    @property
    def slot(self) -> Slot | None:
        """The slot says whose turn it is, where the task is that of a slot of a cycle; None for every other task."""
        return Slot.of_payload(self.payload) if self.content_type == SLOT_CONTENT else None

    @property
    def ended(self) -> EndedTask | None:
        """The ended task is the one whose end made this task (`on_end`); None where no end did."""
        return EndedTask.of_payload(self.payload) if self.content_type == ENDED_CONTENT else None

    @property
    def traceparent(self) -> str:
        """The traceparent is the W3C trace context of the task; empty where there is none."""
        traceparents = self._batch.traceparents
        return traceparents[self._index] if traceparents else ""

    @property
    def keep_result(self) -> timedelta | None:
        """For so long what the handler returns is kept; None: it is not, and nobody can get it."""
        kept_ms = self._batch.template(self._index).keep_result_ms
        return timedelta(milliseconds=kept_ms) if kept_ms else None

    @property
    def previous_progress(self) -> Progress | None:
        """The last progress that an earlier attempt has said before it failed; None where none did."""
        said = self._batch.previous_progress
        return Progress.of(said[self._index]) if said else None

    def progress(self, fraction: float, cursor: bytes | str = b"") -> Noted:
        """The call notes how far the handler has come: `await delivery.progress(0.4, b"page 17")`.

        It goes to the server with the next sign of life of the worker, and when the attempt fails. The last one is what
        `previous_progress` of the next attempt says, and what `get` shows. Each call says as well that the handler has
        not stalled (`stall_timeout`). In a plain handler it is called without `await`.

        Args:
            fraction: how far it has come, 0 to 1.
            cursor: what the next attempt needs to go on from there, bytes or a text; up to 1 KiB. Default nothing.

        Raises:
            InvalidTask: as for `Progress`.
        """
        self._batch.report(self._batch.tokens(self._index, self._index + 1), Progress(fraction, cursor))
        return NOTED

    @property
    def interrupted(self) -> Interruption:
        """The interruption is set when the work on this delivery is for nothing: its task was cancelled, say.

        A coroutine is cancelled then, unless its handler is registered with `shield=True`, and a process is ended. A
        plain handler looks: `if delivery.interrupted: ...`, `delivery.interrupted.check()`. What is returned
        acknowledges the delivery as ever; `Interrupted` gives it up.
        """
        return self._batch.interruption(self._index)

    @property
    def lost(self) -> bool:
        """This flag says that the lease is gone: another worker has the task, or it ended. A long handler may stop."""
        return bool(self._batch.lost) and self._batch.tokens(self._index, self._index + 1) in self._batch.lost

    def __repr__(self) -> str:
        return f"Delivery(queue={self.queue!r}, task_id={self.task_id!r}, attempt={self.attempt})"


def _slice(column: bytes, index: int, count: int) -> bytes:
    size = len(column) // count
    return column[index * size : (index + 1) * size]


def message_of(delivery: Delivery) -> pb.Deliver:
    """The delivery alone, as a message of its own: to be handed to another process."""
    batch, index, count = delivery._batch, delivery._index, len(delivery._batch)
    message = batch._message
    return pb.Deliver(
        queue=batch.queue,
        templates=[message.templates[batch._template_index[index] if batch._template_index else 0]]
        if message.templates
        else [],
        task_ids=_slice(batch.task_ids, index, count),
        delivery_ids=_slice(batch.delivery_ids, index, count),
        ack_tokens=batch.tokens(index, index + 1),
        fire_at_ms=[batch.fire_at_ms[index]],
        attempts=[delivery.attempt],
        payload_lengths=[len(delivery.payload)],
        payloads=delivery.payload,
        late=[0] if delivery.late else [],
        traceparents=[delivery.traceparent],
        keys=[delivery.key],
        attempt_timeout_ms=message.attempt_timeout_ms,
        occurrences=batch.occurrences[index : index + 1],
        deadlines_ms=batch.deadlines_ms[index : index + 1],
        soft_deadlines_ms=batch.soft_deadlines_ms[index : index + 1],
        sent_at_ms=message.sent_at_ms,
        previous_progress=batch.previous_progress[index : index + 1],
        ordering_keys=batch.ordering_keys[index : index + 1],
        order_fences=_slice(batch.order_fences, index, count),
    )


def report_of(delivery: Delivery) -> Callable[[bytes, Progress], None]:
    """Where what is said of this delivery goes, and of others of its worker."""
    return delivery._batch.report
