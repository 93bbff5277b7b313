"""A partition changes its holder while everybody lives: what is sent, said and written in between."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.test_partition_machine import (
    HERE,
    NOW_MS,
    START_MS,
    acquired,
    control,
    hot,
    key,
    only,
    page,
    rows,
    taken,
)
from timerd.core.effects import ChangeControl, WriteCarried, WriteSettled
from timerd.core.holding import Asked, Offered, Phase, Settings
from timerd.core.memory import Memory
from timerd.core.partition_machine import PartitionMachine
from timerd.core.taken import Again, Ended
from timerd.model.registers import Control
from timerd.model.settle import Carry, CarryReason, Outcome, SettleRecord, settle_entries
from timerd.model.storage import CasStatus


def settled(machine: PartitionMachine, effects: list[object]) -> list[object]:
    """All that is to be written has been."""
    [write] = only(effects, WriteSettled)  # type: ignore[arg-type]
    assert isinstance(write, WriteSettled)
    for carried in machine.settled_written(write.record):
        assert isinstance(carried, WriteCarried)
        machine.carried_written(carried.sequence)
    return list(machine.tick(NOW_MS))


def released(machine: PartitionMachine, effects: list[object]) -> Control:
    [change] = effects
    assert isinstance(change, ChangeControl)
    assert machine.phase is Phase.RELEASE
    return change.value


def test_an_idle_partition_takes_one_compare_and_set() -> None:
    machine = hot(stored=control(verified_ms=500, closing_ms=2_000))
    assert machine.hand_over("b") == []
    value = released(machine, list(machine.tick(NOW_MS)))
    assert (value.holder, value.successor, value.token) == ("", "b", machine.control.token)  # type: ignore[union-attr]
    assert value.verified_ms == START_MS + 2_000
    assert machine.control_changed(CasStatus.APPLIED, NOW_MS) == []
    assert machine.phase is Phase.HANDED_OVER
    assert machine.phase.is_over


def test_nothing_is_sent_any_more_and_what_waits_holds_the_mark_back() -> None:
    machine = hot(rows(key(0, 1_000)), stored=control(closing_ms=30_000))
    machine.hand_over("b")
    assert taken(machine) == []
    assert released(machine, list(machine.tick(NOW_MS))).verified_ms == START_MS + 1_000


def test_what_workers_have_is_carried_first_and_what_ended_is_settled() -> None:
    machine = hot(rows(key(0), key(1)), stored=control(closing_ms=30_000))
    assert len(taken(machine)) == 2
    machine.end([Ended(HERE, key(1), Outcome.ACKED)])
    effects = list(machine.hand_over("b"))
    assert machine.tick(NOW_MS) == []
    machine.guard({key(0): NOW_MS + 5_000}, NOW_MS, CarryReason.HAND_OVER)
    [first] = only(effects, WriteSettled)
    assert isinstance(first, WriteSettled)
    then = machine.settled_written(first.record)
    assert machine.tick(NOW_MS) == []
    value = released(machine, settled(machine, list(then)))
    assert dict(value.counts) == {Outcome.ACKED: 1, Outcome.CARRIED: 1}
    assert machine.end([Ended(HERE, key(0), Outcome.ACKED)])[1] == [Ended(HERE, key(0), Outcome.ACKED)]


def test_who_asks_is_answered_until_the_last_step() -> None:
    machine = hot(rows(key(0), key(1, 120_000)))
    [open_key] = taken(machine)
    machine.hand_over("b")
    assert machine.ask(open_key)[0] is Asked.OPEN
    assert machine.ask(key(1, 120_000))[0] is Asked.WAITING
    machine.guard({open_key: NOW_MS + 5_000}, NOW_MS, CarryReason.HAND_OVER)
    released(machine, settled(machine, list(machine.flush())))
    assert machine.ask(key(1, 120_000))[0] is Asked.UNKNOWN


def test_a_row_that_is_adopted_in_the_last_step_is_met_by_the_successor() -> None:
    machine = hot(stored=control(verified_ms=500, closing_ms=2_000))
    machine.hand_over("b")
    value = released(machine, list(machine.tick(NOW_MS)))
    assert machine.offer(rows(key(0, 1_999)), 0) is Offered.BELOW_FLOOR
    assert machine.offer(rows(key(1, 2_000)), 0) is Offered.ADOPTED
    assert value.verified_ms == START_MS + 2_000


def test_a_partition_of_a_living_holder_is_not_taken() -> None:
    stored = replace(control(), incarnation=3)
    machine = PartitionMachine(HERE, Settings("me", incarnation=4), Memory(1 << 30), lambda _: False)
    machine.start()
    assert machine.control_read(stored, NOW_MS) == []
    assert machine.phase is Phase.REFUSED


def test_the_next_holder_has_a_token_and_an_incarnation_of_its_own() -> None:
    free = control().released("me", START_MS, START_MS, ())
    machine = PartitionMachine(HERE, Settings("me", "here:1", incarnation=4), Memory(1 << 30))
    machine.start()
    [change] = machine.control_read(free, NOW_MS)
    assert isinstance(change, ChangeControl)
    value = change.value
    assert (value.holder, value.address, value.incarnation, value.successor) == ("me", "here:1", 4, "")
    assert value.token > free.token


def test_who_is_still_loading_need_not_load_the_rest() -> None:
    machine, _ = acquired(control(verified_ms=500, closing_ms=2_000))
    machine.hand_over("b")
    assert released(machine, list(machine.tick(NOW_MS))).verified_ms == START_MS + 500


def test_what_an_earlier_holder_carried_is_written_before_the_partition_goes_on() -> None:
    gone = Carry(key(0), CarryReason.RETRY, HERE, NOW_MS, 1)
    record = SettleRecord(HERE, 5, 0, settle_entries([(key(0), Outcome.CARRIED)]), (gone,))
    machine, _ = acquired(control(), [record])
    machine.hand_over("b")
    assert machine.phase is Phase.LOAD
    [again] = only(machine.page_read(page(rows(key(0))), NOW_MS), WriteCarried)
    assert isinstance(again, WriteCarried)
    machine.hand_over("b")
    assert machine.tick(NOW_MS) == []
    machine.carried_written(again.sequence)
    released(machine, list(machine.tick(NOW_MS)))


def test_the_control_row_of_one_who_is_alone_is_written_as_before() -> None:
    assert b"incarnation" not in control().to_bytes()
    assert Control.from_bytes(replace(control(), incarnation=2, successor="b").to_bytes()).successor == "b"


def test_rows_that_wait_for_a_silent_holder_elsewhere_do_not_hold_up_a_hand_over() -> None:
    """Nothing is sent during one, and he may stay away for hours: the successor goes on from their record."""
    machine = hot(rows(key(0), key(1)), stored=control(closing_ms=30_000))
    taken(machine)
    machine.end([Ended(HERE, key(0), Outcome.ACKED)])
    machine.again([Again(HERE, key(1), START_MS + 400_000, NOW_MS, "no")])
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    [carried] = machine.settled_written(write.record)
    assert isinstance(carried, WriteCarried)
    machine.hand_over("b")
    assert machine.tick(NOW_MS) == []
    machine.log.carried_waits(carried.sequence)
    value = released(machine, list(machine.tick(NOW_MS)))
    assert value.verified_ms <= key(1).position_ms
