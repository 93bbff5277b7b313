"""What the store says of one bucket: what the catalogue has, and of each shard the control row, and how its rows ended.

Of an open partition the control row counts what ended below `verified`, the settle records the rest. A full bucket has
millions of endings in thousands of records: they are counted in a thread, and each holder's at once, for the loop that
is asked fires as well.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence

from timerd.core.ledger import Ledger
from timerd.core.partition import SettledIndex
from timerd.model.partition import Partition
from timerd.model.registers import Control, control_key
from timerd.model.settle import SettleRecord, join_entries
from timerd.model.storage import BucketEntry
from timerd.ports import Store
from timerd.services.calls.replies import optional_timestamp
from timerd.services.holding.paging import count_rows
from timerd.services.holding.settled_reads import INLINE_ENDINGS
from timerd.v1 import operate_pb2 as pb


async def bucket_entry(store: Store, scope: int, bucket_ms: int) -> BucketEntry | None:
    entries = await store.catalogue(scope, bucket_ms, bucket_ms + 1)
    return entries[0] if entries else None


async def partition_info(store: Store, partition: Partition, *, counts_rows: bool) -> pb.PartitionInfo:
    stored = (await store.read([control_key(partition)]))[0]
    control = Control.from_bytes(stored) if stored is not None else None
    records = await store.settled(partition)
    count = sum(len(record.entries) for record in records)
    ledger = await asyncio.to_thread(_ledger, control, records) if count > INLINE_ENDINGS else _ledger(control, records)
    named = ledger.named()
    info = pb.PartitionInfo(
        scope=partition.scope,
        bucket_start_ms=partition.bucket_ms,
        shard=partition.shard,
        control=control_row(control) if control is not None else None,
        ended={name: count for name, count in named.items() if count and name not in ("inserted", "unexplained")},
        unexplained=ledger.unexplained if control is not None and control.finished else 0,
        settle_records=len(records),
    )
    if counts_rows:
        info.rows = (await count_rows(store, partition))[0]
    return info


def _ledger(control: Control | None, records: Sequence[SettleRecord]) -> Ledger:
    ledger = Ledger()
    if control is not None and control.finished:
        ledger.add_finished([control])
        return ledger
    verified_ms = control.verified_ms if control is not None else -(1 << 62)
    index = _index(records)
    ledger.add_open(index.counts() - index.counts_below(verified_ms))
    ledger.add_open(Counter(dict(control.counts if control is not None else ())))
    return ledger


def _index(records: Sequence[SettleRecord]) -> SettledIndex:
    """Of several records of one row the latest holder's counts (rule K4), and each ends a row once."""
    by_token: dict[int, list[SettleRecord]] = defaultdict(list)
    for record in records:
        by_token[record.token].append(record)
    index = SettledIndex()
    for token in sorted(by_token, reverse=True):
        index.load(index.without_known(join_entries([record.entries for record in by_token[token]])))
    return index


def control_row(control: Control) -> pb.ControlRow:
    return pb.ControlRow(
        fencing_token=control.token,
        holder=control.holder,
        address=control.address,
        incarnation=control.incarnation,
        successor=control.successor,
        closing_ms=control.closing_ms,
        verified_ms=control.verified_ms,
        finish_time=optional_timestamp(control.finished_at_ms),
        inserted=control.inserted,
    )
