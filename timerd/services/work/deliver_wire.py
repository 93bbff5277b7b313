"""Due rows as Deliver messages: numpy columns in, packed bytes out, no Python object per task where that can be had.

A message stays below 1 MiB (or holds one task): larger ones cost more to copy than they save.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from timerd.core.dispatch import Assignment, delivery_ids, digest_column
from timerd.core.taken import Taken
from timerd.model.columns import Columns, pieces
from timerd.model.expiries import NEVER_MS, deadlines_ms, soft_expiries_ms
from timerd.model.identity import ATTEMPT_MASK, FORMAT, MAC_BYTES, TASK_ID_BYTES
from timerd.model.occurrences import Occurrence
from timerd.model.ordering import FENCE_BYTES, NO_FENCE, fence_of
from timerd.model.partition import BUCKET_MS
from timerd.model.rows import FLAG_LATE, RowGroup, gather
from timerd.model.task import NO_EXTRA, Extra, Template
from timerd.services.calls.progress import progress_message
from timerd.services.dispatch.tokens import ack_tokens
from timerd.services.work.few_delivered import add_template, few_message, is_few
from timerd.services.work.macs import HOME, known_macs, mac_at
from timerd.v1 import work_service_pb2 as pb

MESSAGE_BYTES = 1 << 20
# Ids, token, time, index and length of one task on the wire.
TASK_OVERHEAD_BYTES = 160
LABEL_OVERHEAD_BYTES = 12
# For fewer rows it costs more to tell which are alike than to look up each.
MANY_ROWS = 128
# As identity.TaskId.to_bytes, for many at once: prefix and item are the digest, which is at hand.
TASK_ID = np.dtype(
    [
        ("format", "u1"),
        ("position_ms", ">i8"),
        ("shard", ">u2"),
        ("scope", ">u8"),
        ("priority", "u1"),
        ("digest", "V16"),
        ("mac", f"V{MAC_BYTES}"),
    ]
)


def deliver_messages(assignment: Assignment, secret: bytes) -> Iterator[tuple[pb.WorkResponse, int]]:
    """The rows in order, cut into messages; with each about how many bytes it takes."""
    taken = assignment.taken
    lengths = _lengths(taken.rows)
    size_bytes = len(taken) * TASK_OVERHEAD_BYTES + int(lengths.sum(dtype=np.int64))
    if size_bytes <= MESSAGE_BYTES:
        yield _message(taken, assignment, secret), size_bytes
        return
    ends = np.cumsum(lengths.astype(np.int64) + TASK_OVERHEAD_BYTES)
    at = 0
    while at < len(taken):
        sent = int(ends[at - 1]) if at else 0
        stop = max(at + 1, int(np.searchsorted(ends, sent + MESSAGE_BYTES, side="right")))
        part = taken.part(slice(at, stop))
        yield _message(part, assignment, secret), int(ends[stop - 1]) - sent
        at = stop


def tokens_at(response: pb.WorkResponse) -> int:
    """Where the ack tokens begin in the bytes of a Deliver: behind the fields with lower numbers, their own tag and
    their length. Protobuf writes fields in the order of their numbers."""
    deliver = response.deliver
    before = pb.Deliver(
        queue=deliver.queue,
        templates=deliver.templates,
        template_index=deliver.template_index,
        task_ids=deliver.task_ids,
        delivery_ids=deliver.delivery_ids,
    )
    header = response.ByteSize() - deliver.ByteSize()
    return header + before.ByteSize() + 1 + _varint_bytes(len(deliver.ack_tokens))


def _varint_bytes(number: int) -> int:
    return -(-max(1, number.bit_length()) // 7)


def _lengths(rows: RowGroup) -> Columns:
    """Payloads, and with them what not all tasks have: a template, where it comes first, a trace, a key."""
    lengths = rows.columns["length"]
    if len(rows.templates) == 1 and not rows.extras:
        return lengths
    lengths = lengths.astype(np.int64)
    kinds, first, which = np.unique(rows.columns["template"], return_index=True, return_inverse=True)
    used = [rows.templates[kind] for kind in kinds.tolist()]
    lengths[first] += [_template_bytes(template) for template in used]
    lengths += np.array([len(template.traceparent) for template in used])[which]
    if rows.extras:
        notes = [_note_bytes(extra) for extra in rows.extras]
        lengths += [notes[at - 1] if at else 0 for at in rows.columns["extra"].tolist()]
    return lengths


def _note_bytes(extra: Extra) -> int:
    words = 4 * (len(extra.key) + len(extra.ordering_key))
    return words + len(extra.occurrence) + len(extra.progress) + (FENCE_BYTES if extra.ordering_key else 0)


def _template_bytes(template: Template) -> int:
    """At most four bytes a character."""
    words = sum(len(name) + len(value) for name, value in template.labels)
    return len(template.content_type) + 4 * words + LABEL_OVERHEAD_BYTES * len(template.labels)


def _message(taken: Taken, assignment: Assignment, secret: bytes) -> pb.WorkResponse:
    """Of the assignment, or of a part of it."""
    attempt_timeout_ms, now_ms = assignment.attempt_timeout_ms, assignment.sent_ms
    if is_few(taken):
        return few_message(taken, attempt_timeout_ms, secret, now_ms)
    response = pb.WorkResponse()
    out = response.deliver
    rows, columns = taken.rows, taken.rows.columns
    out.queue = rows.template_of(0).queue
    out.attempt_timeout_ms = attempt_timeout_ms
    used = _templates(out, taken)
    digests = digest_column(taken)
    out.task_ids = _task_ids(taken, digests, secret)
    out.delivery_ids = delivery_ids(taken)
    out.ack_tokens = ack_tokens(taken, secret, digests)
    out.fire_at_ms.extend(columns["fire_at_ms"].tolist())
    retries = columns["version"] & ATTEMPT_MASK
    if retries.any():
        out.attempts.extend((retries + 1).tolist())
    lengths = columns["length"]
    out.payload_lengths.extend(lengths[:1].tolist() if (lengths == lengths[0]).all() else lengths.tolist())
    out.payloads = gather(rows.payloads, columns["offset"], lengths)
    _mark_late(out, rows, now_ms)
    _tell_deadlines(out, rows, now_ms)
    _notes(out, taken, used)
    return response


def _templates(out: pb.Deliver, taken: Taken) -> list[Template]:
    """Adds what the tasks have in common; returns the rows' templates, without the others of the table."""
    rows = taken.rows
    kinds = [0] if len(rows.templates) == 1 else np.unique(rows.columns["template"]).tolist()
    used = [rows.templates[k] for k in kinds]
    places: dict[tuple[object, ...], int] = {}
    place_of: dict[int, int] = {}
    for kind, template in zip(kinds, used, strict=True):
        common = (
            *(template.labels, template.content_type, template.priority),
            *(template.keep_result_ms, template.stall_timeout_ms),
        )
        if common not in places:
            add_template(out, template, taken)
        place_of[kind] = places.setdefault(common, len(places))
    if len(places) > 1:
        out.template_index.extend([place_of[k] for k in rows.columns["template"].tolist()])
    return used


def _task_ids(taken: Taken, digests: Columns, secret: bytes) -> bytes:
    """44 bytes each. The id names the home, which a row that moved or was retried carries with it."""
    rows, columns = taken.rows, taken.rows.columns
    out = np.zeros(len(rows), TASK_ID)
    assert TASK_ID.itemsize == TASK_ID_BYTES
    first = rows.template_of(0)
    out["format"] = FORMAT
    out["position_ms"] = columns["position_ms"]
    out["shard"] = taken.partition.shard
    if rows.extras:
        _put_homes(out, rows)
    out["scope"] = first.scope
    out["priority"] = _priorities(rows)
    out["digest"] = digests.view("V16")
    _put_macs(out, digests["prefix"], columns["prefix"], first, secret)
    return out.tobytes()


def _put_homes(out: Columns, rows: RowGroup) -> None:
    """Of what is retried, which after the death of a worker is all that it had."""
    extras = [rows.extras[at - 1] if at else NO_EXTRA for at in rows.columns["extra"].tolist()]
    homes_ms = np.array([extra.home_position_ms for extra in extras])
    away = homes_ms >= 0
    out["position_ms"][away] = homes_ms[away]
    out["shard"][away] = np.array([extra.home_shard for extra in extras])[away]


def _priorities(rows: RowGroup) -> int | Columns:
    first = rows.template_of(0)
    if len(rows.templates) == 1:
        return first.priority
    kinds, which = np.unique(rows.columns["template"], return_inverse=True)
    return np.array([rows.templates[k].priority for k in kinds.tolist()], dtype="u1")[which]


def _put_macs(out: Columns, prefixes: Columns, numbers: Columns, template: Template, secret: bytes) -> None:
    """One MAC for each message, home and priority; of many rows those of one kind lie together. `numbers`: of each row
    the place of its prefix among those of the group, which are compared faster."""
    buckets = out["position_ms"] // BUCKET_MS
    firsts: Columns | slice = slice(None)
    which: Columns | slice = slice(None)
    if len(out) >= MANY_ROWS:
        is_first = np.ones(len(out), bool)
        is_first[1:] = _differs(numbers) | _differs(buckets) | _differs(out["shard"]) | _differs(out["priority"])
        firsts, which = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    kinds = np.empty(len(buckets[firsts]), HOME)
    kinds["prefix"], kinds["bucket"] = prefixes[firsts], buckets[firsts]
    kinds["shard"], kinds["priority"] = out["shard"][firsts], out["priority"][firsts]
    known = known_macs(secret, template.namespace, template.scope)
    macs = [mac_at(known, kind, secret, template) for kind in pieces(kinds.tobytes(), HOME.itemsize)]
    out["mac"] = np.frombuffer(b"".join(macs), out.dtype["mac"])[which]


def _differs(column: Columns) -> Columns:
    """(n - 1,): from the row before."""
    different: Columns = column[1:] != column[:-1]
    return different


def _mark_late(out: pb.Deliver, rows: RowGroup, now_ms: int) -> None:
    late = (rows.columns["flags"] & FLAG_LATE) != 0
    soft_ms = soft_expiries_ms(rows)
    if soft_ms is not None:
        late |= soft_ms <= now_ms
        out.soft_deadlines_ms.extend(_instants(soft_ms))
        out.sent_at_ms = now_ms
    if late.any():
        out.late.extend(np.flatnonzero(late).tolist())


def _tell_deadlines(out: pb.Deliver, rows: RowGroup, now_ms: int) -> None:
    ends_ms = deadlines_ms(rows)
    if ends_ms is not None:
        out.deadlines_ms.extend(_instants(ends_ms))
        out.sent_at_ms = now_ms


def _instants(instants_ms: Columns) -> list[int]:
    """As they travel: a single one where all are the same, and 0 for never."""
    each_ms: list[int] = np.where(instants_ms == NEVER_MS, 0, instants_ms).tolist()
    return each_ms[:1] if (instants_ms == instants_ms[0]).all() else each_ms


def _notes(out: pb.Deliver, taken: Taken, used: list[Template]) -> None:
    """What few tasks have: a trace, a key, an instant of a schedule."""
    rows = taken.rows
    if any(t.traceparent for t in used):
        out.traceparents.extend([rows.templates[k].traceparent for k in rows.columns["template"].tolist()])
    if not rows.extras:
        return
    extras = [rows.extra_of(row) for row in range(len(rows))]
    if any(extra.key for extra in extras):
        out.keys.extend([extra.key for extra in extras])
    if any(extra.progress for extra in extras):
        out.previous_progress.extend([progress_message(extra.progress) for extra in extras])
    if any(extra.ordering_key for extra in extras):
        out.ordering_keys.extend([extra.ordering_key for extra in extras])
        fences = [_fence(taken, n) if e.ordering_key else NO_FENCE for n, e in enumerate(extras)]
        out.order_fences = b"".join(fences)
    if any(extra.occurrence for extra in extras):
        out.occurrences.extend([_occurrence(extra.occurrence) for extra in extras])


def _fence(taken: Taken, row: int) -> bytes:
    """In a cluster the keeper of the key shard has numbered its starts."""
    started = taken.fences.get(taken.digests[row]) if taken.fences is not None else None
    return (started or fence_of(taken.rows, row)).to_bytes()


def _occurrence(text: str) -> pb.DeliveredOccurrence:
    """Empty: the task is of no schedule."""
    if not text:
        return pb.DeliveredOccurrence()
    said = Occurrence.from_text(text)
    return pb.DeliveredOccurrence(
        schedule_id=said.schedule_id,
        occurrence_id=bytes.fromhex(said.id),
        instant_ms=said.instant_ms,
        previous_instant_ms=said.previous_ms,
        reason=said.reason,  # type: ignore[arg-type]
        revision=said.revision,
        missed_before=said.missed,
    )
