"""What is left in the store when memory is short comes back whole: nothing lost, nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.unit.partition_rig import HERE, QUEUE, START_MS, key, rows
from tests.unit.tight_memory import Tight
from timerd.core.gates import DueBatch, End, judge
from timerd.core.partition.memory import Memory
from timerd.core.partition.reload import Reload, put_together
from timerd.core.partition.rows_in_hand import RowsInHand
from timerd.core.partition.settled_index import SettledIndex
from timerd.core.taken import Taken
from timerd.model.identity import RowKey
from timerd.model.partition import BUCKET_MS
from timerd.model.rows import ROW, RowGroup
from timerd.model.settle import Outcome
from timerd.model.task import Template

Pages = Callable[[RowsInHand, RowGroup], Sequence[RowGroup]]


def hand(most_rows: int) -> RowsInHand:
    return RowsInHand(HERE, Tight(most_rows * (ROW.itemsize + len(b"body"))), SettledIndex())


def judged(hand: RowsInHand, limit: int, until_ms: int, past_ms: int = 0) -> DueBatch | None:
    """What is due, and what the gates say of it."""
    found = hand.pull(QUEUE, limit, until_ms)
    if found is None:
        return None
    batch = DueBatch(Taken.of(HERE, 1, found), 0, past_ms)
    judge(hand.gates(), batch, until_ms)
    return batch


def take(hand: RowsInHand, limit: int = 100) -> list[RowKey]:
    batch = judged(hand, limit, START_MS + 1_000_000)
    if batch is None or not (left := list(batch.left())):
        return []
    found = batch.due.part(np.array(left))
    hand.send(found, START_MS + 1_000_000)
    return found.rows.keys()


def as_read(here: RowsInHand, group: RowGroup) -> Sequence[RowGroup]:
    return [group]


def put_in_order(here: RowsInHand, group: RowGroup) -> Sequence[RowGroup]:
    assert here.left.reload is not None
    return put_together(here.left.reload, [group], here.met.cursor)


def everything(here: RowsInHand, stored: list[RowGroup], pages: Pages = as_read) -> list[RowKey]:
    """Takes what is there, then brings in more, one group a page, until nothing is left."""
    out = take(here)
    while here.left.cut:
        here.begin_reload(QUEUE)
        for group in stored:
            here.merge(*pages(here, group))
            out += take(here, 2)
        here.end_reload()
        out += take(here)
    return out


@pytest.mark.parametrize("pages", [as_read, put_in_order])
def test_a_reload_over_several_pages_brings_each_row_once(pages: Pages) -> None:
    keys = [key(n, n * 10) for n in range(40)]
    stored = [rows(*keys[start::4], source=start + 1) for start in range(4)]
    here = hand(8)
    for group in stored:
        here.merge(group)
        here.met.read(group.source)
    assert here.waiting.rows <= 8
    assert here.oldest_ms() == keys[0].position_ms
    assert sorted(everything(here, stored, pages)) == keys


def test_what_was_left_holds_verified_back_while_it_is_brought_in() -> None:
    here = hand(4)
    here.merge(rows(*(key(n, n * 10) for n in range(8)), source=1))
    take(here)
    for found in list(here.open.keys()):
        here.open.close(RowKey(0, found, 0))
    left_ms = here.oldest_ms()
    assert left_ms == here.left.cut[QUEUE][0]
    here.begin_reload(QUEUE)
    assert here.oldest_ms() == left_ms


@pytest.mark.parametrize("ends", [RowsInHand.end_reload, RowsInHand.drop_all])
def test_others_wait_for_a_reload_until_it_ends_or_the_partition_is_gone(ends: Callable[[RowsInHand], None]) -> None:
    memory = Memory(1 << 30)
    here, elsewhere = RowsInHand(HERE, memory, SettledIndex()), RowsInHand(HERE, memory, SettledIndex())
    here.left.leave(QUEUE, (START_MS, 0))
    elsewhere.left.leave(QUEUE, (START_MS + BUCKET_MS, 0))
    here.begin_reload(QUEUE)
    assert elsewhere.thin_queue() is None
    ends(here)
    assert elsewhere.thin_queue() == QUEUE


def test_a_page_is_put_in_order_only_where_a_sweep_has_met_all_of_it() -> None:
    """What is new on it would come once more with the next sweep."""
    met, new = rows(key(8, 500), key(1, 10), source=1), rows(key(9, 20), source=2)
    others = rows(key(7, 30), source=1)
    others.templates = [Template(QUEUE.namespace, "another")]
    reload = Reload(QUEUE, (START_MS + 11, 0), is_plain=True)
    (run,) = put_together(reload, [met, others], 1)
    assert (run.keys(), run.source) == ([key(8, 500)], 1)
    assert put_together(reload, [met, new], 1) == [met, new]
    without_cursors = rows(key(3, 40))
    assert put_together(reload, [without_cursors], 1) == [without_cursors]


def test_rows_that_no_sweep_has_met_are_left_to_the_next_one() -> None:
    here = hand(4)
    old = rows(*(key(n, n * 10) for n in range(8)), source=1)
    here.merge(old)
    here.met.read(1)
    take(here)
    written_meanwhile = rows(key(9, 500), source=2)
    here.begin_reload(QUEUE)
    here.merge(old)
    here.merge(written_meanwhile)
    here.end_reload()
    here.merge(written_meanwhile)
    here.met.read(2)
    out = everything(here, [old, written_meanwhile])
    assert out.count(key(9, 500)) == 1


def test_a_row_of_high_priority_behind_the_cut_is_not_brought_in_again_while_it_is_open() -> None:
    here = hand(4)
    urgent = rows(key(20, 900), source=1)
    urgent.templates = [Template(*QUEUE, priority=9)]
    here.merge(urgent)
    assert take(here) == [key(20, 900)]
    old = rows(*(key(n, n * 10) for n in range(8)), source=2)
    here.merge(old)
    here.met.read(2)
    assert key(20, 900) not in everything(here, [urgent, old])


def test_one_row_is_kept_whatever_its_size() -> None:
    here = hand(0)
    stored = [rows(key(0), key(1), source=1)]
    here.merge(stored[0])
    here.met.read(1)
    assert here.waiting.rows == 1
    assert sorted(everything(here, stored)) == [key(0), key(1)]


def test_rows_that_nothing_tells_apart_are_kept_together() -> None:
    """Two attempts of one task at one instant: a cut between them could not be named."""
    here = hand(1)
    stored = [rows(key(0, 1_000, 0), key(0, 1_000, 1), key(1, 2_000), source=1)]
    here.merge(stored[0])
    here.met.read(1)
    assert here.waiting.rows == 2
    assert here.left.cut[QUEUE][0] == START_MS + 2_000


def test_an_expired_row_ends_instead_of_being_sent() -> None:
    here = hand(8)
    late = rows(key(0))
    late.templates = [Template(*QUEUE, expire_at_ms=START_MS + 5_000)]
    here.merge(late)
    batch = judged(here, 1, START_MS + 5_000, START_MS + 5_000)
    assert batch is not None
    assert batch.fates == {0: End(Outcome.EXPIRED)}


def test_an_ack_of_another_generation_closes_nothing() -> None:
    here = hand(8)
    here.merge(rows(key(0, 1_000, 1 << 16)))
    take(here)
    assert here.open.close(key(0)) is None
    assert here.open.is_open(key(0, 1_000, 1 << 16))


def test_a_row_that_is_put_back_waits_as_if_it_had_not_been_sent() -> None:
    keys = [key(n, n * 10) for n in range(4)]
    here = hand(100)
    here.merge(rows(*keys, source=1))
    assert take(here, 3) == keys[:3]
    assert here.put_back(keys[1])
    assert not here.open.is_open(keys[1])
    assert not here.put_back(keys[1])
    assert not here.put_back(keys[3])
    assert not here.put_back(RowKey(keys[2].position_ms, keys[2].digest, keys[2].version + 1))
    for each in (keys[0], keys[2]):
        assert here.open.close(each)
    assert here.oldest_ms() == keys[1].position_ms
    assert take(here) == [keys[1], keys[3]]


def test_a_row_that_is_put_back_behind_the_cut_comes_once_from_the_store() -> None:
    keys = [key(n, n * 10) for n in range(12)]
    stored = [rows(*keys, source=1)]
    here = hand(100)
    here.merge(stored[0])
    here.met.read(1)
    sent = take(here, 10)
    here.left.leave(QUEUE, (keys[8].position_ms, 0))
    here.waiting.cut(QUEUE, *here.left.cut[QUEUE])
    assert here.put_back(keys[9])
    assert here.waiting.rows == 0
    assert here.put_back(keys[2])
    here.begin_reload(QUEUE)
    assert not here.put_back(keys[3]), "the reload could bring it as well"
    here.merge(stored[0])
    here.end_reload()
    assert sent == keys[:10]
    assert sorted(take(here)) == [keys[2], *keys[9:]]


def test_a_verdict_that_came_meanwhile_ends_what_is_put_back() -> None:
    here = hand(100)
    here.merge(rows(key(1, 0), source=1))
    take(here)
    here.outcomes.give(key(1, 0), Outcome.CANCELLED, b"")
    assert here.put_back(key(1, 0))
    batch = judged(here, 5, START_MS + 1_000_000)
    assert batch is not None
    assert batch.fates == {0: End(Outcome.CANCELLED)}
