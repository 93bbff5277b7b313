"""What a handler receives: views on the columns of one Deliver message, made of slices when they are looked at.

A batch of a thousand tasks is a thousand small objects that point at one message; nothing is copied for a field that
the handler does not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import datetime, timedelta
from functools import cached_property
from itertools import accumulate

from timerd.sdk.ids import encode_id
from timerd.sdk.times import datetime_of_ms, now_ms
from timerd.v1 import work_service_pb2 as pb


class DeliveredBatch:
    """One Deliver message, its columns taken out of protobuf once."""

    def __init__(self, message: pb.Deliver, lost: Set[bytes] = frozenset(), received_ms: int | None = None) -> None:
        self.queue = message.queue
        self.received_ms = now_ms() if received_ms is None else received_ms
        self.fire_at_ms = list(message.fire_at_ms)
        self.ack_tokens = message.ack_tokens
        self.token_bytes = len(self.ack_tokens) // max(1, len(self.fire_at_ms))
        self.payloads = message.payloads
        self.lost = lost
        self._message = message

    def __len__(self) -> int:
        return len(self.fire_at_ms)

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
    def keys(self) -> list[str]:
        return list(self._message.keys)

    @cached_property
    def _templates(self) -> list[Template]:
        return [Template(template) for template in self._message.templates] or [Template(pb.DeliveryTemplate())]

    @cached_property
    def _template_index(self) -> list[int]:
        return list(self._message.template_index)

    def template(self, index: int) -> Template:
        return self._templates[self._template_index[index] if self._template_index else 0]

    def tokens(self, start: int, stop: int) -> bytes:
        return self.ack_tokens[start * self.token_bytes : stop * self.token_bytes]


class Template:
    """What deliveries have in common, read once per message."""

    __slots__ = ("content_type", "fencing_scope", "fencing_token", "labels", "priority")

    def __init__(self, template: pb.DeliveryTemplate) -> None:
        self.labels: Mapping[str, str] = dict(template.labels)
        self.content_type = template.content_type
        self.priority = template.priority
        self.fencing_scope = template.fencing_scope
        self.fencing_token = template.fencing_token


class Delivery:
    """A due task in the hands of a handler."""

    __slots__ = ("_batch", "_index", "_payload")

    def __init__(self, batch: DeliveredBatch, index: int) -> None:
        self._batch = batch
        self._index = index
        self._payload: bytes | None = None

    @property
    def payload(self) -> bytes:
        payload = self._payload
        if payload is None:
            ends, index = self._batch.payload_ends, self._index
            payload = self._payload = self._batch.payloads[ends[index] : ends[index + 1]]
        return payload

    @property
    def task_id(self) -> str:
        return encode_id(_slice(self._batch.task_ids, self._index, len(self._batch)))

    @property
    def delivery_id(self) -> str:
        """The same over all attempts and repeats: what a receiver tells duplicates by."""
        return encode_id(_slice(self._batch.delivery_ids, self._index, len(self._batch)))

    @property
    def attempt(self) -> int:
        """1 for the first."""
        attempts = self._batch.attempts
        return attempts[self._index] if attempts else 1

    @property
    def fire_at_ms(self) -> int:
        return self._batch.fire_at_ms[self._index]

    @property
    def fire_time(self) -> datetime:
        return datetime_of_ms(self.fire_at_ms)

    @property
    def late(self) -> bool:
        """Past its soft_expire_time, or scheduled for an instant already past."""
        return self._index in self._batch.late

    @property
    def lateness(self) -> timedelta:
        """From the fire time to the arrival at this worker."""
        return timedelta(milliseconds=max(0, self._batch.received_ms - self.fire_at_ms))

    @property
    def fencing_scope(self) -> str:
        return self._batch.template(self._index).fencing_scope

    @property
    def fencing_token(self) -> int:
        """A receiver that keeps the highest per fencing_scope can refuse a stale instance."""
        return self._batch.template(self._index).fencing_token

    @property
    def queue(self) -> str:
        return self._batch.queue

    @property
    def labels(self) -> Mapping[str, str]:
        return self._batch.template(self._index).labels

    @property
    def content_type(self) -> str:
        return self._batch.template(self._index).content_type

    @property
    def priority(self) -> int:
        return self._batch.template(self._index).priority

    @property
    def key(self) -> str:
        keys = self._batch.keys
        return keys[self._index] if keys else ""

    @property
    def traceparent(self) -> str:
        traceparents = self._batch.traceparents
        return traceparents[self._index] if traceparents else ""

    @property
    def lost(self) -> bool:
        """The lease is gone (another worker has the task, or it ended): a long handler may stop here."""
        return bool(self._batch.lost) and self._batch.tokens(self._index, self._index + 1) in self._batch.lost

    def __repr__(self) -> str:
        return f"Delivery(queue={self.queue!r}, task_id={self.task_id!r}, attempt={self.attempt})"


def _slice(column: bytes, index: int, count: int) -> bytes:
    size = len(column) // count
    return column[index * size : (index + 1) * size]
