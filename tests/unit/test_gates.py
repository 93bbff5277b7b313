"""What gates say of a row is done in the step that takes it: nothing is opened and taken back."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.partition_rig import NOW_MS, QUEUE, hot, key, rows
from timerd.core.dispatch.admission import Admission
from timerd.core.gates import KEPT, DueBatch, End, Fate, Fates, Hold, Requeue, judge
from timerd.core.partition import Asked, PartitionMachine
from timerd.model.identity import RowKey
from timerd.model.settle import Outcome

KEYS = [key(n, after_ms=n) for n in range(6)]
LATER_MS = NOW_MS + 50


class Says:
    """A gate that says one thing of some rows, each time it is asked."""

    def __init__(self, of: Mapping[RowKey, Fate]) -> None:
        self.of = dict(of)
        self.asked: list[RowKey] = []

    def judge(self, batch: DueBatch, _: int) -> Fates:
        self.asked += [batch.key(row) for row in batch.left()]
        return {row: self.of[each] for row in range(len(batch)) if (each := batch.key(row)) in self.of}


def sent(machine: PartitionMachine, gate: Says, now_ms: int = NOW_MS) -> list[RowKey]:
    taken = machine.take(QUEUE, 100, now_ms, gates=[gate])
    return taken.rows.keys() if taken is not None else []


def test_a_row_of_which_no_gate_says_anything_is_sent() -> None:
    machine, gate = hot(rows(*KEYS)), Says({})
    assert sent(machine, gate) == gate.asked == KEYS


@pytest.mark.parametrize(
    ("fate", "asked"),
    [
        (End(Outcome.EXPIRED), (Asked.ENDED, Outcome.EXPIRED)),
        (Requeue(NOW_MS + 9_000), (Asked.ENDED, Outcome.CARRIED)),
        (Hold(LATER_MS), (Asked.WAITING, None)),
    ],
)
def test_what_must_not_be_sent_is_never_open(fate: Fate, asked: tuple[Asked, Outcome | None]) -> None:
    machine, gate = hot(rows(*KEYS)), Says({KEYS[1]: fate, KEYS[4]: fate})
    assert sent(machine, gate) == [KEYS[0], KEYS[2], KEYS[3], KEYS[5]]
    assert machine.open_rows == 4
    assert [machine.ask(KEYS[n]) for n in (1, 4)] == [asked, asked]


def test_all_of_a_batch_may_be_kept_back() -> None:
    machine, gate = hot(rows(*KEYS)), Says(dict.fromkeys(KEYS, Hold(LATER_MS)))
    assert sent(machine, gate) == []
    assert machine.open_rows == 0


def test_what_is_held_comes_again_at_its_instant_and_holds_the_marks_back() -> None:
    machine, gate = hot(rows(*KEYS)), Says(dict.fromkeys(KEYS[:2], Hold(LATER_MS)))
    assert sent(machine, gate) == KEYS[2:]
    gate.of.clear()
    assert machine.next_ms(QUEUE) == LATER_MS
    assert machine.oldest_ms() == KEYS[0].position_ms
    assert sent(machine, gate, LATER_MS - 1) == []
    assert sent(machine, gate, LATER_MS) == KEYS[:2]


def test_what_is_held_keeps_nothing_else_waiting() -> None:
    machine, gate = hot(rows(*KEYS[:2])), Says(dict.fromkeys(KEYS[:2], Hold(LATER_MS)))
    assert sent(machine, gate) == []
    machine.hint(rows(*KEYS[2:]), 0)
    assert sent(machine, gate) == KEYS[2:]


def test_what_was_cancelled_while_it_was_held_is_not_sent() -> None:
    machine, gate = hot(rows(*KEYS[:2])), Says(dict.fromkeys(KEYS[:2], Hold(LATER_MS)))
    assert sent(machine, gate) == []
    machine.cancel(KEYS[0], Outcome.CANCELLED, b"")
    gate.of.clear()
    assert sent(machine, gate, LATER_MS) == [KEYS[1]]
    assert machine.ask(KEYS[0]) == (Asked.ENDED, Outcome.CANCELLED)


def test_a_task_that_was_written_twice_is_held_as_a_whole_and_sent_once() -> None:
    first, again = key(0, after_ms=0), key(0, after_ms=1)
    machine, gate = hot(rows(first, again)), Says({first: Hold(LATER_MS)})
    assert sent(machine, gate) == []
    gate.of.clear()
    assert sent(machine, gate, LATER_MS) == [first]
    assert machine.ask(again) == (Asked.OPEN, None)


@pytest.mark.parametrize(
    ("fate", "outcome"), [(End(Outcome.DEAD), Outcome.DEAD), (Requeue(NOW_MS + 9_000), Outcome.CARRIED)]
)
def test_the_copies_of_a_row_end_with_it(fate: Fate, outcome: Outcome) -> None:
    first, again = key(0, after_ms=0), key(0, after_ms=1)
    machine = hot(rows(first, again))
    assert sent(machine, Says({first: fate})) == []
    assert [machine.ask(each) for each in (first, again)] == [(Asked.ENDED, outcome)] * 2


def test_the_first_gate_that_objects_decides() -> None:
    machine = hot(rows(*KEYS[:1]))
    admission = Admission([Says({KEYS[0]: End(Outcome.EXPIRED)}), Says({KEYS[0]: Hold(LATER_MS)})])
    assert machine.take(QUEUE, 100, NOW_MS, gates=[admission]) is None
    assert admission.news == [(KEYS[0], End(Outcome.EXPIRED))]
    assert (admission.kept_back, admission.requeued()) == (1, [])


def test_what_a_partition_knows_of_its_rows_comes_before_all_others() -> None:
    machine, gate = hot(rows(*KEYS[:2])), Says({})
    machine.cancel(KEYS[0], Outcome.CANCELLED, b"")
    admission = Admission([gate])
    taken = machine.take(QUEUE, 100, NOW_MS, gates=[admission])
    assert taken is not None
    assert gate.asked == [KEYS[1]]
    assert admission.news == []


def test_a_gate_that_keeps_a_row_itself_says_so() -> None:
    machine = hot(rows(*KEYS[:2]))
    taken = machine.take(QUEUE, 100, NOW_MS, gates=[Says({KEYS[0]: KEPT})])
    assert taken is not None
    assert taken.rows.keys() == [KEYS[1]]


def test_no_gate_is_asked_where_there_is_none() -> None:
    taken = hot(rows(*KEYS)).take(QUEUE, 100, NOW_MS)
    assert taken is not None
    batch = DueBatch(taken, 0, 0)
    judge([], batch, NOW_MS)
    assert list(batch.left()) == list(range(len(KEYS)))
