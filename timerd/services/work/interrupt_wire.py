"""What a worker is told of deliveries on which the work is for nothing, as messages."""

from __future__ import annotations

from timerd.core.dispatch import InterruptReason
from timerd.v1 import work_service_pb2 as pb

_MESSAGES = {
    InterruptReason.CANCELLED: pb.INTERRUPT_REASON_CANCELLED,
    InterruptReason.EXPIRED: pb.INTERRUPT_REASON_EXPIRED,
    InterruptReason.LOST: pb.INTERRUPT_REASON_LOST,
}


def reason_message(reason: InterruptReason) -> pb.InterruptReason:
    return _MESSAGES[reason]


def interrupt_message(tokens: bytes, reason: InterruptReason) -> pb.Interrupt:
    """`tokens`: one after the other."""
    return pb.Interrupt(ack_tokens=tokens, reason=_MESSAGES[reason])
