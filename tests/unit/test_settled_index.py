"""One row is looked up in whole numbers, many by columns: both must find the same."""

from __future__ import annotations

from timerd.core.partition.settled_index import SettledIndex
from timerd.model.identity import RowKey
from timerd.model.rows import concat, empty_group, single_row
from timerd.model.settle import Outcome, settle_entries
from timerd.model.task import NO_EXTRA, Template

POSITION_MS = 1_800_000_000_000
# What the hash multiplies positions by: a key whose digest is smaller by it, a millisecond later, has the same hash.
STRIDE = 0xC2B2AE3D27D4EB4F


def key(number: int, position_ms: int = POSITION_MS, version: int = 0) -> RowKey:
    return RowKey(position_ms, (number % (1 << 64)).to_bytes(8, "big") + b"same" + number.to_bytes(4, "big"), version)


def same_hash(of: RowKey) -> RowKey:
    head = (int.from_bytes(of.digest[:8], "big") - STRIDE) % (1 << 64)
    return RowKey(of.position_ms + 1, head.to_bytes(8, "big") + of.digest[8:], of.version)


def index_of(*endings: tuple[RowKey, Outcome]) -> SettledIndex:
    index = SettledIndex()
    index.load(settle_entries(list(endings)))
    return index


def test_what_was_loaded_is_found_by_its_whole_key() -> None:
    known = key(7, version=3)
    index = index_of((known, Outcome.ACKED), (key(9), Outcome.DEAD))
    assert index.get(known) is Outcome.ACKED
    assert index.get(key(9)) is Outcome.DEAD
    assert index.get(key(8)) is None
    assert index.get(known._replace(version=4)) is None
    assert index.get(known._replace(position_ms=POSITION_MS + 1)) is None


def test_rows_of_equal_hash_are_told_apart() -> None:
    first = key(11)
    second = same_hash(first)
    third = same_hash(second)
    index = index_of((first, Outcome.ACKED), (third, Outcome.EXPIRED))
    assert index.get(first) is Outcome.ACKED
    assert index.get(second) is None
    assert index.get(third) is Outcome.EXPIRED


def test_rows_are_known_whether_a_record_spans_all_of_them_or_some_or_none() -> None:
    """Asked for together they are found as each by itself."""
    index = SettledIndex()
    for spans in ((0, 100), (0, 10), (40, 60), (100, 300), (200, 300)):
        ended = [key(n, POSITION_MS + n) for n in spans] + [key(sum(spans), POSITION_MS + sum(spans) // 2)]
        index.load(settle_entries([(each, Outcome.ACKED) for each in ended]))
    for positions in ([20, 50, 100], range(301), [5], [400, 500], []):
        groups = [single_row(key(n, POSITION_MS + n), 0, Template("n", "q"), b"", NO_EXTRA, 0) for n in positions]
        together = index.known(concat(groups) if groups else empty_group()).tolist()
        assert together == [index.get(key(n, POSITION_MS + n)) is not None for n in positions]
