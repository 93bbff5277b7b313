"""How a handler's end becomes the end of its delivery.

Returning acknowledges. Raising fails the attempt, and the trace travels with it, so that a dead letter explains itself.
"""

from __future__ import annotations

import traceback
from typing import NamedTuple

from timerd.sdk.times import Span, span_ms
from timerd.v1 import work_service_pb2 as pb

MAX_ERROR_BYTES = 16 * 1024
# What the field holds: 49 days.
_MAX_DELAY_MS = (1 << 32) - 1


class Reject(Exception):
    """Raise it where trying again is hopeless: the task becomes a dead letter at once."""


class Retry(Exception):
    """Raise it to be given the task again after `delay`; without one, by its retry policy."""

    def __init__(self, delay: Span | None = None, why: str = "") -> None:
        super().__init__(why or "the handler asked for another attempt")
        self.delay_ms = None if delay is None else min(span_ms(delay), _MAX_DELAY_MS)


class Verdict(NamedTuple):
    """Equal verdicts travel in one message."""

    action: pb.SettleAction
    delay_ms: int | None = None
    error: str = ""


ACK = Verdict(pb.SETTLE_ACTION_ACK)
# Not begun: somebody else gets it at once, and the attempt does not count.
RELEASE = Verdict(pb.SETTLE_ACTION_RELEASE)


def verdict_of(raised: BaseException) -> Verdict:
    if isinstance(raised, Reject):
        return Verdict(pb.SETTLE_ACTION_REJECT, None, clip(str(raised) or "rejected by the handler"))
    if isinstance(raised, Retry):
        return Verdict(pb.SETTLE_ACTION_NACK, raised.delay_ms, clip(str(raised)))
    return Verdict(pb.SETTLE_ACTION_NACK, None, clip("".join(traceback.format_exception(raised))))


def clip(text: str) -> str:
    """The end of a trace says more than its beginning. What cannot be written as UTF-8 would stop the whole stream."""
    return text.encode(errors="backslashreplace")[-MAX_ERROR_BYTES:].decode(errors="ignore")
