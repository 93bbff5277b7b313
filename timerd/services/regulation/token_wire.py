"""What instances say to each other of tokens: values <-> messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from timerd.core.regulation import LimitedKey, LimitLabels, TokenAsk, TokenGrant, UnusedTokens
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.services.regulation.permit_wire import labels_in, limit_message


class DrawReply(NamedTuple):
    """Of who was asked for tokens: who the keeper is, empty where nobody is yet, and what it hands out."""

    keeper: str
    grant: TokenGrant | None = None


def draw_request(labels: LimitLabels, name: str, ask: TokenAsk) -> pb.DrawRequest:
    back = _back_message(ask.back)
    return pb.DrawRequest(limit=limit_message(labels), name=name, want=ask.want, hold_ms=ask.hold_ms, back=back)


def ask_in(message: pb.DrawRequest | pb.KeyDraw) -> TokenAsk:
    back = {each.bunch: each.tokens for each in message.back}
    return TokenAsk(message.want, message.hold_ms, back)


def draw_message(reply: DrawReply) -> pb.DrawResponse:
    return pb.DrawResponse(keeper=reply.keeper, grant=None if reply.grant is None else _message(reply.grant))


def draw_in(message: pb.DrawResponse) -> DrawReply:
    return DrawReply(message.keeper, _grant(message.grant) if message.HasField("grant") else None)


class KeysDrawReply(NamedTuple):
    """As DrawReply, of keys of a home."""

    keeper: str
    grants: Mapping[LimitedKey, TokenGrant] | None = None


def draw_keys_request(home: int, name: str, asks: Mapping[LimitedKey, TokenAsk]) -> pb.DrawKeysRequest:
    keys = [
        pb.KeyDraw(
            limit=limit_message(key.limit),
            limit_key=key.limit_key,
            want=ask.want,
            hold_ms=ask.hold_ms,
            back=_back_message(ask.back),
        )
        for key, ask in asks.items()
    ]
    return pb.DrawKeysRequest(home=home, name=name, keys=keys)


def asks_in(message: pb.DrawKeysRequest) -> dict[LimitedKey, TokenAsk]:
    return {LimitedKey(labels_in(each.limit), each.limit_key): ask_in(each) for each in message.keys}


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
    return pb.TokenGrant(tokens=grant.tokens, after_ms=grant.after_ms, again_ms=grant.again_ms, bunch=grant.bunch)


def _grant(message: pb.TokenGrant) -> TokenGrant:
    return TokenGrant(message.tokens, message.after_ms, message.again_ms, message.bunch)


def _back_message(back: UnusedTokens) -> list[pb.TokensBack]:
    return [pb.TokensBack(bunch=bunch, tokens=tokens) for bunch, tokens in back.items()]
