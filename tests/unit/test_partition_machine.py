"""What a story does not say of the life of one held partition: the rest stands in tests/scenarios/partition."""

from __future__ import annotations

import pytest

from tests.unit.partition_rig import (
    HERE,
    MAIL,
    NOW_MS,
    START_MS,
    hot,
    key,
    only,
    page,
    rows,
    taken,
)
from timerd.adapters.memory import MemoryStore
from timerd.core.partition.carry import carried_row, retry_carry
from timerd.core.partition.effects import (
    ChangeControl,
    WriteCarried,
    WriteSettled,
)
from timerd.core.partition.holding import HoldingSettings
from timerd.core.partition.memory import Memory
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.taken import Again, Ended
from timerd.model.partition import TIME_SCOPE, bucket_of
from timerd.model.registers import Control
from timerd.model.rows import FLAG_CARRIED
from timerd.model.settle import Outcome
from timerd.model.storage import CasStatus


@pytest.mark.parametrize("seen", [None, 5, 3_000_000_000])
def test_the_token_grows_and_is_never_below_the_seconds_of_the_wall(seen: int | None) -> None:
    machine = PartitionMachine(HERE, HoldingSettings("me", traits=MemoryStore.traits), Memory(1 << 30))
    stored = Control(seen, "old", "", START_MS, START_MS) if seen is not None else None
    [change] = machine.control_read(stored, NOW_MS)
    assert isinstance(change, ChangeControl)
    assert change.value.token == max((seen or 0) + 1, NOW_MS // 1000)


def test_what_failed_together_is_carried_together() -> None:
    """Ten thousand rows that a dead worker had in hand are a few groups, and each row says what it would say alone."""
    keys = [key(item, after_ms=item) for item in range(6)]
    sent = rows(*keys)
    machine = hot(sent)
    assert taken(machine) == keys
    machine.cancel(keys[1], Outcome.CANCELLED, b"r")
    near, far = NOW_MS, START_MS + 400_000
    failed = [Again(HERE, each, far if n == 4 else near, NOW_MS, "no") for n, each in enumerate(keys)]
    machine.again([*failed, failed[0]])
    [record] = machine.flush()
    assert isinstance(record, WriteSettled)
    assert dict(record.record.outcomes()) == {
        each: Outcome.CANCELLED if each == keys[1] else Outcome.CARRIED for each in keys
    }
    [write] = machine.settled_written(record.record)
    assert isinstance(write, WriteCarried)
    assert [(target.bucket_ms, len(group)) for target, group in write.groups] == [
        (bucket_of(near), 4),
        (bucket_of(far), 1),
    ]
    alone = [carried_row(sent, n, HERE, retry_carry(HERE, failed[n])).pack_keys() for n in (0, 2, 3, 5, 4)]
    assert [group.one(n).pack_keys() for _, group in write.groups for n in range(len(group))] == alone


def test_when_all_that_ended_is_verified_the_marks_rest_until_something_stirs() -> None:
    """Each would be a transaction, and a store that writes every second gives no memory back."""
    machine = hot(rows(key(0)))
    [sent] = taken(machine)
    machine.end([Ended(HERE, sent, Outcome.ACKED)])
    [written] = only(machine.flush(), WriteSettled)
    assert isinstance(written, WriteSettled)
    machine.settled_written(written.record)
    changes = 0
    for second in range(1, 20):
        now_ms = NOW_MS + second * 1_000
        for effect in machine.tick(now_ms):
            if isinstance(effect, ChangeControl):
                changes += 1
                machine.control_changed(CasStatus.APPLIED, now_ms)
            if machine._sweep.is_reading:
                machine.page_read(page(), now_ms)
    assert machine.control is not None
    assert machine.control.verified_ms == machine.control.closing_ms > sent.position_ms
    assert changes <= 3


@pytest.mark.parametrize("scope", [TIME_SCOPE, MAIL.scope], ids=["carried", "parked"])
def test_a_carry_that_is_written_once_more_after_an_error_is_not_there_twice(scope: int) -> None:
    """The store has its rows under the name of the first time; what came after them failed."""
    machine = PartitionMachine(
        HERE._replace(scope=scope), HoldingSettings("me", traits=MemoryStore.traits), Memory(1 << 30)
    )
    machine.start()
    machine.control_read(None, NOW_MS)
    machine.control_changed(CasStatus.APPLIED, NOW_MS)
    machine.settled_read([], NOW_MS)
    machine.page_read(page(cursor=3), NOW_MS)
    for _ in range(2):
        machine.hint(rows(key(0), flags=FLAG_CARRIED if scope == TIME_SCOPE else 0), source=4)
    machine.hint(rows(key(1), flags=FLAG_CARRIED), source=4)
    assert sorted(taken(machine)) == [key(0), key(1)]
