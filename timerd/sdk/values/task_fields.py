"""The fields of a task, all in one place: how a caller gives them, how they travel, and how a stored task shows them.

A field that a later release adds stands here and nowhere else in the SDK: a line in `TaskOptions`, `TaskKeywords`,
`Item`, `Template` and `FIELDS`, and two in `TaskInfo` (tests/sdk/test_task_fields.py adds one and counts the files).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypedDict

from timerd.sdk.values.attempts import Attempt
from timerd.sdk.values.checks import MAX_PRIORITY, check_keywords, flag, invalid, labels_tuple, text, whole_number
from timerd.sdk.values.errors import InvalidTask, not_sendable
from timerd.sdk.values.progress import Progress
from timerd.sdk.values.tasks import ConflictPolicy, RetryPolicy, TaskState
from timerd.sdk.values.times import (
    Span,
    datetime_of_ms,
    duration_of_ms,
    instant_ms,
    ms_of_timestamp,
    span_ms,
    timestamp_of_ms,
)
from timerd.sdk.values.waiting import WaitsFor
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

_POLICIES = {"keep": ConflictPolicy.KEEP, "replace": ConflictPolicy.REPLACE, "reject": ConflictPolicy.REJECT}


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Task options describe a task beside its payload and its instant; one object serves any number of calls.

    `schedule`, `schedule_many` and `schedule_columns` take it as `options`, and each of its fields as a keyword as
    well; a keyword wins over the object. The call that uses it raises InvalidTask for a value of a wrong form.

    Args:
        labels: texts that the task carries and by which `list`, `count` and `purge` choose; at most 32, keys of 1 to
            64 characters of A-Z a-z 0-9 . _ - / :, values of up to 256. Default none.
        content_type: what the payload is, for its handler; up to 128 characters. Default empty.
        priority: 0 to 10; each level is worth 64 s of waiting among the due tasks of a queue. Default 0.
        retry: when failed attempts are repeated. Default the server's policy, see `RetryPolicy`.
        expire_at: the instant, with a zone, from which on the task is not delivered any more but ends as `EXPIRED`.
            What was delivered before goes on. Default never.
        soft_expire_at: the instant, with a zone, from which on its delivery is marked `late`. Default never.
        traceparent: the W3C trace context that the handler receives. Default the caller's own where the client has
            `tracing`, else empty.
        expire_after: for how long from its fire time on the task is worth something, a timedelta or seconds, more than
            0 and up to 100 years. Then it ends as `EXPIRED`: also an attempt that is under way is over. Default for
            ever.
        soft_expire_after: the time from its fire time on after which its delivery is marked `late`, as `expire_after`.
            Default never.
        keep_result: for how long what its handler returns is kept, a timedelta or seconds, more than 0 and up to 24 h:
            `TaskInfo.result`. Default it is not kept.
        stall_timeout: an attempt whose handler says no progress (`Delivery.progress`) for so long has failed, a
            timedelta or seconds, a second to 7 days. Default it may be silent.
        ordering_key: tasks of the queue with the same one are delivered one at a time, in the order of their due times
            and, where these are the same, of the calls; a text of up to 256 characters. A failed one keeps the others
            waiting for its retries. Default none.
        limit_key: whose task it is, for example a customer's: the due tasks of a queue are delivered in turn by these,
            and a queue may limit each (`KeyRules`); a text of up to 256 characters. Default none.
        on_end: the queue in which a task is inserted when this one ends, however it does; its handler learns how from
            `Delivery.ended`. Default none.
        on_demand: somebody waits for it, so it goes before due tasks that wait in line: 256 s at first, and two more
            for each second that it waits. It needs an `expire_after` of 10 minutes at most. Default not.
    """

    labels: Mapping[str, str] | None = None
    content_type: str = ""
    priority: int = 0
    retry: RetryPolicy | None = None
    expire_at: datetime | None = None
    soft_expire_at: datetime | None = None
    traceparent: str = ""
    expire_after: Span | None = None
    soft_expire_after: Span | None = None
    keep_result: Span | None = None
    ordering_key: str = ""
    limit_key: str = ""
    stall_timeout: Span | None = None
    on_end: str = ""
    on_demand: bool = False


class TaskKeywords(TypedDict, total=False):
    """These keywords are the fields of `TaskOptions`, for a call that gives them one by one."""

    labels: Mapping[str, str] | None
    content_type: str
    priority: int
    retry: RetryPolicy | None
    expire_at: datetime | None
    soft_expire_at: datetime | None
    traceparent: str
    expire_after: Span | None
    soft_expire_after: Span | None
    keep_result: Span | None
    stall_timeout: Span | None
    ordering_key: str
    limit_key: str
    on_end: str
    on_demand: bool


@dataclass(frozen=True, slots=True)
class Item:
    """An item is one task of `schedule_many` with what differs from the rest of the call.

    Give either `at` or `delay`. What is None is as the call says for all of its tasks.

    Args:
        payload: the bytes that the handler receives, or a text, which is sent as UTF-8; up to 64 KiB, or up to what
            the server is set to (1 MiB at most).
        at: the fire time, a datetime with a zone; one that has passed fires at once.
        delay: the time from now to the fire time, a timedelta or seconds.
        key: a name of the caller's choice, unique in its namespace; up to 256 characters. Default none.
        labels: in place of the labels of the call.
        content_type: in place of that of the call.
        priority: in place of that of the call, 0 to 10.
        retry: in place of the policy of the call.
        expire_at: in place of that of the call.
        soft_expire_at: in place of that of the call.
        traceparent: in place of that of the call.
        expire_after: in place of that of the call.
        soft_expire_after: in place of that of the call.
        keep_result: in place of that of the call.
        stall_timeout: in place of that of the call.
        ordering_key: in place of that of the call.
        limit_key: in place of that of the call.
        on_end: in place of that of the call.
        on_demand: in place of that of the call.
    """

    payload: bytes | str
    at: datetime | None = None
    delay: Span | None = None
    key: str | None = None
    labels: Mapping[str, str] | None = None
    content_type: str | None = None
    priority: int | None = None
    retry: RetryPolicy | None = None
    expire_at: datetime | None = None
    soft_expire_at: datetime | None = None
    traceparent: str | None = None
    expire_after: Span | None = None
    soft_expire_after: Span | None = None
    keep_result: Span | None = None
    ordering_key: str | None = None
    limit_key: str | None = None
    stall_timeout: Span | None = None
    on_end: str | None = None
    on_demand: bool | None = None


class Template(NamedTuple):
    """What the tasks of one message share. Hashable: it names the group of calls that may travel in one message."""

    queue: str
    labels: tuple[tuple[str, str], ...] = ()
    content_type: str = ""
    priority: int = 0
    retry: RetryPolicy | None = None
    expire_at_ms: int | None = None
    soft_expire_at_ms: int | None = None
    traceparent: str = ""
    expire_after_ms: int | None = None
    soft_expire_after_ms: int | None = None
    keep_result_ms: int | None = None
    stall_timeout_ms: int | None = None
    ordering_key: str = ""
    limit_key: str = ""
    on_end: str = ""
    on_demand: bool = False
    on_conflict: ConflictPolicy = ConflictPolicy.UNSPECIFIED

    def to_proto(self) -> task_pb2.TaskTemplate:
        try:
            return self._to_proto()
        except InvalidTask:
            raise
        except (TypeError, ValueError) as wrong:
            raise not_sendable(wrong) from None

    def _to_proto(self) -> task_pb2.TaskTemplate:
        template = task_pb2.TaskTemplate(queue=self.queue, on_conflict=int(self.on_conflict))  # type: ignore[arg-type]
        for field in FIELDS.values():
            value = getattr(self, field.part)
            if value is not None:
                field.write(template, value)
        return template

    def untraced(self) -> Template:
        return self._replace(traceparent="") if self.traceparent else self

    def with_item(self, item: Item) -> Template:
        """The template of one item that differs from the rest."""
        return self._replace(**_checked(own_fields(item)))


def own_fields(item: Item) -> dict[str, Any]:
    """What an item says of its task beside its key."""
    return {name: value for name in FIELDS if (value := getattr(item, name)) is not None}


def template_of(
    call: str,
    queue: str,
    options: TaskOptions | None,
    keywords: TaskKeywords,
    on_conflict: ConflictPolicy | str = ConflictPolicy.UNSPECIFIED,
) -> Template:
    """What a user's call says of its tasks. Raises InvalidTask, and TypeError for a keyword that it does not take."""
    given: Mapping[str, Any] = keywords
    if keywords:
        check_keywords(call, keywords, FIELDS.keys())
    if options is not None:
        given = {**_fields_of(options), **keywords}
    queue, policy = text(queue, "queue"), policy_of(on_conflict)
    return Template(queue, on_conflict=policy, **_checked(given)) if given else Template(queue, on_conflict=policy)


def _fields_of(options: object) -> dict[str, Any]:
    if not isinstance(options, TaskOptions):
        raise invalid(f"`options` is a TaskOptions, not {options!r:.200}.", "options")
    return {name: getattr(options, name) for name in FIELDS}


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a template."""
    parts: dict[str, Any] = {}
    for name, value in given.items():
        part, check, _ = FIELDS[name]
        parts[part] = check(value, name)
    return parts


def policy_of(policy: ConflictPolicy | str) -> ConflictPolicy:
    if isinstance(policy, ConflictPolicy):
        return policy
    known = _POLICIES.get(str(policy).lower())
    if known is None:
        allowed = ", ".join(f'"{name}"' for name in _POLICIES)
        raise invalid(f"`on_conflict` is {policy!r:.200}; allowed are {allowed}.", "on_conflict")
    return known


class Field(NamedTuple):
    """How one option is looked at, what it is in a Template, and how it is written into a message."""

    part: str
    check: Callable[[Any, str], Any]
    write: Callable[[task_pb2.TaskTemplate, Any], None]


def _labels(value: object, _: str) -> tuple[tuple[str, str], ...]:
    return labels_tuple(value)


def _write_labels(template: task_pb2.TaskTemplate, labels: tuple[tuple[str, str], ...]) -> None:
    template.labels.update(labels)


def _priority(value: object, name: str) -> int:
    return whole_number(value, name, 0, MAX_PRIORITY)


def _retry(value: object, name: str) -> RetryPolicy | None:
    if value is None:
        return None
    if not isinstance(value, RetryPolicy):
        raise invalid(f"`{name}` is a RetryPolicy, not {value!r:.200}.", name)
    # Says what is wrong with its values.
    value.to_proto()
    return value


def _write_retry(template: task_pb2.TaskTemplate, retry: RetryPolicy) -> None:
    template.retry.CopyFrom(retry.to_proto())


def _optional_ms(value: datetime | None, name: str) -> int | None:
    return None if value is None else instant_ms(value, name)


def _plain(part: str, check: Callable[[Any, str], Any]) -> Field:
    """A number or a text, which has the same name everywhere."""
    return Field(part, check, lambda template, value: setattr(template, part, value))


def _moment(part: str, wire: str) -> Field:
    """An instant, or none."""
    return Field(
        part,
        _optional_ms,
        lambda template, at_ms: getattr(template, wire).CopyFrom(timestamp_of_ms(at_ms)),
    )


def _optional_span_ms(value: Span | None, name: str) -> int | None:
    return None if value is None else span_ms(value, name, may_be_none=False)


def _span(part: str, wire: str) -> Field:
    """A time, or none."""
    return Field(
        part,
        _optional_span_ms,
        lambda template, value_ms: getattr(template, wire).CopyFrom(duration_of_ms(value_ms)),
    )


# By the name that callers know, in the order in which they are looked at.
FIELDS: dict[str, Field] = {
    "labels": Field("labels", _labels, _write_labels),
    "content_type": _plain("content_type", text),
    "priority": _plain("priority", _priority),
    "retry": Field("retry", _retry, _write_retry),
    "expire_at": _moment("expire_at_ms", "expire_time"),
    "soft_expire_at": _moment("soft_expire_at_ms", "soft_expire_time"),
    "traceparent": _plain("traceparent", text),
    "expire_after": _span("expire_after_ms", "expire_after"),
    "soft_expire_after": _span("soft_expire_after_ms", "soft_expire_after"),
    "keep_result": _span("keep_result_ms", "keep_result"),
    "stall_timeout": _span("stall_timeout_ms", "stall_timeout"),
    "ordering_key": _plain("ordering_key", text),
    "limit_key": _plain("limit_key", text),
    "on_end": _plain("on_end", text),
    "on_demand": _plain("on_demand", flag),
}


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task info is a stored task as `get` and `list` show it.

    Of a task that is `FINISHED` only the id, the times and the state are known.

    Args:
        id: the id that names the task, also after a reschedule.
        namespace: the namespace in which it was scheduled.
        queue: the queue whose workers receive it.
        fire_at_ms: its fire time, in milliseconds since the epoch.
        due_at_ms: when it is to be delivered next, or was, in milliseconds since the epoch: see `due_time`.
        state: where it is in its life.
        payload: the bytes that the handler receives; empty in a list without `include_payload`.
        content_type: what the payload is; empty where it was not said.
        labels: its labels.
        priority: 0 to 10; each level is worth 64 s of waiting.
        key: the name that its caller has given to it; empty where there is none.
        expire_time: the instant in UTC from which on it is not delivered; None for never.
        soft_expire_time: the instant in UTC from which on a delivery is marked late; None for never.
        traceparent: its W3C trace context; empty where there is none.
        attempt: how many deliveries have begun, where that is known; else 0.
        last_error: the error of the last failed attempt; empty where there was none.
        history: of `get` and of dead letters: its attempts that failed, the last ten of them, earliest first.
        waiting_for: of `get`: what keeps it from being sent; None where it is not due, with a worker, or over.
        progress: what its handler has said last, see `Delivery.progress`; None where none did.
        result: of `get` and `wait`: what its handler has returned; None where none was kept (`keep_result`), or its
            time is over.
        result_content_type: what the result is; empty where it was not said.
        ordering_key: tasks of its queue with the same one are delivered one at a time, in order; empty: it has none.
        limit_key: whose task it is: the due tasks of its queue are delivered in turn by these; empty: it has none.
        keep_result: how long what its handler returns is kept after its end; None: it is not.
        is_cancelling: of `get`: it was cancelled or purged while a worker had it. The attempt under way may still be
            acknowledged; none follows.
        stall_timeout: for how long its handler may say no progress; None: for any time.
        on_end: the queue in which a task is inserted when it ends; empty: none is.
        on_demand: whether it goes before due tasks that wait in line, since somebody waits for it.
    """

    id: str
    namespace: str
    queue: str
    fire_at_ms: int
    due_at_ms: int
    state: TaskState
    payload: bytes
    content_type: str
    labels: dict[str, str]
    priority: int
    key: str
    expire_time: datetime | None
    soft_expire_time: datetime | None
    traceparent: str
    attempt: int
    last_error: str
    history: tuple[Attempt, ...] = ()
    waiting_for: WaitsFor | None = None
    progress: Progress | None = None
    result: bytes | None = None
    result_content_type: str = ""
    ordering_key: str = ""
    limit_key: str = ""
    keep_result: timedelta | None = None
    is_cancelling: bool = False
    stall_timeout: timedelta | None = None
    on_end: str = ""
    on_demand: bool = False

    @property
    def fire_time(self) -> datetime:
        """The fire time is the instant for which the task was scheduled, in UTC."""
        return datetime_of_ms(self.fire_at_ms)

    @property
    def due_time(self) -> datetime:
        """The due time is the instant by which `list`, `count` and `purge` find the task, in UTC.

        It is the fire time; for a task that was late when it was stored, that moment; for one that is retried, the time
        of its next attempt.
        """
        return datetime_of_ms(self.due_at_ms)

    @classmethod
    def of(cls, task: task_pb2.Task) -> TaskInfo:
        """The info says what the message `task` says."""
        return cls(
            id=task.task_id,
            namespace=task.namespace,
            queue=task.queue,
            fire_at_ms=ms_of_timestamp(task.fire_time),
            due_at_ms=ms_of_timestamp(task.due_time if task.HasField("due_time") else task.fire_time),
            state=TaskState(task.state),
            payload=task.payload,
            content_type=task.content_type,
            labels=dict(task.labels),
            priority=task.priority,
            key=task.key,
            expire_time=_instant(task, "expire_time"),
            soft_expire_time=_instant(task, "soft_expire_time"),
            traceparent=task.traceparent,
            attempt=task.attempt,
            last_error=task.last_error,
            history=tuple(map(Attempt.of, task.history)),
            waiting_for=WaitsFor.of(task.waiting_for) if task.HasField("waiting_for") else None,
            progress=Progress.of(task.progress),
            result=task.result.value if task.HasField("result") else None,
            result_content_type=task.result.content_type,
            ordering_key=task.ordering_key,
            limit_key=task.limit_key,
            keep_result=task.keep_result.ToTimedelta() if task.HasField("keep_result") else None,
            is_cancelling=task.is_cancelling,
            stall_timeout=task.stall_timeout.ToTimedelta() if task.HasField("stall_timeout") else None,
            on_end=task.on_end,
            on_demand=task.on_demand,
        )


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter is a task that failed for good; `redrive` gives it a new life.

    Args:
        task: the task as it was, with its payload.
        death_time: the instant, in UTC, at which its last attempt failed.
        attempts: how many deliveries it had.
        last_error: what the last attempt failed with, at most its last 16 KiB.
    """

    task: TaskInfo
    death_time: datetime
    attempts: int
    last_error: str

    @classmethod
    def of(cls, letter: pb.DeadLetter) -> DeadLetter:
        """The dead letter says what the message `letter` says."""
        death_time = datetime_of_ms(ms_of_timestamp(letter.death_time))
        return cls(TaskInfo.of(letter.task), death_time, letter.attempts, letter.last_error)


def _instant(task: task_pb2.Task, field: str) -> datetime | None:
    return datetime_of_ms(ms_of_timestamp(getattr(task, field))) if task.HasField(field) else None
