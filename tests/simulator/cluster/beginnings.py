"""How the histories of `forms.py` begin: one scene or a few, in which calls, workers and faults meet closely."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tests.simulator.chances import QUEUES
from tests.simulator.cluster.forms import ClusterForm, is_second
from tests.simulator.cluster.store import Trap
from tests.simulator.events import Wanted
from timerd.model.identity import message_prefix
from timerd.model.partition import BUCKET_MS, bucket_of, shard_of

if TYPE_CHECKING:
    from tests.simulator.cluster.instance import Instance
    from tests.simulator.cluster.story import ClusterStory

FAR_MS = 400_000
KILLS = ("kill_instance",)
KEEPS = (("extend",), ("late ack",), ("late nack",), ("long nack",), ("late nack", "late ack", "nack", "extend"))


async def begin(story: ClusterStory) -> None:
    if story.shape is not ClusterForm.ANY:
        await _BEGINNINGS[story.shape](story)


# -- scenes -----------------------------------------------------------------------------------------------------------


async def _hold_up_a_mark(story: ClusterStory) -> None:
    story.hire(("ack",), QUEUES)
    for n in range(story.random.choice((1, 2, 3))):
        _write(story, f"f{n}", (0, 200, 1_000, 2_500), story.random.choice((3, 5)))
        await _rest(story, 100, 600, 1_500)
        if holders := _holders(story):
            _stall(story, story.random.choice(holders))
        await asyncio.sleep(3 * story.timing.ttl_ms / 1000)


async def _write_at_the_floor(story: ClusterStory) -> None:
    """What queue a gets is acknowledged or tried again at once, so the marks follow closely."""
    chance = story.random.choice
    if is_second(story.seed):
        await _write_behind_the_marks(story)
        return
    story.hire(chance((("ack",), ("ack", "nack"), ("nack", "late nack", "ack"))), ("a",))
    for n in range(chance((8, 14))):
        _write(story, f"f{n}", (0, 0, -50), 1, ("a", "a", "b"))
        _later(story, chance((700, 2_500, 5_000)), partial(_call, story, f"f{n}", f"c{n}"))
        await _rest(story, 30, 50, 130, 250)
        if n % 6 == 5:
            _strike(story, ("control", "append", "cas"), (2, 4), ("kill_instance", "kill_instance", "pause"))
    await _rest(story, 500, 4_000)


async def _write_behind_the_marks(story: ClusterStory) -> None:
    """Nobody works queue b: its one row is open when its holder dies. It comes to the store late."""
    chance = story.random.choice
    story.hire(("ack",), ("a",))
    for n in range(chance((3, 5))):
        for m in range(chance((5, 8))):
            _write(story, f"a{n}.{m}", (0,), 1, ("a",))
            await _rest(story, 30, 90, 150)
        _hold_up_rows(story, (100, 200, 300, 450, 600))
        _write(story, f"b{n}", (0,), 1, ("b",))
        await _rest(story, 900, 1_400)
        for holder in _holders(story):
            story.kill_instance(holder)
        await asyncio.sleep(1.7 * story.timing.ttl_ms / 1000)


async def _write_at_the_end(story: ClusterStory) -> None:
    """One shard is known; the other has its first rows when its bucket is over, or as good as over."""
    chance = story.random.choice
    story.hire(("ack",), QUEUES)
    border_ms = bucket_of(int(story.loop.now_ms)) + BUCKET_MS
    _write(story, "first", (100,), 1, shard=0)
    is_second_kind = is_second(story.seed)
    before_ms = (50, 300, 900, 1_400) if is_second_kind else (10, 40, 90, 150)
    await asyncio.sleep((border_ms - story.loop.now_ms - chance(before_ms)) / 1000)
    if not is_second_kind and story.weather.slow_ms:
        _hold_up_rows(story, (1_100, 1_300, 1_450))
    for n in range(chance((4, 8)) if is_second_kind else 1):
        _write(story, f"f{n}", (max(0, border_ms - 1 - int(story.loop.now_ms)),), 1, ("a",), shard=1)
        await _rest(story, 1, 30, 100)
    if is_second_kind:
        for instance in story.serving()[: chance((0, 1, 1))]:
            _later(story, chance((1_400, 1_600, 2_000, 2_500)), partial(story.kill_instance, instance))
    await _rest(story, 1_000, 4_000)


async def _call_at_once(story: ClusterStory) -> None:
    """For the same few tasks, from several instances, while the holder changes."""
    chance = story.random.choice
    habits: Sequence[tuple[str, ...]] = (("ack",), ("nack", "ack"))
    if is_second(story.seed):
        habits = (("ack",), ("ack", "ack at the end"), ("extend", "ack"))
        await _move_in_the_last_moment(story)
    story.hire(chance(habits), QUEUES)
    # What is far has no holder.
    in_ms = (700, 1_000, FAR_MS) if is_second(story.seed) else (1_000, 2_500, 4_000)
    for n in range(chance((2, 3, 4))):
        _write(story, f"f{n}", in_ms, 2)
        await _rest(story, 300, 900)
        _later(story, chance((0, 50, 300)), partial(_change_holder, story))
        for call in range(chance((3, 5, 7))):
            _later(story, chance((0, 1, 50, 400, 900, 1_500)), partial(_call, story, f"f{n}", f"c{n}.{call}"))
        await _rest(story, 1_500, 3_000)


async def _move_in_the_last_moment(story: ClusterStory) -> None:
    """Twice, the second time while the holder, who hears all late, still asks what became of the first."""
    chance = story.random.choice
    story.hire(("ack",), QUEUES)
    _write(story, "l", (1_500, 1_600), 4)
    await asyncio.sleep(1)
    for holder in _holders(story):
        holder.store.lag_ms = chance((0, 300, 600))
    for n, name in enumerate([each for each in story.ids if each.startswith("l.")]):
        due_ms = story.ids[name].position_ms
        left_ms = due_ms - story.loop.now_ms - chance((5, 15, 30, 60))
        again_ms = int(due_ms + chance((700, 900, 1_200)))
        _later(story, left_ms, partial(_move, story, f"l{n}.1", name, again_ms))
        _later(story, left_ms + chance((100, 200, 300, 450)), partial(_move, story, f"l{n}.2", name, again_ms + 3_000))
    await asyncio.sleep(3)
    for instance in story.serving():
        instance.store.lag_ms = 0.0


def _move(story: ClusterStory, request: str, name: str, fire_at_ms: int) -> None:
    story.spawn(story.move(request, name, fire_at_ms))


async def _leave_and_come(story: ClusterStory) -> None:
    """Each time whoever holds what is due."""
    chance = story.random.choice
    for _ in range(2):
        story.hire(chance((("ack",), ("ack",), *KEEPS)), QUEUES)
    for n in range(chance((2, 4))):
        _write(story, f"f{n}", (0, 100, 700, 2_000, 9_000), chance((2, 4)))
        await _rest(story, 50, 150, 900, 1_800)
        if len(story.instances) < 3:
            story.start_instance(f"i{story.begun}")
            await _rest(story, 500, 1_500)
        if holders := _holders(story):
            story.spawn(story.stop_instance(chance(holders)))
        _later(story, chance((0, 10, 200)), partial(_call, story, f"f{n}", f"c{n}"))
        await _rest(story, 1_000, 3_000)


async def _end_in_the_midst(story: ClusterStory) -> None:
    chance = story.random.choice
    story.hire(chance((("ack",), ("nack", "ack"), ("nack",), ("long nack", "nack"))), QUEUES)
    for n in range(chance((2, 3))):
        _write(story, f"f{n}", (0, 100, 500), chance((2, 4)))
        await _rest(story, 10, 60, 300)
        if chance((True, False)) and (holders := _holders(story)):
            story.cut_off(chance(holders), story.timing.ttl_ms + 3_000)
        else:
            kinds = ("settle", "settle", "append", "facts", "control")
            _strike(story, kinds, (1, 2, 3), ("kill_instance", "kill_instance", "pause"))
        await asyncio.sleep(2.5 * story.timing.ttl_ms / 1000)


async def _call_unheard(story: ClusterStory) -> None:
    """Everybody asks who holds it while that changes, or is cut off from whoever does."""
    chance = story.random.choice
    story.hire(("ack",), QUEUES)
    if len(story.instances) < 3:
        story.start_instance("z")
        await _rest(story, 1_500)
    for n in range(chance((2, 3, 4))):
        _write(story, f"f{n}", (300, 900, 1_500, 3_000), chance((2, 4)))
        await _rest(story, 100, 600)
        holders = _holders(story)
        if holders and is_second(story.seed):
            await _cancel_unheard(story, holders[0], f"f{n}")
        elif len(holders) > 0 and chance((True, False)):
            for other in [each for each in story.serving() if each is not holders[0]]:
                story.cut(holders[0].name, other.name)
        elif holders:
            _later(story, chance((0, 300)), partial(_change_holder, story))
        for call in range(chance((2, 4))):
            _later(story, chance((0, 100, 500, 1_500, 3_500)), partial(_call, story, f"f{n}", f"c{n}.{call}"))
        await _rest(story, 1_500, 4_000, 6_000)


async def _cancel_unheard(story: ClusterStory, holder: Instance, request: str) -> None:
    """Who has just not been heard is not asked again for a moment: the next answers come at once."""
    others = [each for each in story.serving() if each is not holder]
    for other in others:
        story.cut(holder.name, other.name)
    story.spawn(story.cancel(f"{request}.c", tuple(story.ids)[:1]))
    now_ms, names = int(story.loop.now_ms), [f"{request}.u{n}" for n in range(4)]
    wanted = [Wanted(now_ms + at_ms, "a") for at_ms in (2_200, 2_300, 2_450, 2_600)]
    for name, each in zip(names, wanted, strict=True):
        story.spawn(story.schedule(name, (name,), (each,)))
    await asyncio.sleep(2.05)
    for name in names:
        if name in story.ids:
            story.spawn(story.cancel(f"{name}.c", (name,)))
        await _rest(story, 20, 100)


async def _keep_for_long(story: ClusterStory) -> None:
    """Two have work, so that what one has is sent to the other where nobody knows of its lease."""
    chance = story.random.choice
    for _ in range(2):
        story.hire(chance(KEEPS), QUEUES)
    for n in range(chance((2, 3))):
        _write(story, f"f{n}", (0, 100, 900), chance((2, 3)))
        await _rest(story, 400, 1_500, 3_000)
        if chance((True, False)) and len(story.serving()) > 1 and (holders := _holders(story)):
            story.spawn(story.stop_instance(chance(holders)))
        await _rest(story, 2_000, 5_000)


# -- what they are made of --------------------------------------------------------------------------------------------


async def _rest(story: ClusterStory, *ms: float) -> None:
    await asyncio.sleep(story.random.choice(ms) / 1000)


def _later(story: ClusterStory, delay_ms: float, work: Callable[[], object]) -> None:
    story.loop.later(delay_ms, lambda: None if story.is_running_out else work())


def _write(
    story: ClusterStory,
    request: str,
    in_ms: Sequence[int],
    number: int,
    queues: Sequence[str] = QUEUES,
    shard: int | None = None,
) -> None:
    """`shard`: of two."""
    chance, now_ms = story.random.choice, int(story.loop.now_ms)
    names = tuple(f"{request}.{n}" for n in range(number))
    wanted = tuple(Wanted(now_ms + chance(in_ms), chance(queues)) for _ in names)
    while shard is not None and _shard_of(request, wanted) != shard:
        request += "+"
    story.spawn(story.schedule(request, names, wanted))


def _shard_of(request: str, wanted: tuple[Wanted, ...]) -> int:
    prefix = message_prefix("default", request, repr(wanted).encode())
    return shard_of(prefix, bucket_of(wanted[0].fire_at_ms), 2)


def _holders(story: ClusterStory) -> list[Instance]:
    """Who holds the bucket of now."""
    now_ms = int(story.loop.now_ms)
    machines = {each: each.node.scheduler.machines for each in story.serving()}
    return [each for each, held in machines.items() if any(bucket_of(now_ms) == p.bucket_ms for p in held)]


def _hold_up_rows(story: ClusterStory, late_ms: Sequence[float]) -> None:
    """The next that each sends."""
    for instance in story.serving():
        instance.store.trap = Trap("append", 1, lambda: None, story.random.choice(late_ms))


def _stall(story: ClusterStory, instance: Instance) -> None:
    """It is stopped just after it has sent a mark, and goes on at about the time when that comes to the store."""
    chance, timing = story.random.choice, story.timing
    late_ms = timing.ttl_ms + 2 * timing.heartbeat_ms + chance((500, 2_000))
    stop = partial(story.pause, instance, late_ms + chance((-300, 1, 50, 2_000)))
    instance.store.trap = Trap("control", chance((1, 3, 5)), partial(story.loop.later, 0, stop), late_ms)


def _strike(story: ClusterStory, kinds: Sequence[str], steps: Sequence[int], blows: Sequence[str]) -> None:
    """A holder, at that step at the store."""
    chance = story.random.choice
    if holders := _holders(story):
        instance = chance(holders)
        blow = partial(getattr(story, chance(blows)), instance)
        instance.store.trap = Trap(chance(kinds), chance(steps), partial(story.loop.later, 0, blow))


def _change_holder(story: ClusterStory) -> None:
    chance, holders = story.random.choice, _holders(story)
    if not holders:
        return
    instance, how = chance(holders), chance(("stop", "stop", "kill", "pause", "join"))
    if how == "join":
        story.start_instance(f"i{story.begun}")
    elif how == "stop":
        story.spawn(story.stop_instance(instance))
    else:
        (story.kill_instance if how == "kill" else story.pause)(instance)


def _call(story: ClusterStory, request: str, by: str) -> None:
    """For one or two of the tasks of a request that was answered."""
    chance, now_ms = story.random.choice, int(story.loop.now_ms)
    names = [name for name in story.ids if name.startswith(f"{request}.")]
    if not names:
        return
    if chance((True, False)):
        story.spawn(story.cancel(by, tuple(names[: chance((1, 1, 2))])))
    else:
        name = chance(names)
        for n in range(chance((1, 1, 2))):
            at_ms = now_ms + chance((0, 300, 1_000, 2_500))
            _move(story, f"{by}.{n}", name, at_ms)


_BEGINNINGS: dict[ClusterForm, Callable[[ClusterStory], Awaitable[None]]] = {
    ClusterForm.LATE: _hold_up_a_mark,
    ClusterForm.FLOOR: _write_at_the_floor,
    ClusterForm.END: _write_at_the_end,
    ClusterForm.MOVES: _call_at_once,
    ClusterForm.LEAVING: _leave_and_come,
    ClusterForm.CRASHES: _end_in_the_midst,
    ClusterForm.CANCELS: _call_unheard,
    ClusterForm.LEASES: _keep_for_long,
    ClusterForm.OVERRUN: _leave_and_come,
}
