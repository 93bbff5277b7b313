"""A mover gets ten looks before it is taken for dead: each mover its own."""

from __future__ import annotations

from timerd.core.partition.effects import FailMove
from timerd.core.partition.move_watch import MOST_LOOKS, MoveWatch
from timerd.model.identity import ATTEMPT_BITS, RowKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import Move, MoveState, Place

PARTITION = Partition(TIME_SCOPE, 0, 0)
DIGEST = bytes(16)


def moving(generation: int) -> Move:
    source = Place(PARTITION, RowKey(1_000, DIGEST, 0))
    target = Place(PARTITION, RowKey(2_000, DIGEST, generation << ATTEMPT_BITS))
    return Move(generation, MoveState.MOVING, source, target, "request", 2_000, 2_000, 0)


def test_a_mover_that_left_is_not_waited_for() -> None:
    watch = MoveWatch(PARTITION)
    for _ in range(MOST_LOOKS):
        assert watch.undecided(DIGEST, moving(1)) == []
    assert watch.undecided(DIGEST, moving(1)) == [FailMove(PARTITION, DIGEST, moving(1))]


def test_the_next_mover_has_as_long_as_the_first() -> None:
    """A caller repeats its call: the new move is not to fail because the old one was given up."""
    watch = MoveWatch(PARTITION)
    for _ in range(MOST_LOOKS):
        watch.undecided(DIGEST, moving(1))
    assert watch.undecided(DIGEST, moving(2)) == []
