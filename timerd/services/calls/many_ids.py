"""The ids of a batch as columns: a call names a thousand tasks of a few messages, which share their MACs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import numpy as np

from timerd.model.identity import FORMAT, TASK_ID_BYTES, TaskId, is_genuine
from timerd.model.partition import BUCKET_MS
from timerd.model.task_ids import ID, TaskIds

_TEXT_CHARS = -(-TASK_ID_BYTES * 4 // 3)
# Instead of the padding, which may stand at the end only; the byte that it adds is no part of the id.
_FILL = "A"


def all_genuine(secret: bytes, namespace: str, texts: Sequence[str]) -> TaskIds | None:
    """None: one of them at least is no id of this namespace, or written in another way."""
    if set(map(len, texts)) != {_TEXT_CHARS}:
        return None
    try:
        raw = base64.b64decode(_FILL.join([*texts, ""]), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    ids = TaskIds(np.frombuffer(raw, ID))
    if not (ids.columns["format"] == FORMAT).all():
        return None
    return ids if all(is_genuine(head, secret, namespace) for head in _heads(ids)) else None


def _heads(ids: TaskIds) -> list[TaskId]:
    """One of each message and bucket: the MAC is the same for all of its tasks."""
    heads = ids.columns.copy()
    heads["item"] = 0
    heads["position_ms"] = ids.positions_ms - ids.positions_ms % BUCKET_MS
    heads["fill"] = 0
    each = set(heads.view(f"V{ID.itemsize}").tolist())
    return list(TaskIds(np.frombuffer(b"".join(each), ID)))


def joined(parts: Sequence[Sequence[TaskId | None]]) -> Sequence[TaskId | None]:
    """Of one message. None where an id is not genuine."""
    if len(parts) == 1:
        return parts[0]
    columns = [part.columns for part in parts if isinstance(part, TaskIds)]
    if parts and len(columns) == len(parts):
        return TaskIds(np.frombuffer(b"".join([each.tobytes() for each in columns]), ID))
    return [task for part in parts for task in part]
