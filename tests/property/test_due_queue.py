"""The due queue against a sorted list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from timerd.core.due_queue import due_queue, segments
from timerd.core.due_queue.due_queue import DueQueue
from timerd.core.due_queue.lean_run import Run
from timerd.core.due_queue.runs import joined
from timerd.core.due_queue.tie_order import RowsAt, before, tie_of, ties_of
from timerd.core.taken import LAST, QueueKey
from timerd.core.urgency import Urgency
from timerd.model.identity import RowKey, digest_of
from timerd.model.row_keys import RowKeys
from timerd.model.rows import PREFIX, ROW, RowGroup, concat, single_row
from timerd.model.task import NO_EXTRA, PRIORITY_MS, Template

QUEUES = ("a", "b")
# Near and far apart, so that a level of priority weighs both ways.
positions = st.one_of(st.integers(0, 20), st.integers(0, 3 * PRIORITY_MS))


urgencies = st.builds(Urgency, st.integers(0, 3), st.booleans())
PLAIN = Urgency(0)


def one(number: int, position_ms: int, queue: str, urgency: Urgency = PLAIN) -> RowGroup:
    key = RowKey(position_ms, digest_of(b"%012d" % number, number), 0)
    template = Template("n", queue, urgency.priority, on_demand=urgency.is_on_demand)
    return single_row(key, position_ms, template, b"x" * (number % 7), NO_EXTRA, 0)


class QueueModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = DueQueue()
        # (queue, key) -> (urgency, tie)
        self.rows: dict[tuple[str, RowKey], tuple[Urgency, int]] = {}
        self.number = 0

    @rule(
        fresh=st.lists(st.tuples(positions, st.sampled_from(QUEUES), urgencies), min_size=1, max_size=12),
        apart=st.booleans(),
    )
    def add(self, fresh: list[tuple[int, str, Urgency]], apart: bool) -> None:
        groups = []
        for position_ms, queue, urgency in fresh:
            self.number += 1
            row = one(self.number, position_ms, queue, urgency)
            self.rows[queue, row.keys()[0]] = urgency, int(tie_of(row)[0])
            groups.append(row)
        for rows in groups if apart else [concat(groups)]:
            self.queue.add(rows)

    @rule(
        queue=st.sampled_from(QUEUES),
        limit=st.integers(0, 20),
        now_ms=positions,
        slack_ms=st.sampled_from((None, 0, 20, PRIORITY_MS)),
    )
    def take(self, queue: str, limit: int, now_ms: int, slack_ms: int | None) -> None:
        """`slack_ms`: no row is given whose order key is so much greater than that of the first."""
        due = {k: u for (q, k), (u, _) in self.rows.items() if q == queue and k.position_ms <= now_ms}
        orders = sorted(u.order(k.position_ms, now_ms) for k, u in due.items())
        head = self.queue.head_key(QueueKey("n", queue), now_ms)
        assert head == (orders[0] if orders else None)
        upto = LAST if slack_ms is None or head is None else head + slack_ms
        taken = self.queue.take(QueueKey("n", queue), limit, now_ms, upto)
        keys = taken.keys() if taken is not None else []
        assert [due[k].order(k.position_ms, now_ms) for k in keys] == [order for order in orders if order <= upto][
            :limit
        ]
        for n, key in enumerate(keys):
            assert taken is not None
            assert taken.payload(n) == b"x" * (int.from_bytes(key.digest[12:], "big") % 7)
            del self.rows[queue, key]

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), until_ms=positions)
    def pull(self, data: st.DataObject, until_ms: int) -> None:
        """Rows that are looked for by their places, of all queues: the due ones leave."""
        wanted = set(data.draw(st.lists(st.sampled_from(sorted(self.rows)), min_size=1, max_size=8)))
        keys = [key for _, key in wanted]
        ties = ties_of(RowKeys.of(keys).digests)
        places = RowsAt(np.sort([key.position_ms for key in keys]), np.sort(ties))
        pulled = [key for rows in self.queue.pull_at(places, until_ms) for key in rows.keys()]
        due = {(queue, key) for queue, key in wanted if key.position_ms <= until_ms}
        assert sorted(pulled) == sorted(key for _, key in due)
        for each in due:
            del self.rows[each]

    @precondition(lambda self: any(q == "a" for q, _ in self.rows))
    @rule(share=st.floats(0, 1))
    def cut(self, share: float) -> None:
        name = QueueKey("n", "a")
        place = self.queue.lowest(name, int(self.queue.lane_bytes(name) * share))
        mine = {k: (k.position_ms, tie) for (q, k), (_, tie) in self.rows.items() if q == "a"}
        late = [k for k, at in mine.items() if at >= place]
        assert self.queue.cut(name, *place) == len(late)
        assert len(late) < len(mine)
        for key in late:
            del self.rows["a", key]

    @rule(queue=st.sampled_from(QUEUES), until_ms=positions)
    def prepare(self, queue: str, until_ms: int) -> None:
        self.queue.prepare(QueueKey("n", queue), until_ms)

    @rule()
    def tidy(self) -> None:
        self.queue.tidy()

    @invariant()
    def holds_the_same(self) -> None:
        self.queue.check()
        assert self.queue.rows == len(self.rows)
        assert self.queue.oldest_ms() == min((k.position_ms for _, k in self.rows), default=None)
        for queue in QUEUES:
            count = sum(q == queue for q, _ in self.rows)
            assert self.queue.lane_rows(QueueKey("n", queue)) == count


def test_before_orders_by_position_then_tie() -> None:
    rows = concat([one(n, n // 2, "a") for n in range(6)])
    ties = tie_of(rows).tolist()
    early = before(rows, 1, ties[3])
    assert early.tolist() == [True, True, ties[2] < ties[3], False, False, False]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows are as many to it as a million."""
    few = {"FRONT_ROWS": 3, "FRONT_RUNS": 3, "FRONT_MS": 5, "LARGEST_MERGE_ROWS": 1, "SAMPLE_ROWS": 4}
    for name, value in few.items():
        monkeypatch.setattr(due_queue, name, value)
    monkeypatch.setattr(segments, "FEW_DUE", 2)


@pytest.mark.usefixtures("small")
def test_what_many_runs_have_next_is_gathered() -> None:
    run_state_machine_as_test(QueueModel, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))


@pytest.mark.usefixtures("small")
def test_what_few_runs_have_is_taken_as_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_queue, "SHARE_ROWS", 1)
    run_state_machine_as_test(QueueModel, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))


def runs_of(queue: DueQueue) -> list[Run]:
    return [entry[2].run for lane in queue._lanes.values() for heap in lane.heaps.values() for entry in heap]


def arena_bytes(run: Run) -> int:
    return len(run.select(slice(0)).payloads)


def test_many_runs_cost_what_few_do() -> None:
    """Of a hundred runs that interleave, one take gathers what the next ones find in one."""
    queue = DueQueue()
    count = due_queue.LARGEST_MERGE_ROWS
    for number in range(100):
        queue.add(series(number, count))
    first = queue.take(QueueKey("n", "a"), 1_000, count)
    assert first is not None
    assert first.columns["position_ms"].tolist() == sorted([n // 100 for n in range(1_000)])
    runs = {id(run) for run in runs_of(queue)}
    assert len(runs) == 101
    second = queue.take(QueueKey("n", "a"), 1_000, count)
    assert second is not None
    assert second.columns["position_ms"].tolist() == sorted([n // 100 for n in range(1_000, 2_000)])
    assert {id(run) for run in runs_of(queue)} == runs, "nothing was gathered anew"


def test_few_runs_that_give_much_stay_as_they_are() -> None:
    """Else a backlog, into which new runs come all the time, is moved again for each message."""
    queue, name, count = DueQueue(), QueueKey("n", "a"), due_queue.LARGEST_MERGE_ROWS
    for number in range(3):
        queue.add(series(number, count))
    runs = {id(run) for run in runs_of(queue)}
    taken = queue.take(name, 3 * due_queue.SHARE_ROWS, count)
    assert taken is not None
    assert taken.columns["position_ms"].tolist() == sorted([n // 3 for n in range(3 * due_queue.SHARE_ROWS)])
    assert {id(run) for run in runs_of(queue)} == runs
    queue.check()


def test_where_all_that_is_due_comes_too_late_nothing_is_given() -> None:
    queue, name = DueQueue(), QueueKey("n", "a")
    for number in range(2):
        queue.add(series(number, 5, from_ms=10))
    assert queue.take(name, 1_000, 100, upto=9) is None
    queue.check()


def test_what_rows_do_not_use_is_not_in_the_run_that_is_made_of_them() -> None:
    """Else a run that was gathered again and again has a table that is longer than itself."""
    many = concat([series(number, 3) for number in range(40)])
    parts = [many.select(slice(at, at + 50)) for at in (0, 50)]
    run = joined(parts)
    assert len(run.prefixes) == 34
    assert sorted(run.digests()) == sorted([*parts[0].digests(), *parts[1].digests()])


def test_what_comes_by_ones_from_many_runs_is_gathered_ahead() -> None:
    """Each millisecond two rows, each of another run: the first take gathers them for the second that follows."""
    queue, name = DueQueue(), QueueKey("n", "a")
    count = due_queue.LARGEST_MERGE_ROWS
    for number in range(20):
        queue.add(series(number, count, step_ms=10, from_ms=number // 2))
    assert queue.take(name, 1_000, 0) is not None
    runs = {id(run) for run in runs_of(queue)}
    assert len(runs) == 21
    for now_ms in range(1, due_queue.FRONT_MS + 1):
        taken = queue.take(name, 1_000, now_ms)
        assert taken is not None
        assert taken.columns["position_ms"].tolist() == [now_ms] * 2
    assert {id(run) for run in runs_of(queue)} <= runs, "nothing was gathered anew"
    queue.check()


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the runs that were put together."""
    sizes: list[int] = []

    def counted(parts: list[RowGroup]) -> RowGroup:
        sizes.append(sum(map(len, parts)))
        return joined(parts)

    monkeypatch.setattr(due_queue, "joined", counted)
    return sizes


def filled(runs: int) -> DueQueue:
    """One row of each run in turn, two a millisecond."""
    queue, count = DueQueue(), due_queue.LARGEST_MERGE_ROWS
    for number in range(runs):
        queue.add(series(number, count, step_ms=runs // 2, from_ms=number // 2))
    return queue


def test_where_there_are_more_runs_than_are_gathered_at_once_what_was_gathered_is_not_cut_short(
    gathered: list[int],
) -> None:
    """Else its rest lies beside the next one, and each of them is put together again for a few rows."""
    queue, name = filled(3 * due_queue.FRONT_RUNS), QueueKey("n", "a")
    gathered.clear()
    for now_ms in range(3 * due_queue.FRONT_MS):
        taken = queue.take(name, 1_000, now_ms)
        assert taken is not None
        assert taken.columns["position_ms"].tolist() == [now_ms] * 2
    assert len(gathered) <= 15
    queue.check()


def test_of_many_rows_of_one_instant_no_more_are_gathered_than_of_others(gathered: list[int]) -> None:
    """At noon half a million may be due."""
    queue, name, count = DueQueue(), QueueKey("n", "a"), due_queue.LARGEST_MERGE_ROWS
    for number in range(8):
        queue.add(series(number, count, step_ms=0, from_ms=10))
    assert queue.prepare(name, 10)
    assert gathered == [due_queue.FRONT_ROWS]
    taken = [queue.take(name, 1_000, 10) for _ in range(8 * count // 1_000)]
    assert {len(rows) for rows in taken if rows is not None} == {1_000}
    assert max(gathered) <= due_queue.FRONT_ROWS
    queue.check()


def test_one_run_of_each_priority_is_not_gathered(gathered: list[int]) -> None:
    queue, name = DueQueue(), QueueKey("n", "a")
    for number, priority in enumerate((0, 1)):
        queue.add(concat([one(2 * number + n, n, "a", Urgency(priority)) for n in range(2)]))
    queue.prepare(name, 5)
    taken = queue.take(name, 10, 5)
    assert taken is not None
    assert len(taken) == 4
    assert gathered == []


def test_what_was_prepared_is_taken_without_more_ado(gathered: list[int]) -> None:
    queue, name = filled(3 * due_queue.FRONT_RUNS), QueueKey("n", "a")
    gathered.clear()
    queue.prepare(name, 5)
    assert len(gathered) == 1
    for now_ms in range(6):
        taken = queue.take(name, 1_000, now_ms)
        assert taken is not None
        assert taken.columns["position_ms"].tolist() == [now_ms] * 2
    assert len(gathered) == 1
    queue.check()


def test_there_is_nothing_to_prepare_in_one_run_or_none(gathered: list[int]) -> None:
    queue, name = DueQueue(), QueueKey("n", "a")
    queue.prepare(name, 5)
    queue.add(series(0, 10))
    queue.prepare(name, 5)
    queue.check()
    assert (gathered, queue.rows, queue.next_ms(name)) == ([], 10, 0)


def test_of_large_payloads_no_more_are_gathered_than_fit() -> None:
    """Two runs of overdue rows of 64 KiB: one take copies what it gives and not all that is due."""
    queue, name = DueQueue(), QueueKey("n", "a")
    for number in range(2):
        queue.add(series(number, 1_000, payload_bytes=65_536))
    taken = queue.take(name, 10, 1_000)
    assert taken is not None
    assert len(taken) == 10
    front = min(runs_of(queue), key=arena_bytes)
    assert arena_bytes(front) <= due_queue.FRONT_BYTES
    assert len(front) >= 10
    queue.check()


def test_a_cut_copies_nothing_until_it_is_tidied() -> None:
    queue, name = DueQueue(), QueueKey("n", "a")
    count = due_queue.LARGEST_MERGE_ROWS
    for number in range(20):
        queue.add(series(number, count))
    position_ms, tie = queue.lowest(name, queue.lane_bytes(name) // 2)
    assert abs(position_ms - count // 2) < count // 100
    assert tie == 0
    assert queue.cut(name, position_ms, tie) == 20 * (count - position_ms)
    for whole in range(20, 0, -1):
        assert sum(arena_bytes(run) == count for run in runs_of(queue)) == whole
        assert queue.tidy() == (whole > 1)
    assert {arena_bytes(run) for run in runs_of(queue)} == {position_ms}
    queue.check()


def series(number: int, count: int, step_ms: int = 1, from_ms: int = 0, payload_bytes: int = 1) -> RowGroup:
    """One row each step."""
    columns = np.zeros(count, ROW)
    columns["position_ms"] = from_ms + np.arange(count) * step_ms
    columns["length"], columns["offset"] = payload_bytes, np.arange(count) * payload_bytes
    prefix = np.frombuffer(b"%012d" % number, PREFIX)
    return RowGroup(columns, prefix, [Template("n", "a")], b"%d" % (number % 10) * (count * payload_bytes), [])


TestDueQueue = QueueModel.TestCase
TestDueQueue.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
