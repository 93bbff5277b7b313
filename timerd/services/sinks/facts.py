"""What a receiver is told of a task beside its payload, as a worker would be."""

from __future__ import annotations

from typing import NamedTuple

from timerd.core.dispatch import task_id_of
from timerd.core.taken import Taken
from timerd.model.identity import attempt_of, delivery_id_of, encode_id
from timerd.model.instants import shown


class ReceiverFacts(NamedTuple):
    """Texts, in the order in which they are written; `key` and `traceparent` are empty where the task has none.
    `delivery_id` is the same over all attempts."""

    delivery_id: str
    task_id: str
    namespace: str
    queue: str
    attempt: str
    fire_time: str
    fencing_scope: str
    fencing_token: str
    content_type: str
    key: str
    traceparent: str


def facts_of(taken: Taken, row: int, secret: bytes) -> ReceiverFacts:
    """`secret`: that of the ids."""
    rows, columns, partition = taken.rows, taken.rows.columns, taken.partition
    template, extra = rows.template_of(row), rows.extra_of(row)
    position_ms, version = int(columns["position_ms"][row]), int(columns["version"][row])
    return ReceiverFacts(
        delivery_id=encode_id(delivery_id_of(taken.digests[row], version)),
        task_id=encode_id(task_id_of(taken, row, position_ms, extra, secret).to_bytes()),
        namespace=template.namespace,
        queue=template.queue,
        attempt=str(attempt_of(version)),
        fire_time=shown(int(columns["fire_at_ms"][row])),
        fencing_scope=f"{partition.scope}.{partition.bucket_ms}.{partition.shard}",
        fencing_token=str(taken.token),
        content_type=template.content_type,
        key=extra.key,
        traceparent=template.traceparent,
    )
