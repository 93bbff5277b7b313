"""TaskTemplate of the wire -> Template of the model.

Callers repeat the same few templates in every message, so the translation is remembered by the template's bytes: a
single task then costs a look-up instead of a dozen checks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration

from timerd.core.protocol import Conflict
from timerd.model.codec import EXPIRES_AFTER, ON_END, needing
from timerd.model.errors import Invalid
from timerd.model.task import HORIZON_MS, MAX_ON_DEMAND_MS, MAX_PRIORITY, RetryPolicy, Template
from timerd.services.calls.due_times import duration_ms, ms_from
from timerd.services.calls.fields import plain_text, queue_of, quoted
from timerd.v1 import task_pb2 as task_wire

MAX_LABELS = 32
MAX_LABEL_VALUE_CHARS = 256
MAX_CONTENT_TYPE_CHARS = 128
MAX_TRACEPARENT_CHARS = 128
MAX_ORDERING_KEY_CHARS = 256
MAX_LIMIT_KEY_CHARS = 256
MAX_ATTEMPTS = 65_535
MAX_BACKOFF_MS = 30 * 86_400_000
MAX_MULTIPLIER = 100.0
MAX_ATTEMPT_TIMEOUT_MS = 7 * 86_400_000
MIN_ATTEMPT_TIMEOUT_MS = 100
# What workers say of it comes in a second or two.
MIN_STALL_TIMEOUT_MS = 1_000
MAX_KEEP_RESULT_MS = 86_400_000
_LABEL_KEY = re.compile(r"[A-Za-z0-9._\-/:]{1,64}")
# Ids of zeros name nothing, ff is no version, and version 00 ends with its flags.
_TRACEPARENT = re.compile(
    r"(?!ff)(?!00-.{53})[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?"
)
_DEFAULTS = RetryPolicy()
# A release that does not know the span would send what has expired; one that does not know the queue would end a task
# and tell nobody.
_NEEDED = {"expire_after": EXPIRES_AFTER, "on_end": ON_END}


class Common(NamedTuple):
    """What the tasks of a message (or one item) share."""

    template: Template
    conflict: Conflict
    # As the caller wrote it.
    packed: bytes
    # Empty: the tasks have none.
    ordering_key: str = ""


def common_of(namespace: str, wire: task_wire.TaskTemplate, at: str) -> Common:
    """`at` is the path of the template in the request, as "template."."""
    try:
        return _translated(namespace, wire.SerializeToString(deterministic=True))
    except Invalid as error:
        raise Invalid(str(error), at + error.field, error.reason) from None


@lru_cache(maxsize=1024)
def _translated(namespace: str, packed: bytes) -> Common:
    wire = task_wire.TaskTemplate.FromString(packed)
    template = Template(
        namespace,
        queue_of(wire.queue, "queue"),
        _priority(wire.priority),
        checked_labels(dict(wire.labels)),
        plain_text(wire.content_type, MAX_CONTENT_TYPE_CHARS, "content_type", "content_type"),
        retry_of(wire.retry),
        _instant(wire, "expire_time"),
        _instant(wire, "soft_expire_time"),
        _traceparent(wire.traceparent),
        expire_after_ms=_span_after(wire, "expire_after"),
        soft_expire_after_ms=_span_after(wire, "soft_expire_after"),
        keep_result_ms=_kept_for(wire),
        stall_timeout_ms=_stall_timeout(wire),
        limit_key=plain_text(wire.limit_key, MAX_LIMIT_KEY_CHARS, "limit_key", "limit_key"),
        on_end=queue_of(wire.on_end, "on_end") if wire.on_end else "",
        on_demand=_on_demand(wire),
        kept=_needs(wire),
    )
    ordering_key = plain_text(wire.ordering_key, MAX_ORDERING_KEY_CHARS, "ordering_key", "ordering_key")
    return Common(template, _conflict(wire.on_conflict), packed, ordering_key)


def _needs(wire: task_wire.TaskTemplate) -> str:
    """What a release has to understand to have such a task."""
    given = {each.name for each, _ in wire.ListFields()}
    needed = [capability for name, capability in _NEEDED.items() if name in given]
    return needing(*needed) if needed else ""


def _priority(priority: int) -> int:
    if priority > MAX_PRIORITY:
        raise Invalid(f"The priority {priority} is too high: give 0 to {MAX_PRIORITY}.", "priority")
    return priority


def checked_labels(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    if len(labels) > MAX_LABELS:
        raise Invalid(f"There are {len(labels)} labels: at most {MAX_LABELS} are allowed.", "labels")
    for name, value in labels.items():
        if not _LABEL_KEY.fullmatch(name):
            raise Invalid(
                f"The label key {quoted(name)} is not allowed: use 1 to 64 characters of A-Z a-z 0-9 . _ - / :",
                "labels",
            )
        plain_text(value, MAX_LABEL_VALUE_CHARS, "label value", "labels")
    return tuple(sorted(labels.items()))


def _traceparent(text: str) -> str:
    if text and (len(text) > MAX_TRACEPARENT_CHARS or not _TRACEPARENT.fullmatch(text)):
        raise Invalid(
            f"The traceparent {quoted(text)} is no W3C trace context: write 00-<32 hex digits>-<16 hex digits>-<2 hex "
            "digits> in lower case, no id all zeros, or leave it empty.",
            "traceparent",
        )
    return text


def _instant(wire: task_wire.TaskTemplate, field: str) -> int:
    """0 = not set; an instant before 1970 counts as its first millisecond, which is past as well."""
    return max(1, ms_from(getattr(wire, field), field, up=False)) if wire.HasField(field) else 0


def _span_after(wire: task_wire.TaskTemplate, field: str) -> int:
    """0 = not set."""
    if not wire.HasField(field):
        return 0
    duration: Duration = getattr(wire, field)
    span_ms = duration_ms(duration, field)
    if 1 <= span_ms <= HORIZON_MS:
        return span_ms
    raise Invalid(f"{field} is {_seconds(span_ms)}: give a millisecond to 100 years, or leave it out.", field)


def _on_demand(wire: task_wire.TaskTemplate) -> bool:
    if wire.on_demand and not 0 < _span_after(wire, "expire_after") <= MAX_ON_DEMAND_MS:
        raise Invalid(
            "A task on demand goes before those that wait in line, so it may be worth something for 10 minutes at "
            f"most: give an expire_after (a call: a timeout) of up to {MAX_ON_DEMAND_MS // 1000} s, or leave on_demand "
            "out.",
            "on_demand",
        )
    return wire.on_demand


def _kept_for(wire: task_wire.TaskTemplate) -> int:
    """0 = its result is not kept."""
    if not wire.HasField("keep_result"):
        return 0
    span_ms = duration_ms(wire.keep_result, "keep_result")
    if 1 <= span_ms <= MAX_KEEP_RESULT_MS:
        return span_ms
    raise Invalid(f"keep_result is {_seconds(span_ms)}: give a millisecond to 24 h, or leave it out.", "keep_result")


def _stall_timeout(wire: task_wire.TaskTemplate) -> int:
    """0 = an attempt may be silent."""
    if not wire.HasField("stall_timeout"):
        return 0
    span_ms, name = duration_ms(wire.stall_timeout, "stall_timeout"), "stall_timeout"
    if not MIN_STALL_TIMEOUT_MS <= span_ms <= MAX_ATTEMPT_TIMEOUT_MS:
        raise Invalid(f"stall_timeout is {_seconds(span_ms)}: give a second to 7 days, or leave it out.", name)
    if span_ms >= (timeout_ms := retry_of(wire.retry).attempt_timeout_ms):
        raise Invalid(
            f"stall_timeout ({_seconds(span_ms)}) is not shorter than attempt_timeout ({_seconds(timeout_ms)}), so no "
            "attempt could stall: give a shorter one, or a longer attempt_timeout.",
            name,
        )
    return span_ms


def _conflict(wire: int) -> Conflict:
    if wire == task_wire.CONFLICT_POLICY_UNSPECIFIED:
        return Conflict.REJECT
    try:
        return Conflict(wire)
    except ValueError:
        raise Invalid(
            f"on_conflict has no value {wire}: use KEEP (1), REPLACE (2) or REJECT (3).", "on_conflict"
        ) from None


def retry_of(wire: task_wire.RetryPolicy) -> RetryPolicy:
    """What is absent or 0 has its default."""
    if not wire.ByteSize():
        return _DEFAULTS
    attempts = wire.max_attempts or _DEFAULTS.max_attempts
    if attempts > MAX_ATTEMPTS:
        raise Invalid(f"max_attempts is {attempts}: give 1 to {MAX_ATTEMPTS:,}.", "retry.max_attempts")
    initial_ms = _span(wire, "initial_backoff", _DEFAULTS.initial_backoff_ms, 1, MAX_BACKOFF_MS)
    longest_ms = _span(wire, "max_backoff", max(initial_ms, _DEFAULTS.max_backoff_ms), 1, MAX_BACKOFF_MS)
    if longest_ms < initial_ms:
        raise Invalid(
            f"max_backoff ({_seconds(longest_ms)}) is shorter than initial_backoff ({_seconds(initial_ms)}): give at "
            "least as much.",
            "retry.max_backoff",
        )
    timeout_ms = _span(
        wire, "attempt_timeout", _DEFAULTS.attempt_timeout_ms, MIN_ATTEMPT_TIMEOUT_MS, MAX_ATTEMPT_TIMEOUT_MS
    )
    return RetryPolicy(attempts, initial_ms, _multiplier(wire.multiplier), longest_ms, _jitter(wire.jitter), timeout_ms)


def _span(wire: task_wire.RetryPolicy, name: str, default_ms: int, least_ms: int, most_ms: int) -> int:
    if not wire.HasField(name):
        return default_ms
    duration: Duration = getattr(wire, name)
    span_ms = duration_ms(duration, f"retry.{name}")
    if least_ms <= span_ms <= most_ms:
        return span_ms
    raise Invalid(
        f"{name} is {_seconds(span_ms)}: give {_seconds(least_ms)} to {most_ms // 86_400_000} days, or leave it out.",
        f"retry.{name}",
    )


def _multiplier(asked: float) -> float:
    if asked == 0:
        return _DEFAULTS.multiplier
    # Written so that NaN is refused too.
    if not 1 <= asked <= MAX_MULTIPLIER:
        raise Invalid(f"The multiplier is {asked}: give 1 to {MAX_MULTIPLIER:g}.", "retry.multiplier")
    return asked


def _jitter(asked: float) -> float:
    if asked == 0:
        return _DEFAULTS.jitter
    if asked < 0:
        return 0.0
    if not asked <= 1:
        raise Invalid(f"The jitter is {asked}: give 0 to 1, or a negative value for none.", "retry.jitter")
    return asked


def _seconds(span_ms: int) -> str:
    """As people say it."""
    return f"{span_ms / 1000:,.15g} s"
