"""A Deliver message of some dozen rows that differ in what each task has of its own and in nothing else: what a queue
is sent that has thousands a second. The same bytes as `deliver_wire` makes.

Beside the rows' digests, which are at hand, most of an id and of a token is the same for all of them. So each is put
together from five pieces, in arrays; what is looked up or cut out row by row is lists, for which numpy takes longer.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from timerd.core.flights import delivery_ids
from timerd.core.taken import Taken
from timerd.model.identity import ACK_TOKEN_BYTES, ATTEMPT_MASK, FORMAT, MAC_BYTES, PREFIX_BYTES, TASK_ID_BYTES
from timerd.model.partition import TIME_SCOPE
from timerd.model.rows import FLAG_LATE
from timerd.services.work.few_delivered import add_template
from timerd.services.work.macs import cached_batch_mac, home_of, known_macs, mac_at
from timerd.v1 import work_service_pb2 as pb

# Beyond it lists take longer than arrays.
MOST_ROWS = 128
Columns = npt.NDArray[Any]
# As identity.TaskId.to_bytes and ack_token.TOKEN; what is the same for all rows in one piece.
_PLACE, _HOLDER = struct.Struct("<Qq"), struct.Struct(f"<IQ{MAC_BYTES}s")
_SCOPE = struct.Struct(">HQB")
_MAC = np.dtype(f"V{MAC_BYTES}")
_DIGEST = np.dtype("V16")
_TASK_ID = np.dtype(
    [("format", "u1"), ("position_ms", ">i8"), ("scope", f"V{_SCOPE.size}"), ("digest", _DIGEST), ("mac", _MAC)]
)
_TOKEN = np.dtype(
    [
        ("place", f"V{_PLACE.size}"),
        ("position_ms", "<i8"),
        ("digest", _DIGEST),
        ("version", "<u4"),
        ("holder", f"V{_HOLDER.size}"),
    ]
)


def is_plain(taken: Taken) -> bool:
    """All are at home where they are."""
    rows = taken.rows
    return (
        len(taken) <= MOST_ROWS and len(rows.templates) == 1 and not rows.extras and taken.partition.scope == TIME_SCOPE
    )


def plain_message(taken: Taken, attempt_timeout_ms: int, secret: bytes, now_ms: int) -> pb.WorkResponse:
    """Where `is_plain`."""
    response = pb.WorkResponse()
    out = response.deliver
    template, columns, arena = taken.rows.templates[0], taken.rows.columns, taken.rows.payloads
    out.queue = template.queue
    out.attempt_timeout_ms = attempt_timeout_ms
    add_template(out, template, taken)
    digests = np.frombuffer(b"".join(taken.digests), _DIGEST)
    out.task_ids = _task_ids(taken, digests, secret)
    out.delivery_ids = delivery_ids(taken)
    out.ack_tokens = _ack_tokens(taken, digests, secret)
    out.fire_at_ms.extend(columns["fire_at_ms"].tolist())
    tries = columns["version"] & ATTEMPT_MASK
    if tries.any():
        out.attempts.extend((tries + 1).tolist())
    offsets, lengths = columns["offset"].tolist(), columns["length"].tolist()
    out.payload_lengths.extend(lengths[:1] if lengths.count(lengths[0]) == len(lengths) else lengths)
    out.payloads = b"".join([arena[at : at + size] for at, size in zip(offsets, lengths, strict=True)])
    late = np.ones(len(taken), bool) if 0 < template.soft_expire_at_ms <= now_ms else columns["flags"] & FLAG_LATE
    if late.any():
        out.late.extend(np.flatnonzero(late).tolist())
    if template.traceparent:
        out.traceparents.extend([template.traceparent] * len(taken))
    return response


def _task_ids(taken: Taken, digests: Columns, secret: bytes) -> bytes:
    template, shard = taken.rows.templates[0], taken.partition.shard
    assert _TASK_ID.itemsize == TASK_ID_BYTES
    out = np.empty(len(digests), _TASK_ID)
    out["format"] = FORMAT
    out["position_ms"] = taken.rows.columns["position_ms"]
    out["scope"] = np.void(_SCOPE.pack(shard, template.scope, template.priority))
    out["digest"] = digests
    out["mac"] = np.frombuffer(b"".join(_macs(taken, secret)), _MAC)
    return out.tobytes()


def _macs(taken: Taken, secret: bytes) -> list[bytes]:
    template, partition = taken.rows.templates[0], taken.partition
    known = known_macs(secret, template.namespace, template.scope)
    here = home_of(b"", partition.bucket_ms, partition.shard, template.priority)[PREFIX_BYTES:]
    return [mac_at(known, digest[:PREFIX_BYTES] + here, secret, template) for digest in taken.digests]


def _ack_tokens(taken: Taken, digests: Columns, secret: bytes) -> bytes:
    partition, columns = taken.partition, taken.rows.columns
    mac = cached_batch_mac(secret, partition, taken.token)
    assert _TOKEN.itemsize == ACK_TOKEN_BYTES
    out = np.empty(len(digests), _TOKEN)
    out["place"] = np.void(_PLACE.pack(partition.scope, partition.bucket_ms))
    out["position_ms"] = columns["position_ms"]
    out["digest"] = digests
    out["version"] = columns["version"]
    out["holder"] = np.void(_HOLDER.pack(partition.shard, taken.token, mac))
    return out.tobytes()
