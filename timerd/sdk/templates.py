"""What the tasks of one message share. Calls whose templates are equal may travel in one message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from timerd.sdk.checks import MAX_PRIORITY, invalid, labels_tuple, text, whole_number
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

    def untraced(self) -> Template:
        return self._replace(traceparent="") if self.traceparent else self

    def with_item(self, item: Item) -> Template:
        """The template of one item that differs from the rest."""
        given: dict[str, Any] = {
            "labels": _given(labels_tuple, item.labels),
            "content_type": _given(text, item.content_type, "content_type"),
            "priority": _given(_priority, item.priority),
            "retry": checked_retry(item.retry),
            "expire_at_ms": optional_ms(item.expire_at, "expire_at"),
            "soft_expire_at_ms": optional_ms(item.soft_expire_at, "soft_expire_at"),
            "traceparent": _given(text, item.traceparent, "traceparent"),
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
        text(queue, "queue"),
        labels_tuple(labels),
        text(content_type, "content_type"),
        _priority(priority),
        checked_retry(retry),
        optional_ms(expire_at, "expire_at"),
        optional_ms(soft_expire_at, "soft_expire_at"),
        text(traceparent, "traceparent"),
        policy_of(on_conflict),
    )


def _given(check: Callable[..., Any], value: object, *field: str) -> Any:  # noqa: ANN401 - what the check gives
    return None if value is None else check(value, *field)


def _priority(value: object) -> int:
    return whole_number(value, "priority", 0, MAX_PRIORITY)


def checked_retry(retry: object) -> RetryPolicy | None:
    if retry is None:
        return None
    if not isinstance(retry, RetryPolicy):
        raise invalid(f"`retry` is a RetryPolicy, not {retry!r:.200}.", "retry")
    # Says what is wrong with its values.
    retry.to_proto()
    return retry


def optional_ms(moment: datetime | None, field: str) -> int | None:
    return None if moment is None else instant_ms(moment, field)


def policy_of(policy: ConflictPolicy | str) -> ConflictPolicy:
    if isinstance(policy, ConflictPolicy):
        return policy
    known = _POLICIES.get(str(policy).lower())
    if known is None:
        allowed = ", ".join(f'"{name}"' for name in _POLICIES)
        raise invalid(f"`on_conflict` is {policy!r:.200}; allowed are {allowed}.", "on_conflict")
    return known
