"""A task is moved while somebody looks for it: who read where it was finds a row that was moved away, and no end."""

from __future__ import annotations

from tests.property.world import START_MS, World, done
from tests.unit.procedure_rig import run
from timerd.core.protocol.lookup import Located, locate
from timerd.core.protocol.move import Wish, move_task
from timerd.core.protocol.procedures import Procedure
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.rows import single_row
from timerd.model.settle import Outcome, SettleRecord, settle_entries
from timerd.model.storage import Append
from timerd.model.task import NO_EXTRA, Template

HERE = Partition(0, START_MS, 0)
TASK = TaskId(START_MS + 1_000, 0, Template("default", "q").scope, 0, b"p" * 12, 3, b"m" * 8)
FIRST = RowKey(TASK.position_ms, TASK.digest, 0)
WISH = Wish("w", START_MS + BUCKET_MS + 9_000, START_MS + 500, 86_400_000)


def begun(world: World, looking: Procedure[Located]) -> object:
    """Where the task is has been read: it was not moved."""
    return done(world.runner.perform(next(looking)))


def ended(world: World, looking: Procedure[Located], answer: object) -> Located:
    try:
        while True:
            answer = done(world.runner.perform(looking.send(answer)))
    except StopIteration as over:
        found: Located = over.value
        return found


def test_a_task_that_is_moved_while_it_is_looked_for_has_not_ended() -> None:
    """Who would take its key over finds it where it is, and ends it there."""
    world = World()
    world.runner.knows_all = False
    row = single_row(FIRST, FIRST.position_ms, Template("default", "q"), b"", NO_EXTRA, 0)
    done(world.store.append([Append(((HERE, row),))]))
    looking = locate(TASK, durable=True)
    answer = begun(world, looking)
    assert run(world, move_task(TASK, WISH)) == WISH.fire_at_ms
    # Its holder has read that it was moved away.
    done(world.store.settle([SettleRecord(HERE, 1, 0, settle_entries([(FIRST, Outcome.MOVED)]), ())]))
    here = ended(world, looking, answer)
    assert (here.place.key.position_ms, here.ending.outcome) == (WISH.fire_at_ms, None)
