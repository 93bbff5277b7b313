"""What is told of a partition: each row counts once, as its latest holder ended it, and the loop is not held up where
there are millions.
"""

from __future__ import annotations

import threading

import pytest

from timerd.adapters.memory import MemoryStore
from timerd.core.partition.settled_index import Entries, SettledIndex
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import Control
from timerd.model.settle import Outcome, SettleRecord, settle_entries
from timerd.services.holding.settled_reads import INLINE_ENDINGS
from timerd.services.operating import partition_facts
from timerd.services.operating.partition_facts import partition_info
from timerd.testing.contracts.build import digest

HERE = Partition(0, 0, 0)


def record(token: int, sequence: int, rows: range, outcome: Outcome) -> SettleRecord:
    ended = [(RowKey(n, digest("row", n), 0), outcome) for n in rows]
    return SettleRecord(HERE, token, sequence, settle_entries(ended))


async def told(*records: SettleRecord) -> tuple[dict[str, int], int]:
    store = MemoryStore()
    await store.settle(records)
    info = await partition_info(store, HERE, counts_rows=False)
    return dict(info.ended), info.settle_records


async def test_of_two_holders_the_later_one_counts() -> None:
    first = [record(1, 1, range(10), Outcome.EXPIRED), record(1, 2, range(10, 20), Outcome.EXPIRED)]
    second = [record(2, 1, range(5, 15), Outcome.ACKED), record(2, 2, range(20, 30), Outcome.ACKED)]
    assert await told(*first, *second) == ({"expired": 10, "acked": 20}, 4)
    assert await told(*reversed(second), *first) == ({"expired": 10, "acked": 20}, 4)


@pytest.mark.parametrize(("endings", "is_here"), [(INLINE_ENDINGS, True), (INLINE_ENDINGS + 1, False)])
async def test_many_endings_are_counted_in_a_thread(
    endings: int, is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    count = partition_facts._ledger

    def watched(control: Control | None, records: list[SettleRecord]) -> object:
        threads.append(threading.current_thread())
        return count(control, records)

    monkeypatch.setattr(partition_facts, "_ledger", watched)
    assert await told(record(1, 1, range(endings), Outcome.ACKED)) == ({"acked": endings}, 1)
    assert [thread is threading.main_thread() for thread in threads] == [is_here]


async def test_what_a_holder_ended_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record by record, each with all before it, those of a full bucket took thirteen seconds."""
    compared: list[int] = []
    compare = SettledIndex.without_known

    def counted(index: SettledIndex, entries: Entries) -> Entries:
        compared.append(len(entries))
        return compare(index, entries)

    monkeypatch.setattr(SettledIndex, "without_known", counted)
    of_one = [record(1, n, range(100 * n, 100 * n + 100), Outcome.ACKED) for n in range(20)]
    assert await told(*of_one, record(2, 1, range(5), Outcome.ACKED)) == ({"acked": 2_000}, 21)
    assert compared == [5, 2_000]
