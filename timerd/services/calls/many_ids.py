"""The ids of a batch as columns: a call names a thousand tasks of a few messages, which share their MACs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import numpy as np

from timerd.model.identity import FORMAT, MAC_BYTES, PREFIX_BYTES, TASK_ID_BYTES, TaskId, is_genuine
from timerd.model.partition import bucket_of

_TEXT_CHARS = -(-TASK_ID_BYTES * 4 // 3)
# Instead of the padding, which may stand at the end only; the byte that it adds is no part of the id.
_FILL = "A"
_ID = np.dtype(
    [
        ("format", "u1"),
        ("position_ms", ">i8"),
        ("shard", ">u2"),
        ("scope", ">u8"),
        ("priority", "u1"),
        ("prefix", f"V{PREFIX_BYTES}"),
        ("item", ">u4"),
        ("mac", f"V{MAC_BYTES}"),
        ("fill", "u1"),
    ]
)
_FIELDS = TaskId._fields


def all_genuine(secret: bytes, namespace: str, texts: Sequence[str]) -> list[TaskId] | None:
    """None: one of them at least is no id of this namespace, or written in another way."""
    if set(map(len, texts)) != {_TEXT_CHARS}:
        return None
    try:
        raw = base64.b64decode(_FILL.join([*texts, ""]), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    ids = np.frombuffer(raw, _ID)
    if not (ids["format"] == FORMAT).all():
        return None
    columns = {name: ids[name].tolist() for name in _FIELDS}
    # The MAC is the same for all tasks of a message in one bucket.
    columns["item"], items = [0] * len(ids), columns["item"]
    columns["position_ms"], positions_ms = list(map(bucket_of, columns["position_ms"])), columns["position_ms"]
    heads = set(zip(*columns.values(), strict=True))
    if not all(is_genuine(TaskId(*head), secret, namespace) for head in heads):
        return None
    columns |= {"item": items, "position_ms": positions_ms}
    return list(map(TaskId._make, zip(*columns.values(), strict=True)))
