"""Due rows made by hand, and the ack tokens of them."""

from __future__ import annotations

import numpy as np

from timerd.core.dispatch.delivery_machine import Assignment
from timerd.core.taken import QueueKey, Taken
from timerd.model.identity import RowKey, delivery_id_of
from timerd.model.partition import Partition, bucket_of
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template
from timerd.services.work.deliver_wire import deliver_messages
from timerd.v1 import work_service_pb2 as pb

SECRET = b"a secret of sixteen"
NOW_MS = 1_800_000_000_000
QUEUE = QueueKey("default", "mail")
PLAIN = Template("default", "mail")


def taken_of(
    indexes: range | list[int],
    template: Template = PLAIN,
    *,
    position_ms: int = NOW_MS,
    version: int = 0,
    payload: bytes = b"payload",
    token: int = 7,
    prefix: bytes = b"prefix-of-it",
) -> Taken:
    """One row for each index, all with the same payload."""
    columns = np.zeros(len(indexes), ROW)
    columns["index"] = indexes
    columns["position_ms"] = columns["fire_at_ms"] = position_ms
    columns["version"] = version
    columns["length"] = len(payload)
    columns["offset"] = np.arange(len(indexes)) * len(payload)
    rows = RowGroup(columns, np.frombuffer(prefix, PREFIX), [template], payload * len(indexes), [])
    return Taken.of(Partition(0, bucket_of(position_ms), 0), token, rows)


def deliver_of(taken: Taken, now_ms: int = NOW_MS) -> pb.Deliver:
    """The one message that it makes."""
    timeout_ms = taken.rows.template_of(0).retry.attempt_timeout_ms
    [(message, _)] = deliver_messages(Assignment(1, taken, timeout_ms, now_ms), SECRET)
    return message.deliver


def tokens_of(taken: Taken) -> bytes:
    return deliver_of(taken).ack_tokens


def ids_of(taken: Taken) -> list[bytes]:
    return [delivery_id_of(k.digest, k.version) for k in keys_of(taken)]


def keys_of(taken: Taken) -> list[RowKey]:
    return taken.rows.keys()
