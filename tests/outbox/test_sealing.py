"""Which rows go together, and the bytes that are sent for them: rules X1 and X3, without a database."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.outbox.made import FIRE_MS, cancel, move, numbered, schedule
from timerd.outbox.low_mark import LOOK_S, LowMark
from timerd.outbox.messages import links_in, rows_in
from timerd.outbox.rows import CHAINS, OutboxRow, RowVerb
from timerd.outbox.sealing import (
    MOST_BATCHES,
    MOST_OF_KEY,
    MOST_ROWS,
    NUMBER_STEP,
    LeftOut,
    anew,
    batch_of,
    chosen,
    halves,
    is_clogged,
    sealed,
)
from timerd.v1 import timer_service_pb2 as pb

OUTBOX = "0b5e"
NOW_MS = 1_800_000_000_000


def names(batches: list[list[OutboxRow]]) -> list[list[str]]:
    return [[row.key or row.payload.decode() for row in rows] for rows in batches]


def test_a_batch_has_one_verb_one_namespace_and_one_queue() -> None:
    rows = numbered([schedule(b"1", "a"), schedule(b"2"), cancel("x"), schedule(b"3", "b"), move("y", FIRE_MS)])
    assert names(chosen(rows)) == [["a", "2", "b"], ["x"], ["y"]]
    rows = numbered([schedule(b"1"), schedule(b"2", queue="post"), schedule(b"3", namespace="billing"), schedule(b"4")])
    assert names(chosen(rows)) == [["1", "4"], ["2"], ["3"]]


def test_of_very_many_queues_the_first_ones_are_sealed() -> None:
    rows = numbered([schedule(b"%d" % n, "a" if n == MOST_BATCHES else "", queue=f"q{n}") for n in range(20)])
    assert len(chosen([*rows, cancel("a"), rows[0]])) == MOST_BATCHES
    # What comes behind a row that was left is left as well.
    assert all(row.verb == RowVerb.SCHEDULE for rows in chosen([*rows, cancel("a")]) for row in rows)


def test_a_row_waits_while_a_sealed_batch_has_its_key() -> None:
    rows = numbered([cancel("a"), cancel("b"), schedule(b"1", "a"), schedule(b"2", "c")])
    assert names(chosen(rows, {("default", "a")})) == [["b"], ["c"]]
    assert names(chosen(rows, {("billing", "a")})) == [["a", "a"], ["b"], ["c"]]


def test_a_look_that_finds_only_rows_that_wait_goes_on_behind_them() -> None:
    waiting = [cancel("a")] * (MOST_ROWS - 5)
    assert is_clogged([*waiting, *[schedule(b"1")] * 5], {("default", "a")})
    assert not is_clogged(waiting, {("default", "a")})
    assert not is_clogged([*waiting, *[schedule(b"1")] * 5], {("billing", "a")})


def test_rows_of_a_key_stay_in_their_order() -> None:
    rows = numbered([schedule(b"1", "a"), cancel("a"), schedule(b"2", "a"), cancel("b"), schedule(b"3", "b")])
    [chains] = chosen(rows)
    assert [(row.key, row.verb) for row in chains] == [("a", 1), ("a", 2), ("a", 1), ("b", 2), ("b", 1)]
    assert names(chosen([*rows, cancel("c")])) == [["a", "a", "a", "b", "b"], ["c"]]


def test_the_rows_of_a_key_are_a_chain_as_far_as_they_are_of_one_queue() -> None:
    """A queue is shut as a whole, and a relay that takes chains over begins with their first rows."""
    rows = numbered([schedule(b"1", "a"), cancel("a"), schedule(b"2", "a", queue="post"), cancel("a"), cancel("b")])
    assert [[row.id for row in each] for each in chosen(rows)] == [[1, 2], [5]]
    many = numbered([move("a", FIRE_MS + n) for n in range(MOST_OF_KEY + 5)])
    assert chosen(many) == [many[:MOST_OF_KEY]]
    two = numbered([cancel("a"), cancel("a"), cancel("b"), schedule(b"1", "b", queue="post"), cancel("b")])
    assert [[row.id for row in each] for each in chosen(two)] == [[1, 2], [3, 4, 5]]


def test_each_link_of_chains_has_a_request_of_its_own() -> None:
    rows = [schedule(b"1", "a"), move("a", FIRE_MS), cancel("a"), schedule(b"2", "b")]
    batch = batch_of(OUTBOX, 2000, NOW_MS, rows)
    links = links_in(batch)
    assert (batch.verb, batch.tasks, batch.is_ordered) == (CHAINS, 4, True)
    assert [(each.verb, each.tasks) for each in links] == [(1, 2), (3, 1), (2, 1)]
    assert [rows_in(each) for each in links] == [[rows[0], rows[3]], [rows[1]], [rows[2]]]
    assert len({each.request for each in links}) == 3
    again = anew(OUTBOX, batch, NOW_MS + 1)
    assert (again.no, rows_in(again)) == (batch.no, rows_in(batch))
    assert not {each.request for each in links_in(again)} & {each.request for each in links}


def test_a_key_is_of_its_namespace() -> None:
    other = schedule(b"2", "a")._replace(namespace="billing")
    rows = numbered([schedule(b"1", "a"), other, schedule(b"3", "b")])
    assert names(chosen(rows)) == [["a", "b"], ["a"]]


any_row = st.builds(
    lambda verb, key: {1: schedule(b"p", key), 2: cancel(key or "a"), 3: move(key or "a", FIRE_MS)}[verb],
    st.integers(1, 3),
    st.sampled_from(["", "a", "b", "c"]),
)


@given(st.lists(any_row, max_size=30))
def test_whatever_is_written_the_order_of_each_key_is_kept(rows: list[OutboxRow]) -> None:
    left, sent = numbered(rows), list[OutboxRow]()
    while left:
        batches = chosen(left)
        batch = [row for rows in batches for row in rows]
        keys = [{row.key for row in rows if row.key} for rows in batches]
        assert batches[0][0] == left[0]
        assert sum(map(len, keys)) == len(set().union(*keys))
        sent += batch
        left = [row for row in left if row not in batch]
    for key in "abc":
        assert [row.id for row in sent if row.key == key] == [row.id for row in numbered(rows) if row.key == key]


@given(st.lists(any_row, min_size=1, max_size=30))
def test_a_batch_can_be_read_again(rows: list[OutboxRow]) -> None:
    for together in chosen(numbered(rows)):
        batch = batch_of(OUTBOX, NUMBER_STEP, NOW_MS, together)
        sealed_rows = [row._replace(id=0) for row in together]
        assert sorted(rows_in(batch)) == sorted(sealed_rows)
        for key in "abc":
            of_key = [row for row in sealed_rows if row.key == key]
            assert [row for row in rows_in(batch) if row.key == key] == of_key
        assert batch.is_ordered is any(row.key for row in together)


def test_rows_that_differ_in_nothing_travel_as_columns() -> None:
    batch = batch_of(OUTBOX, 2000, NOW_MS, numbered([schedule(b"1"), schedule(b"22", fire_at_ms=FIRE_MS + 1)]))
    request = pb.ScheduleBatchRequest.FromString(batch.request)
    assert request.request_id == "0b5e.2000"
    assert request.request_time.ToMilliseconds() == NOW_MS
    assert list(request.columns.fire_at_ms) == [FIRE_MS, FIRE_MS + 1]
    assert request.columns.payloads == b"122"


def test_options_are_those_of_the_template() -> None:
    options = '{"labels": {"team": "blue"}, "on_conflict": "keep", "priority": 3, "retry": {"max_attempts": 5}}'
    batch = batch_of(OUTBOX, 2000, NOW_MS, [schedule(b"1", "a", options=options), schedule(b"2")])
    [first, second] = pb.ScheduleBatchRequest.FromString(batch.request).items.items
    assert not first.HasField("template")
    assert second.template == pb.TaskItem().template.__class__(queue="mails")
    assert rows_in(batch)[0].options == options


def test_a_row_that_makes_no_request_is_refused_and_holds_up_no_other() -> None:
    bad = ['{"prio": 1}', '"text"', '{"queue": "other"}', '{"on_conflict": "perhaps"}', '{"priority": "high"}']
    rows = numbered([*(schedule(b"x", options=each) for each in bad), schedule(b"good")])
    sealing = sealed(OUTBOX, 2000, NOW_MS, rows)
    assert ([each.tasks for each in sealing.batches], sealing.taken) == ([1], [row.id for row in rows])
    assert [each.reason for each in sealing.refused] == ["INVALID"] * len(bad)
    assert "prio" in sealing.refused[0].problem


def test_nothing_is_sealed_of_rows_that_are_all_refused() -> None:
    sealing = sealed(OUTBOX, 2000, NOW_MS, numbered([schedule(b"x", options="[]")]))
    assert (sealing.batches, sealing.taken) == ([], [1])


def test_batches_of_one_seal_have_room_for_their_halves() -> None:
    sealing = sealed(OUTBOX, NUMBER_STEP, NOW_MS, numbered([schedule(b"1"), schedule(b"2", queue="post"), cancel("a")]))
    assert [each.no for each in sealing.batches] == [NUMBER_STEP, 2 * NUMBER_STEP, 3 * NUMBER_STEP]


def test_halves_lie_between_their_batch_and_the_next() -> None:
    """Down to single rows: all numbers differ, and are in the order of the rows."""
    numbers: list[int] = []

    def halve(no: int, rows: list[OutboxRow]) -> None:
        if len(rows) == 1:
            numbers.append(no)
            return
        for half in halves(OUTBOX, no, NOW_MS, rows):
            halve(half.no, rows_in(half))

    halve(NUMBER_STEP, [schedule(b"%d" % number) for number in range(MOST_ROWS)])
    assert len(set(numbers)) == MOST_ROWS
    assert numbers == sorted(numbers)
    assert NUMBER_STEP < numbers[0] < numbers[-1] < 2 * NUMBER_STEP


def test_the_low_mark_is_no_promise() -> None:
    mark = LowMark()
    assert mark.above(100.0) == 0
    mark.took([5, 7])
    assert mark.above(101.0) == 7
    assert mark.is_enough(7, [schedule(b"1")])
    assert not mark.is_enough(7, [schedule(b"1"), schedule(b"2", "a")])
    assert mark.is_enough(0, [schedule(b"2", "a")])
    mark.took([3])
    assert mark.above(100.0 + LOOK_S - 0.1) == 7
    assert mark.above(100.0 + LOOK_S) == 0
    assert mark.above(100.1 + LOOK_S) == 7
    assert mark.above(100.1 + LOOK_S, LeftOut(frozenset({"billing"}))) == 0
    assert mark.above(100.1 + LOOK_S, LeftOut(frozenset({"billing"}))) == 7
    assert mark.above(100.1 + LOOK_S) == 0
    mark.look_again()
    assert mark.above(100.2 + LOOK_S) == 0


def test_nothing_that_was_seen_and_left_lies_below_the_mark() -> None:
    """Another verb, another namespace, a second row of a key: they are the next batch."""
    mark = LowMark()
    assert mark.above(0.0) == 0
    mark.took([1, 3], left=[2, 4])
    assert mark.above(0.1) == 1
    mark.took([2, 4])
    assert mark.above(0.2) == 4
