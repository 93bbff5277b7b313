"""What instances say to each other of the permits of limit keys: values <-> messages."""

from __future__ import annotations

from timerd.core.regulation import KeysGrant, KeysStated, KeyStated, LimitedKey
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.services.regulation.permit_wire import LoanReply, labels_in, limit_message


def keys_message(said: KeysStated) -> pb.KeysStatement:
    keys = [
        pb.KeyStatement(
            limit=limit_message(key.limit),
            limit_key=key.limit_key,
            permits=one.permits,
            moved=one.moved,
            want=one.want,
        )
        for key, one in said.keys.items()
    ]
    return pb.KeysStatement(sequence=said.seq, round=said.round, lease_ms=said.lease_ms, whole=said.is_whole, keys=keys)


def keys_in(message: pb.KeysStatement) -> KeysStated:
    keys = {
        LimitedKey(labels_in(one.limit), one.limit_key): KeyStated(one.permits, one.moved, one.want)
        for one in message.keys
    }
    return KeysStated(message.sequence, message.round, message.lease_ms, message.whole, keys)


def keys_reply_message(reply: LoanReply[KeysGrant]) -> pb.BorrowKeysResponse:
    response = pb.BorrowKeysResponse(keeper=reply.keeper, token=reply.token)
    if (grant := reply.grant) is not None:
        response.grant.CopyFrom(pb.KeysGrant(round=grant.round, lease_ms=grant.lease_ms))
        for key in {**grant.permits, **grant.most}:
            response.grant.keys.append(
                pb.KeyGrant(
                    limit=limit_message(key.limit),
                    limit_key=key.limit_key,
                    permits=grant.permits.get(key, 0),
                    most=grant.most.get(key),
                )
            )
    return response


def keys_reply_in(message: pb.BorrowKeysResponse) -> LoanReply[KeysGrant]:
    granted = message.grant
    each = [(LimitedKey(labels_in(one.limit), one.limit_key), one) for one in granted.keys]
    permits = {key: one.permits for key, one in each if one.permits}
    most = {key: one.most for key, one in each if one.HasField("most")}
    grant = KeysGrant(permits, most, granted.round, granted.lease_ms) if message.HasField("grant") else None
    return LoanReply(message.keeper, message.token, grant)
