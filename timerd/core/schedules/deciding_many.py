"""What is decided at one moment where occurrences must not run beside each other, together, each as by itself
(chain.py): the clock, THEN a look at what is open of each (O2), THEN a compare-and-set each (W1, O1), THEN what the
records cancel, THEN their rows, THEN their next ticks.

Whose look or cancel fails, or whose record is refused, is left to `run_tick`, which finds what it has recorded. No
other one waits for that.
"""

from __future__ import annotations

from collections.abc import Sequence

from timerd.core.protocol import Procedure, side_by_side
from timerd.core.schedules.chain import Ticked, watch_if_waiting
from timerd.core.schedules.opened import finish, look
from timerd.core.schedules.overlap import decide
from timerd.core.schedules.recording_many import ReadTick, RecordedTick, complete_many, record_many
from timerd.core.schedules.spec_times import times_now
from timerd.core.schedules.world import World
from timerd.model.schedules import Schedule


def decide_many(read: Sequence[ReadTick], world: World) -> Procedure[list[Ticked | None]]:
    """Each schedule once. None: it is to be worked by itself. Raises as `run_ticks`."""
    now = world.at_one_moment()
    looking = [look(each.tick.schedule_id, each.entry, each.definition, world) for each in read]
    looked = yield from side_by_side(looking)
    decided = [_decided(each, found, now) for each, found in zip(read, looked, strict=True)]
    applied = yield from record_many([each for each in decided if each is not None], world)
    finished = yield from _finished(applied, world)
    yield from complete_many(finished, world)
    for each in finished:
        tick = each.read.tick
        watch_if_waiting(tick.namespace, tick.schedule_id, each.entry, each.read.definition, world)
    done = {each.read.key for each in finished}
    return [Ticked.RECORDED if each.key in done else None for each in read]


def _decided(read: ReadTick, looked: Schedule | Exception | None, now: World) -> RecordedTick | None:
    """None: it was not to be seen whether it is open, or by itself it says what is wrong with it."""
    if not isinstance(looked, Schedule):
        return None
    tick, definition = read.tick, read.definition
    try:
        times = times_now(looked, definition.spec, now.times(tick.schedule_id, definition))
        return RecordedTick(read, decide(looked, definition, times, now, tick).by_tzdata(now.tzdata))
    except Exception:  # noqa: BLE001 - one that is wrong fails by itself, and no other one
        return None


def _finished(applied: Sequence[RecordedTick], world: World) -> Procedure[list[RecordedTick]]:
    """Those of which all is cancelled that their records cancel."""
    finishing = [finish(read.tick.schedule_id, entry, read.definition, world) for read, entry in applied]
    said = yield from side_by_side(finishing)
    return [each for each, ended in zip(applied, said, strict=True) if not isinstance(ended, Exception)]
