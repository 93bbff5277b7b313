"""A Deliver message of few rows, which is most of them where tasks fall due one by one: the same bytes as
`deliver_wire` makes, without numpy, whose two dozen calls cost as much for one row as for a hundred.
"""

from __future__ import annotations

from timerd.core.taken import Taken
from timerd.model.ack_token import AckToken, marked, token_with
from timerd.model.identity import PREFIX_BYTES, RowKey, TaskId, attempt_of, delivery_id_of
from timerd.model.rows import FLAG_LATE
from timerd.model.task import Template
from timerd.services.dispatch.tokens import cached_batch_mac
from timerd.services.work.macs import home_of, known_macs, mac_at
from timerd.v1 import work_service_pb2 as pb

# Beyond it numpy is cheaper.
MOST_ROWS = 8


def is_few(taken: Taken) -> bool:
    """And nothing is told of one that is not told of all."""
    rows = taken.rows
    return len(taken) <= MOST_ROWS and len(rows.templates) == 1 and not rows.extras


def few_message(taken: Taken, attempt_timeout_ms: int, secret: bytes, now_ms: int) -> pb.WorkResponse:
    """Where `is_few`."""
    response = pb.WorkResponse()
    out = response.deliver
    template, arena = taken.rows.templates[0], taken.rows.payloads
    out.queue = template.queue
    out.attempt_timeout_ms = attempt_timeout_ms
    add_template(out, template, taken)
    # Column by column: position_ms, fire_at_ms, prefix, index, version, template, extra, offset, length, flags.
    places_ms, fire_at_ms, _, items, versions, _, _, offsets, lengths, flags = zip(
        *taken.rows.columns.tolist(), strict=True
    )
    keys = [RowKey(*each) for each in zip(places_ms, taken.digests, versions, strict=True)]
    out.task_ids = b"".join(_task_ids(taken, keys, items, secret))
    out.delivery_ids = b"".join([delivery_id_of(key.digest, key.version) for key in keys])
    partition, holder, sending = taken.partition, taken.token, taken.sending
    mac = cached_batch_mac(secret, template.namespace, partition, marked(holder, sending))
    out.ack_tokens = b"".join([token_with(mac, AckToken(partition, key, holder, sending)) for key in keys])
    out.fire_at_ms.extend(fire_at_ms)
    attempts = [attempt_of(version) for version in versions]
    if max(attempts) > 1:
        out.attempts.extend(attempts)
    out.payload_lengths.extend(lengths[:1] if len(set(lengths)) == 1 else lengths)
    out.payloads = b"".join([arena[at : at + size] for at, size in zip(offsets, lengths, strict=True)])
    late = [row for row, flag in enumerate(flags) if flag & FLAG_LATE]
    if template.has_deadline:
        late = sorted({*late, *_tell_deadlines(out, template, fire_at_ms, now_ms)})
    out.late.extend(late)
    if template.traceparent:
        out.traceparents.extend([template.traceparent] * len(keys))
    return response


def _tell_deadlines(out: pb.Deliver, template: Template, fire_at_ms: tuple[int, ...], now_ms: int) -> set[int]:
    """Returns the rows that are late by them."""
    out.sent_at_ms = now_ms
    soft_ms = list(map(template.soft_expiry_ms, fire_at_ms))
    out.deadlines_ms.extend(_instants(list(map(template.deadline_ms, fire_at_ms))))
    out.soft_deadlines_ms.extend(_instants(soft_ms))
    return {row for row, at_ms in enumerate(soft_ms) if 0 < at_ms <= now_ms}


def _instants(each_ms: list[int]) -> list[int]:
    """As they travel: none where no row has one, a single one where all are the same."""
    if len(set(each_ms)) > 1:
        return each_ms
    return each_ms[:1] if each_ms[0] else []


def _task_ids(taken: Taken, keys: list[RowKey], items: tuple[int, ...], secret: bytes) -> list[bytes]:
    template, shard = taken.rows.templates[0], taken.partition.shard
    known = known_macs(secret, template.namespace, template.scope)
    ids: list[bytes] = []
    for key, item in zip(keys, items, strict=True):
        prefix = key.digest[:PREFIX_BYTES]
        mac = mac_at(known, home_of(prefix, key.position_ms, shard, template.priority), secret, template)
        task = TaskId(key.position_ms, shard, template.scope, template.priority, prefix, item, mac)
        ids.append(task.to_bytes())
    return ids


def add_template(out: pb.Deliver, template: Template, taken: Taken) -> None:
    """What the tasks have in common."""
    partition = taken.partition
    out.templates.add(
        labels=dict(template.labels),
        content_type=template.content_type,
        priority=template.priority,
        fencing_scope=f"{partition.scope}.{partition.bucket_ms}.{partition.shard}",
        fencing_token=taken.token,
        keep_result_ms=template.keep_result_ms,
        stall_timeout_ms=template.stall_timeout_ms,
    )
