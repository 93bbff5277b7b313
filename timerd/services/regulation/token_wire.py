"""What instances say to each other of tokens: values <-> messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from timerd.core.regulation import KeyAsk, LimitedKey, TokenGrant
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.services.regulation.permit_wire import labels_in, limit_message


class DrawReply(NamedTuple):
    """Of who was asked for tokens: who the keeper is, empty where nobody is yet, and what it hands out."""

    keeper: str
    grant: TokenGrant | None = None


def draw_message(reply: DrawReply) -> pb.DrawResponse:
    return pb.DrawResponse(keeper=reply.keeper, grant=None if reply.grant is None else _message(reply.grant))


def draw_in(message: pb.DrawResponse) -> DrawReply:
    return DrawReply(message.keeper, _grant(message.grant) if message.HasField("grant") else None)


class KeysDrawReply(NamedTuple):
    """As DrawReply, of keys of a home."""

    keeper: str
    grants: Mapping[LimitedKey, TokenGrant] | None = None


def draw_keys_request(home: int, name: str, asks: Mapping[LimitedKey, KeyAsk]) -> pb.DrawKeysRequest:
    keys = [
        pb.KeyDraw(limit=limit_message(key.limit), limit_key=key.limit_key, want=ask.want, hold_ms=ask.hold_ms)
        for key, ask in asks.items()
    ]
    return pb.DrawKeysRequest(home=home, name=name, keys=keys)


def asks_in(message: pb.DrawKeysRequest) -> dict[LimitedKey, KeyAsk]:
    return {LimitedKey(labels_in(each.limit), each.limit_key): KeyAsk(each.want, each.hold_ms) for each in message.keys}


def draw_keys_message(asks: Collection[LimitedKey], reply: KeysDrawReply) -> pb.DrawKeysResponse:
    response = pb.DrawKeysResponse(keeper=reply.keeper)
    if (grants := reply.grants) is not None:
        response.grants.CopyFrom(pb.TokenGrants(keys=[_message(grants[key]) for key in asks]))
    return response


def draw_keys_in(asks: Collection[LimitedKey], message: pb.DrawKeysResponse) -> KeysDrawReply:
    if not message.HasField("grants"):
        return KeysDrawReply(message.keeper)
    return KeysDrawReply(message.keeper, dict(zip(asks, map(_grant, message.grants.keys), strict=True)))


def _message(grant: TokenGrant) -> pb.TokenGrant:
    return pb.TokenGrant(tokens=grant.tokens, after_ms=grant.after_ms, again_ms=grant.again_ms)


def _grant(message: pb.TokenGrant) -> TokenGrant:
    return TokenGrant(message.tokens, message.after_ms, message.again_ms)
