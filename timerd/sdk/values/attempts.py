"""What became of the attempts of a task."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from timerd.sdk.values.tasks import _WireEnum
from timerd.sdk.values.times import datetime_of_ms, ms_of_timestamp
from timerd.v1 import task_pb2


class AttemptEnd(_WireEnum):
    """An attempt end says how an attempt ended that was not acknowledged.

    Attributes:
        UNSPECIFIED: an end that only a later server knows.
        FAILED: its handler raised, or asked for another attempt.
        REJECTED: its handler said that the task is hopeless.
        TIMED_OUT: it took longer than the attempt timeout of its retry policy.
        LEASE_ENDED: its worker did not extend the lease.
        WORKER_LOST: its worker went away and did not come back in time.
        GIVEN_BACK: its worker stopped before it had begun.
        STALLED: its handler had said no progress for the stall timeout of the task.
    """

    UNSPECIFIED = 0
    FAILED = 1
    REJECTED = 2
    TIMED_OUT = 3
    LEASE_ENDED = 4
    WORKER_LOST = 5
    GIVEN_BACK = 6
    STALLED = 7


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt is one delivery of a task that was not acknowledged.

    Args:
        attempt: its number, 1 for the first. After a move and after a redrive the numbers begin anew.
        send_time: the instant in UTC at which it was sent; None where that is not known.
        end_time: the instant in UTC at which it ended.
        end: how it ended.
        error: what it failed with, in a line of up to 256 characters.
        worker: the name of its worker; empty where that is not known.
    """

    attempt: int
    send_time: datetime | None
    end_time: datetime
    end: AttemptEnd
    error: str
    worker: str

    @classmethod
    def of(cls, message: task_pb2.Attempt) -> Attempt:
        """It says what the message `message` says."""
        send_time = datetime_of_ms(ms_of_timestamp(message.send_time)) if message.HasField("send_time") else None
        end_time = datetime_of_ms(ms_of_timestamp(message.end_time))
        return cls(message.attempt, send_time, end_time, AttemptEnd(message.end), message.error, message.worker)
