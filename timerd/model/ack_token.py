"""What a worker acknowledges with: the current row, the token of its holder, which sending of it, a MAC. Opaque to
callers, 64 bytes.

Valid on any stream of its namespace to any instance, also after the stream, the server or the lease is gone.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from timerd.model.columns import pieces
from timerd.model.identity import (
    ACK_TOKEN_BYTES,
    ATTEMPT_BITS,
    DELIVERY_ID_BYTES,
    MAC_BYTES,
    RowKey,
    delivery_id_of,
    short_id,
)
from timerd.model.partition import Partition

# Little-endian, so that a batch of tokens is one structured array.
TOKEN = np.dtype(
    [
        ("scope", "<u8"),
        ("bucket_ms", "<i8"),
        ("position_ms", "<i8"),
        ("digest", "V16"),
        ("version", "<u4"),
        ("shard", "<u4"),
        ("fencing_token", "<u8"),
        ("mac", f"V{MAC_BYTES}"),
    ]
)
_TOKEN = struct.Struct("<Qqq16sIIQ8s")
# For so many numpy takes as long as for a hundred.
_FEW = 8
# Position, digest and version of one token; the MAC is of the rest.
_KEY = slice(16, 44)


# The number of the sending stands above the holder's token, which is a number of seconds: so it is sealed as well.
_SENDING_SHIFT = 48
_HOLDER = (1 << _SENDING_SHIFT) - 1
MOST_SENDINGS = (1 << 16) - 1


class AckToken(NamedTuple):
    """`sending`: 0, or a number of the deliveries of an attempt that had been given back unbegun."""

    partition: Partition
    key: RowKey
    fencing_token: int
    sending: int = 0


class NamedDelivery(NamedTuple):
    """Which of the deliveries of a task a token names."""

    version: int
    fencing_token: int
    number: int


def marked(fencing_token: int, sending: int) -> int:
    """Holder and number of the sending as they stand in a token."""
    return fencing_token | sending << _SENDING_SHIFT


def _mark_of(token: AckToken) -> int:
    return marked(token.fencing_token, token.sending)


@lru_cache(maxsize=1024)
def batch_mac(secret: bytes, namespace: str, partition: Partition, mark: int) -> bytes:
    """The same for all deliveries of one namespace and holder of one partition, so that a batch costs one: it shows
    that a token is from a delivery of then, not from which one. A worker that has such a token and knows the id of
    another task of the namespace can settle it. `mark`: see `marked`."""
    text = b"%b\0%d.%d.%d.%d" % (namespace.encode(), *partition, mark)
    return blake2b(text, digest_size=MAC_BYTES, key=secret, person=b"timerd.ack").digest()


def parse_token(raw: bytes | memoryview) -> AckToken:
    """Of ACK_TOKEN_BYTES bytes; whether it is genuine says `is_genuine_token`."""
    scope, bucket_ms, position_ms, digest, version, shard, mark, _mac = _TOKEN.unpack(raw)
    key = RowKey(position_ms, digest, version)
    return AckToken(Partition(scope, bucket_ms, shard), key, mark & _HOLDER, mark >> _SENDING_SHIFT)


def token_bytes(secret: bytes, namespace: str, token: AckToken) -> bytes:
    """As it is sent."""
    return token_with(batch_mac(secret, namespace, token.partition, _mark_of(token)), token)


def token_with(mac: bytes, token: AckToken) -> bytes:
    """With the MAC of its batch."""
    scope, bucket_ms, shard = token.partition
    return _TOKEN.pack(scope, bucket_ms, *token.key, shard, _mark_of(token), mac)


def is_genuine_token(raw: bytes | memoryview, secret: bytes, namespace: str) -> bool:
    """Whether it was made with the secret, for a worker of the namespace."""
    token = parse_token(raw)
    mac = batch_mac(secret, namespace, token.partition, _mark_of(token))
    return bytes(raw[ACK_TOKEN_BYTES - MAC_BYTES :]) == mac


def forged_among(tokens: bytes, secret: bytes, namespace: str) -> list[int]:
    """Which of several were not made with the secret, or for another namespace. Those of one holder differ only in
    their keys."""
    raw = np.frombuffer(tokens, np.uint8).reshape(-1, ACK_TOKEN_BYTES)
    if (raw[:, : _KEY.start] == raw[0, : _KEY.start]).all() and (raw[:, _KEY.stop :] == raw[0, _KEY.stop :]).all():
        return [] if is_genuine_token(token_at(tokens, 0), secret, namespace) else list(range(len(raw)))
    return [at for at in range(len(raw)) if not is_genuine_token(token_at(tokens, at), secret, namespace)]


def token_at(tokens: bytes, at: int) -> bytes:
    """One of several, which lie one after the other."""
    return bytes(tokens[at * ACK_TOKEN_BYTES : (at + 1) * ACK_TOKEN_BYTES])


def delivery_ids_of(tokens: bytes, secret: bytes, namespace: str) -> list[bytes]:
    """The delivery id in each token; empty where it is not genuine."""
    if len(tokens) <= _FEW * ACK_TOKEN_BYTES:
        return [_delivery_id(token_at(tokens, at), secret, namespace) for at in range(len(tokens) // ACK_TOKEN_BYTES)]
    columns = np.frombuffer(tokens, TOKEN)
    out = np.empty(len(columns), [("digest", "V16"), ("generation", ">u4")])
    out["digest"] = columns["digest"]
    out["generation"] = columns["version"] >> ATTEMPT_BITS
    ids = pieces(out.tobytes(), DELIVERY_ID_BYTES)
    for at in forged_among(tokens, secret, namespace) if ids else ():
        ids[at] = b""
    return ids


def short_ids_of(tokens: bytes, secret: bytes, namespace: str) -> list[bytes]:
    """As `delivery_ids_of`, short ones: mostly they lie in the tokens as they are."""
    if len(tokens) > _FEW * ACK_TOKEN_BYTES:
        columns = np.frombuffer(tokens, TOKEN)
        if int(columns["version"].max()) < 1 << ATTEMPT_BITS and not forged_among(tokens, secret, namespace):
            digests: list[bytes] = columns["digest"].tolist()
            return digests
    return list(map(short_id, delivery_ids_of(tokens, secret, namespace)))


def _delivery_id(raw: bytes, secret: bytes, namespace: str) -> bytes:
    scope, bucket_ms, _, digest, version, shard, mark, mac = _TOKEN.unpack(raw)
    is_genuine = mac == batch_mac(secret, namespace, Partition(scope, bucket_ms, shard), mark)
    return delivery_id_of(digest, version) if is_genuine else b""


def named_in(tokens: bytes, secret: bytes, namespace: str) -> list[tuple[bytes, NamedDelivery]]:
    """(delivery id, which delivery) in each token; no id where it is not genuine."""
    columns = np.frombuffer(tokens, TOKEN)
    marks = columns["fencing_token"]
    sendings, holders = (marks >> np.uint64(_SENDING_SHIFT)).tolist(), (marks & np.uint64(_HOLDER)).tolist()
    named = map(NamedDelivery, columns["version"].tolist(), holders, sendings)
    return list(zip(delivery_ids_of(tokens, secret, namespace), named, strict=True))
