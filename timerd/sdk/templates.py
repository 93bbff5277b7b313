"""What the tasks of one message share. Calls whose templates are equal may travel in one message."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from timerd.sdk.errors import InvalidTask, not_sendable
from timerd.sdk.times import instant_ms, timestamp_of_ms
from timerd.sdk.values import ConflictPolicy, Item, RetryPolicy
from timerd.v1 import task_pb2

_POLICIES = {"keep": ConflictPolicy.KEEP, "replace": ConflictPolicy.REPLACE, "reject": ConflictPolicy.REJECT}


class Template(NamedTuple):
    """Hashable, so that it is the name of the group of calls that share it."""

    queue: str
    labels: tuple[tuple[str, str], ...] = ()
    content_type: str = ""
    priority: int = 0
    retry: RetryPolicy | None = None
    expire_at_ms: int | None = None
    soft_expire_at_ms: int | None = None
    traceparent: str = ""
    on_conflict: ConflictPolicy = ConflictPolicy.UNSPECIFIED

    def to_proto(self) -> task_pb2.TaskTemplate:
        try:
            return self._to_proto()
        except InvalidTask:
            raise
        except (TypeError, ValueError) as wrong:
            raise not_sendable(wrong) from None

    def _to_proto(self) -> task_pb2.TaskTemplate:
        template = task_pb2.TaskTemplate(
            queue=self.queue,
            labels=dict(self.labels),
            content_type=self.content_type,
            priority=self.priority,
            traceparent=self.traceparent,
            on_conflict=int(self.on_conflict),  # type: ignore[arg-type]
        )
        if self.retry is not None:
            template.retry.CopyFrom(self.retry.to_proto())
        if self.expire_at_ms is not None:
            template.expire_time.CopyFrom(timestamp_of_ms(self.expire_at_ms))
        if self.soft_expire_at_ms is not None:
            template.soft_expire_time.CopyFrom(timestamp_of_ms(self.soft_expire_at_ms))
        return template

    def with_item(self, item: Item) -> Template:
        """The template of one item that differs from the rest."""
        given: dict[str, Any] = {
            "labels": labels_tuple(item.labels) if item.labels is not None else None,
            "content_type": item.content_type,
            "priority": item.priority,
            "retry": item.retry,
            "expire_at_ms": optional_ms(item.expire_at, "expire_at"),
            "soft_expire_at_ms": optional_ms(item.soft_expire_at, "soft_expire_at"),
            "traceparent": item.traceparent,
        }
        return self._replace(**{name: value for name, value in given.items() if value is not None})


def make_template(
    queue: str,
    labels: Mapping[str, str] | None,
    content_type: str,
    priority: int,
    retry: RetryPolicy | None,
    expire_at: datetime | None,
    soft_expire_at: datetime | None,
    traceparent: str,
    on_conflict: ConflictPolicy | str,
) -> Template:
    return Template(
        queue,
        labels_tuple(labels),
        content_type,
        priority,
        retry,
        optional_ms(expire_at, "expire_at"),
        optional_ms(soft_expire_at, "soft_expire_at"),
        traceparent,
        policy_of(on_conflict),
    )


def labels_tuple(labels: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    if not labels:
        return ()
    if not all(isinstance(text, str) for pair in labels.items() for text in pair):
        raise InvalidTask(f"Labels are text with text as values, not {labels!r}.", reason="INVALID", field="labels")
    return tuple(sorted(labels.items()))


def optional_ms(moment: datetime | None, field: str) -> int | None:
    return None if moment is None else instant_ms(moment, field)


def policy_of(policy: ConflictPolicy | str) -> ConflictPolicy:
    if isinstance(policy, ConflictPolicy):
        return policy
    known = _POLICIES.get(policy.lower())
    if known is None:
        allowed = ", ".join(f'"{name}"' for name in _POLICIES)
        raise InvalidTask(f"`on_conflict` is {policy!r}; allowed are {allowed}.", reason="INVALID", field="on_conflict")
    return known


def payload_bytes(payload: object) -> bytes:
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    raise InvalidTask(
        f"A payload is bytes or str, not {type(payload).__name__}. Encode it first, for example by `json.dumps(...)`.",
        reason="INVALID",
        field="payload",
    )
