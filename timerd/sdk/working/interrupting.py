"""How a call ends whose deliveries were interrupted."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic

from timerd.sdk.values import Interrupted, InterruptReason
from timerd.sdk.working.dispositions import Disposition, disposition_of
from timerd.sdk.working.leases import Hold
from timerd.sdk.working.processes import ProcessDied
from timerd.sdk.working.time_limits import TimedCall
from timerd.v1 import work_service_pb2 as pb

log = logging.getLogger("timerd.worker")
_CANCELLED = "Interrupted: the task was cancelled while its handler had it."
_EXPIRED = "Interrupted: the task expired while its handler had it."
# Of one that is lost nothing is said: somebody else has it.
_ENDS = {
    InterruptReason.CANCELLED: Disposition(pb.SETTLE_ACTION_NACK, None, _CANCELLED),
    InterruptReason.EXPIRED: Disposition(pb.SETTLE_ACTION_NACK, None, _EXPIRED),
}
# Token and what is said of it.
Said = tuple[Disposition, bytes]


def ends_by_interrupt(call: TimedCall, raised: BaseException) -> bool:
    """Whether the handler has raised what an interrupt makes it raise."""
    ended = asyncio.CancelledError, ProcessDied
    return isinstance(raised, Interrupted) or (call.is_interrupted and isinstance(raised, ended))


def said_of_interrupted(holds: list[Hold], raised: BaseException) -> list[Said]:
    """For each delivery by its own reason; one that nobody had interrupted has failed."""
    said: list[Said] = []
    for hold in holds:
        for token, reason in zip(hold.each_token(), hold.reasons(), strict=True):
            if reason is None:
                said.append((disposition_of(raised), token))
            elif reason in _ENDS:
                said.append((_ENDS[reason], token))
    return said


def end_by_time(call: TimedCall) -> None:
    """A plain handler whose time is over goes on, and may look."""
    for hold in call.holds:
        is_expired = hold.batch.deadline_s(hold.start, hold.stop) <= monotonic()
        hold.interrupt(InterruptReason.EXPIRED if is_expired else InterruptReason.LOST)
