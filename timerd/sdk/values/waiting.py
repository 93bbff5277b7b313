"""What a task waits for that is not sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from timerd.sdk.values.tasks import _WireEnum
from timerd.sdk.values.times import datetime_of_ms, ms_of_timestamp
from timerd.v1 import task_pb2


class WaitReason(_WireEnum):
    """A wait reason says what keeps a task from being sent.

    Attributes:
        UNSPECIFIED: a reason of a later server, which this release does not know.
        SLOT: a worker of its queue has to have a free slot, and what was due before goes first.
        PAUSED: its queue is PAUSED or STOPPED.
        RETRY: an attempt has failed, and the time of the next one has not come.
        LIMIT: a limit of its queue is reached, or a handler was throttled; `until` is when it lets the next task go.
        BREAKER: attempts of its queue fail; `until` is when one is tried.
        KEY: a task of the same ordering key comes before it: `task_id` names it.
        TARGET: the stream or the webhook of its queue fails or has asked for a pause; `until` is when one is tried.
        WORKER: no worker of its queue is connected.
    """

    UNSPECIFIED = 0
    SLOT = 1
    PAUSED = 2
    RETRY = 3
    LIMIT = 4
    BREAKER = 5
    KEY = 6
    TARGET = 7
    WORKER = 8


@dataclass(frozen=True, slots=True)
class WaitsFor:
    """This says what a task waits for.

    Args:
        reason: what kind of thing it is.
        until: the instant in UTC at which that is over; None where nobody knows.
        description: the same in a sentence.
        limit: the name of the limit; empty where it is the queue's own, or the reason is another one.
        task_id: the task of the same ordering key that it waits for; empty where that is not known.
        limit_key: the limit key of the task, where a limit or a share of that holds it back; else empty.
    """

    reason: WaitReason
    until: datetime | None
    description: str
    limit: str = ""
    task_id: str = ""
    limit_key: str = ""

    @classmethod
    def of(cls, message: task_pb2.Waiting) -> WaitsFor:
        """It says what the message `message` says."""
        until = datetime_of_ms(ms_of_timestamp(message.until)) if message.HasField("until") else None
        names = message.limit, message.task_id, message.limit_key
        return cls(WaitReason(message.reason), until, message.description, *names)
