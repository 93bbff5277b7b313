"""What a handler was told to wait: from the wire, checked in full, and back."""

from __future__ import annotations

from typing import Protocol

from timerd.core.dispatch import Action
from timerd.model.errors import Invalid
from timerd.model.pushback import MOST_AFTER_MS, Pushback
from timerd.services.calls.due_times import duration_ms
from timerd.services.calls.replies import duration
from timerd.v1 import work_service_pb2 as wire

_NAME_CHARS = 128


class MaySayThrottle(Protocol):
    """A message with `throttle`."""

    @property
    def throttle(self) -> wire.Throttle: ...

    def HasField(self, field_name: str, /) -> bool: ...


def throttle_of(said: MaySayThrottle, action: Action, field: str) -> Pushback | None:
    """None: nothing was throttled. Raises Invalid."""
    if not said.HasField("throttle"):
        return None
    throttle = said.throttle
    if action is not Action.NACK:
        raise Invalid(f"{field} goes with NACK, and the action is {action.name}: leave it out, or say NACK.", field)
    if len(throttle.limit) > _NAME_CHARS:
        raise Invalid(f"{field}.limit is no name of a limit: these have up to {_NAME_CHARS} characters.", field)
    after_ms = duration_ms(throttle.after, f"{field}.after") if throttle.HasField("after") else 0
    if not 1 <= after_ms <= MOST_AFTER_MS:
        raise Invalid(
            f"{field}.after is {after_ms:,} ms: give a millisecond to an hour ({MOST_AFTER_MS:,} ms).", f"{field}.after"
        )
    if throttle.by_key and throttle.limit:
        raise Invalid(
            f"{field}.by_key holds the limit key of the task in its queue, and the limit {throttle.limit!r} is of all "
            "that list it: name the limit, or say by_key.",
            f"{field}.by_key",
        )
    return Pushback(throttle.limit, after_ms, throttle.by_key)


def throttle_message(throttle: Pushback | None) -> wire.Throttle | None:
    if throttle is None:
        return None
    return wire.Throttle(limit=throttle.limit, after=duration(throttle.after_ms), by_key=throttle.by_key)
