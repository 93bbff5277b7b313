"""What instances say to each other of permits: values <-> messages."""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, TypeVar

from timerd.core.regulation import Grant, LimitLabels, Stated
from timerd.peer.v1 import regulation_peer_pb2 as pb

# More than any limit allows.
_ANY = 1 << 40


AnyGrant = TypeVar("AnyGrant")


class LoanReply(NamedTuple, Generic[AnyGrant]):
    """Of who was asked for permits: who the keeper is, empty where nobody is yet, and what it grants."""

    keeper: str = ""
    token: int = 0
    grant: AnyGrant | None = None


def limit_message(labels: LimitLabels) -> pb.LentLimit:
    return pb.LentLimit(namespace=labels.namespace, queue=labels.queue, name=labels.limit)


def labels_in(message: pb.LentLimit) -> LimitLabels:
    return LimitLabels(message.namespace, message.queue, message.name)


def statement_message(said: Stated) -> pb.Statement:
    return pb.Statement(
        sequence=said.seq,
        round=said.round,
        permits=said.permits,
        moved=said.moved,
        lease_ms=said.lease_ms,
        want=said.want,
    )


def statement_in(message: pb.Statement) -> Stated:
    return Stated(message.sequence, message.round, message.permits, message.moved, message.lease_ms, message.want)


def reply_message(reply: LoanReply[Grant]) -> pb.BorrowResponse:
    response = pb.BorrowResponse(keeper=reply.keeper, token=reply.token)
    if (grant := reply.grant) is not None:
        most = _ANY if grant.most == math.inf else int(grant.most)
        response.grant.CopyFrom(pb.Grant(permits=grant.permits, most=most, round=grant.round, lease_ms=grant.lease_ms))
    return response


def reply_in(message: pb.BorrowResponse) -> LoanReply[Grant]:
    granted = message.grant
    grant = Grant(granted.permits, granted.most, granted.round, granted.lease_ms) if message.HasField("grant") else None
    return LoanReply(message.keeper, message.token, grant)
