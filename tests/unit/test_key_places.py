"""Where limit keys are cut in little memory: the longest first, each at a place of its own, and refilled when little of
one is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest

from tests.property.key_cuts import Hand, rows_of
from tests.unit.ordering_rig import ordered
from tests.unit.partition_rig import QUEUE, START_MS, key
from timerd.core.due_queue import NOWHERE, Cuts, DueQueue, KeyPlace, cuts_of, due_queue, key_places, sampled
from timerd.core.partition.left_in_store import LeftInStore
from timerd.core.taken import QueueKey
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template


@pytest.fixture(autouse=True)
def every_row_counts() -> Iterator[None]:
    with (
        patch.object(key_places, "LEAST_ROWS", 1),
        patch("timerd.core.due_queue.waiting_bytes.TEMPLATE_BYTES", 0),
    ):
        yield


def group(rows: Counter[str], *, at_ms: int | None = None) -> RowGroup:
    """So many of each key, one after the other in time, or all at once."""
    names = list(rows)
    columns = np.zeros(rows.total(), ROW)
    columns["template"] = np.repeat(np.arange(len(names)), list(rows.values()))
    columns["index"] = np.arange(len(columns))
    columns["position_ms"] = np.concatenate([np.arange(n) for n in rows.values()]) if at_ms is None else at_ms
    return RowGroup(columns, np.zeros(1, PREFIX), [Template(*QUEUE, limit_key=name) for name in names], b"", [])


def kept(rows: RowGroup, cuts: Cuts) -> Counter[str]:
    queue = DueQueue()
    queue.add(rows)
    queue.cut_keys(QUEUE, cuts.keys)
    queue.check()
    found: Counter[str] = Counter()
    for part in queue.sample(QUEUE, 1):
        found.update(part.template_of(n).limit_key for n in range(len(part)))
    return found


@pytest.mark.parametrize("at_ms", [None, 7])
def test_the_longest_are_cut_and_the_others_keep_all(at_ms: int | None) -> None:
    rows = group(Counter(noisy=900, busy=400, quiet=60, new=1), at_ms=at_ms)
    cuts = cuts_of([rows], 1, 0.5)
    assert kept(rows, cuts) == Counter(noisy=309, busy=309, quiet=60, new=1)
    assert cuts.place == NOWHERE


def test_where_each_has_its_least_all_are_cut_at_one_place() -> None:
    rows = group(Counter({f"k{n}": 10 for n in range(20)}))
    with patch.object(key_places, "LEAST_ROWS", 8):
        cuts = cuts_of([rows], 1, 0.5)
    assert {own.place[0] for own in cuts.keys.values()} == {8}
    assert cuts.place[0] == 5


def test_so_many_keys_have_places_of_their_own() -> None:
    rows = group(Counter({"noisy": 500, **{f"k{n}": 20 for n in range(20)}}))
    cuts = cuts_of([rows], 1, 0.4, most_keys=1)
    assert list(cuts.keys) == ["noisy"]
    assert cuts.place != NOWHERE


def test_a_key_that_has_a_place_may_always_get_another() -> None:
    """Else, once all places are given, short keys would be cut with the long ones."""
    rows = group(Counter({"noisy": 500, **{f"k{n}": 5 for n in range(20)}}))
    cuts = cuts_of([rows], 1, 0.4, most_keys=0, placed={"noisy"})
    assert (list(cuts.keys), cuts.place) == (["noisy"], NOWHERE)


def test_what_is_cut_after_others_have_left_is_never_worth_more_than_there_is() -> None:
    """A take frees alike for each row, and the rows that are left are the large ones."""
    queue, rows = DueQueue(), group(Counter(quiet=4_000, noisy=20))
    rows.columns["position_ms"] = np.arange(4_020)
    rows.columns["length"] = [10] * 4_000 + [5_000] * 20
    rows.payloads = bytes(5_000)
    queue.add(rows)
    queue.take(QUEUE, 4_000, 3_999)
    queue.cut_keys(QUEUE, {"noisy": KeyPlace((4_001, 0), 1, 0, 0)})
    queue.check()
    assert (queue.rows, queue.size_bytes > 0) == (1, True)


def test_of_queues_that_were_cut_and_of_one_with_keys_that_are_dry_each_is_read_on_in_its_turn() -> None:
    mails, labels, letters = (QueueKey("default", name) for name in ("mails", "labels", "letters"))
    left, read = LeftInStore(), list[QueueKey]()
    left.leave_of_keys(letters, {"acme": KeyPlace((5, 0), 100, 1, 2)})
    for queue in (mails, labels):
        left.leave(queue, (5, 0))
    for _ in range(6):
        queue = next(iter(left.queues()))
        dry = ["acme"] if queue == letters else []
        left.taken_out(queue, dry)
        read.append(queue)
        if dry:
            left.leave_of_keys(queue, {"acme": KeyPlace((9, 0), 100, 1, 2)})
        else:
            left.leave(queue, (9, 0))
    assert read == [letters, mails, labels] * 2


def test_a_queue_is_read_on_although_nobody_has_gone_on_with_its_cut() -> None:
    """As after tasks that were scheduled one by one: no page comes, behind which room is made."""
    here = Hand(1_000)
    for number in range(3):
        here.rows.waiting.add(group(Counter(long=20, short=1)) if number else group(Counter(short=1)))
    places = {"long": KeyPlace((2, 0), 20, 1, 1)}
    with patch.object(due_queue, "CUT_RUNS", 1):
        here.rows.waiting.cut_keys(QUEUE, places)
    here.rows.left.leave_of_keys(QUEUE, places)
    assert here.rows.waiting.is_being_cut(QUEUE)
    assert here.table.begin_reload() == 2
    assert not here.rows.waiting.is_being_cut(QUEUE)


def test_rows_that_nothing_tells_apart_are_kept_together() -> None:
    rows = group(Counter(noisy=100), at_ms=5)
    rows.columns["index"] = 3
    assert cuts_of([rows], 1, 0.2) == Cuts({}, NOWHERE)


def test_of_many_rows_a_sample_says_which_keys_are_long() -> None:
    """Keys in turn, which a sample at even distances would meet always or never."""
    queue = DueQueue()
    names = [f"k{n}" for n in range(16)]
    columns = np.zeros(64_000, ROW)
    columns["index"] = columns["position_ms"] = np.arange(64_000)
    columns["template"] = np.arange(64_000) % 16
    queue.add(RowGroup(columns, np.zeros(1, PREFIX), [Template(*QUEUE, limit_key=name) for name in names], b"", []))
    cuts = cuts_of(queue.sample(QUEUE, 16), 16, 0.5)
    assert set(cuts.keys) == set(names)
    queue.cut_keys(QUEUE, cuts.keys)
    assert 0.4 * 64_000 < queue.rows < 0.6 * 64_000
    assert len(sampled(5, 1_005, 10)) == 100


def test_what_is_to_be_cut_is_not_taken_while_the_cut_goes_on_run_by_run() -> None:
    """A row that was sent from one run would pass those that are in the store already."""
    queue, runs, rows = DueQueue(), 5, 4_096
    for number in range(runs):
        run = group(Counter(noisy=rows // 2, quiet=rows // 2))
        run.columns["position_ms"] += number
        queue.add(run)
    places = {"noisy": KeyPlace((1_000, 0), 4_000, 500, 750)}
    with patch.object(due_queue, "CUT_RUNS", 1):
        queue.cut_keys(QUEUE, places)
        assert queue.is_being_cut(QUEUE)
        taken: list[RowGroup] = []
        for _ in range(runs + 1):
            found = queue.take(QUEUE, rows, rows)
            taken += [found] if found is not None else []
            queue.tidy()
    assert not queue.is_being_cut(QUEUE)
    queue.check()
    rest = queue.take(QUEUE, runs * rows, rows)
    ms: dict[str, list[int]] = {"noisy": [], "quiet": []}
    for part in [*taken, *([rest] if rest is not None else [])]:
        for n, position_ms in enumerate(part.columns["position_ms"].tolist()):
            ms[part.template_of(n).limit_key].append(position_ms)
    assert max(ms["noisy"]) == 999
    assert len(ms["noisy"]) == sum(1_000 - number for number in range(runs))
    assert len(ms["quiet"]) == runs * rows // 2
    assert not queue.rows


def test_a_key_with_little_left_is_refilled_and_one_with_half_along_with_it() -> None:
    left = LeftInStore()
    places = {name: KeyPlace((START_MS + 100, 0), 40, START_MS + 50, START_MS + 75) for name in ("low", "half", "full")}
    left.leave_of_keys(QUEUE, places)
    filed = {"low": 10, "half": 20, "full": 21}
    assert left.dry(QUEUE, START_MS + 60, filed) == ()
    assert left.dry(QUEUE, START_MS + 76, filed) == ["low", "half"]
    reload = left.taken_out(QUEUE, ["low", "half"])
    assert (set(reload.keys), set(left.keys[QUEUE])) == ({"low", "half"}, {"full"})
    assert left.oldest_ms() == START_MS + 100


def test_keys_that_were_cut_later_than_all_are_cut_with_all() -> None:
    left = LeftInStore()
    early, late = (KeyPlace((START_MS + ms, 0), 4, START_MS, START_MS) for ms in (10, 90))
    left.leave_of_keys(QUEUE, {"early": early, "late": late})
    left.leave(QUEUE, (START_MS + 50, 0))
    assert left.keys[QUEUE] == {"early": early}
    assert left.first_ms(QUEUE) == START_MS + 10
    reload = left.taken_out(QUEUE, ())
    assert (reload.place, reload.first_ms) == ((START_MS + 50, 0), START_MS + 10)
    assert not left.queues()


def test_a_key_that_ran_dry_comes_again_while_another_one_has_much() -> None:
    """That one waits for a limit, so the queue as a whole keeps most of what it had."""
    here = Hand(40)
    here.write({key(n, n + 1): "long" if n % 2 else "other" for n in range(80)}, told=False)
    here.sweep()
    assert set(here.rows.left.keys[QUEUE]) == {"long", "other"}
    here.sent_of("long")
    assert here.rows.lane_bytes(QUEUE) > here.memory.budget_bytes // 4
    assert here.table.begin_reload() is not None
    assert here.rows.left.reload is not None
    assert set(here.rows.left.reload.keys) == {"long"}
    here.rows.merge(*here.stored)
    here.table.end_reload()
    assert here.table.begin_reload() is None
    here.judge()


def test_the_next_of_an_ordering_key_stays_once_whichever_limit_key_is_cut() -> None:
    """It is due late, so a cut of its limit key leaves it out, and it is given once more; a later one of another key
    does not."""
    here = Hand(30)
    late = key(900, 5_000)
    here.rows.merge(ordered(late, template=Template(*QUEUE, limit_key="long")))
    here.write({key(n, n): "long" for n in range(40)}, told=False)
    here.sweep()
    place = here.rows.left.keys[QUEUE]["long"].place
    assert place[0] < late.position_ms
    here.send(18)
    here.write({key(100 + n, 100 + n): "other" for n in range(40)}, told=False)
    here.sweep()
    assert here.rows.left.keys[QUEUE]["long"].place == place
    assert "other" in here.rows.left.keys[QUEUE]
    assert late in here.in_memory()


def test_what_is_held_is_there_and_no_reason_to_read_more() -> None:
    """A worker may have it still: until its lease is over it is not sent."""
    here = Hand(40)
    here.write({key(n, n + 1): "long" if n % 2 else "other" for n in range(80)}, told=False)
    here.sweep()
    here.sent_of("long")
    assert here.table.wants_more
    here.rows.hold(rows_of("long", *here.sent), START_MS + 2_000_000)
    assert not here.table.wants_more
