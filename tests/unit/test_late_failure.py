"""Which waiting row stands for a delivery that is no longer open, and where its next attempt may live."""

from __future__ import annotations

import pytest

from tests.unit.partition_rig import HERE, MAIL, hot, taken
from timerd.core.protocol.late_failure import free_position, waits_for
from timerd.core.protocol.lookup import Located
from timerd.core.protocol.procedures import Ending, Find
from timerd.core.taken import Again, Ended
from timerd.model.identity import RowKey
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.registers import Place
from timerd.model.rows import FLAG_CARRIED, RowGroup, single_row
from timerd.model.settle import Outcome
from timerd.model.storage import Found
from timerd.model.task import NO_EXTRA, Extra, Template

PLACE = Partition(0, 0, 0)
DIGEST = b"d" * 16
GENERATION = 1 << 16


def row(position_ms: int, version: int, lease_until_ms: int = 0) -> RowGroup:
    key = RowKey(position_ms, DIGEST, version)
    return single_row(key, 1_000, Template("default", "q"), b"", Extra(lease_until_ms=lease_until_ms), 0)


@pytest.mark.parametrize(
    ("version", "lease_until_ms", "ended", "stands"),
    [
        (1, 9_000, None, True),
        (0, 0, None, True),
        (1, 0, None, False),
        (2, 9_000, None, False),
        (GENERATION, 0, None, False),
        (1, 9_000, Outcome.ACKED, False),
    ],
    ids=["carried with its lease", "never carried", "next attempt", "one after it", "moved", "ended"],
)
def test_the_row_that_stands_for_a_delivery(
    version: int, lease_until_ms: int, ended: Outcome | None, stands: bool
) -> None:
    rows = row(5_000, version, lease_until_ms)
    here = Located(Place(PLACE, RowKey(5_000, DIGEST, version)), rows, (), Ending(ended), None, None)
    assert waits_for(here, RowKey(1_000, DIGEST, 0)) is stands


def test_the_next_attempt_does_not_live_where_its_row_ended_before() -> None:
    """That row is settled there: the next attempt would be taken for it and never fire."""
    again = Again(PLACE, RowKey(1_000, DIGEST, 0), BUCKET_MS - 1, 4_000, "no")
    procedure = free_position(PLACE, again)
    assert next(procedure) == Find(PLACE, [(BUCKET_MS - 1, DIGEST)])
    follow = Partition(0, BUCKET_MS, 0)
    assert procedure.send([Found(row(BUCKET_MS - 1, 1))]) == Find(follow, [(BUCKET_MS, DIGEST)])
    with pytest.raises(StopIteration) as end:
        procedure.send([Found(row(BUCKET_MS, 0))])
    assert end.value.value == BUCKET_MS


def test_the_next_attempt_does_not_go_back_to_an_earlier_bucket() -> None:
    """Carried on to the end of a lease from there, it would be the row that has waited and ended here."""
    procedure = free_position(
        PLACE._replace(bucket_ms=BUCKET_MS), Again(PLACE, RowKey(1_000, DIGEST, 0), 2_000, 2_000, "")
    )
    assert next(procedure) == Find(Partition(0, BUCKET_MS, 0), [(BUCKET_MS, DIGEST)])


@pytest.mark.parametrize(("flags", "is_copy"), [(0, True), (FLAG_CARRIED, False)], ids=["said again", "carried on"])
def test_a_copy_of_what_was_acked_is_not_carried_on_by_a_late_failure(flags: int, *, is_copy: bool) -> None:
    """It ends as the row that was acked when it is met; as the next attempt it would fire."""
    acked = RowKey(HERE.bucket_ms + 1_000, DIGEST, 0)
    copy = acked._replace(position_ms=acked.position_ms + 500)
    machine = hot(single_row(acked, 1_000, MAIL, b"", NO_EXTRA, 0), remembered=100)
    assert taken(machine) == [acked]
    machine.end([Ended(HERE, acked, Outcome.ACKED)])
    assert machine.is_copy_of_ended(copy, flags) == is_copy
