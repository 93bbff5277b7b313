"""What instances say to each other of tokens: values <-> messages."""

from __future__ import annotations

from typing import NamedTuple

from timerd.core.regulation import TokenGrant
from timerd.peer.v1 import regulation_peer_pb2 as pb


class DrawReply(NamedTuple):
    """Of who was asked for tokens: who the keeper is, empty where nobody is yet, and what it hands out."""

    keeper: str
    grant: TokenGrant | None = None


def draw_message(reply: DrawReply) -> pb.DrawResponse:
    response = pb.DrawResponse(keeper=reply.keeper)
    if (grant := reply.grant) is not None:
        response.grant.CopyFrom(pb.TokenGrant(tokens=grant.tokens, after_ms=grant.after_ms, again_ms=grant.again_ms))
    return response


def draw_in(message: pb.DrawResponse) -> DrawReply:
    told = message.grant
    grant = TokenGrant(told.tokens, told.after_ms, told.again_ms) if message.HasField("grant") else None
    return DrawReply(message.keeper, grant)
