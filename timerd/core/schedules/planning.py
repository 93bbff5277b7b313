"""Which instants come next: the one place where a clock and a recurrence are asked. What comes out is recorded before
anything follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from timerd.core.schedules.occurrences import GRACE_MS, OVER_MS, row_prefix
from timerd.core.schedules.spec_times import SpecTimes
from timerd.core.schedules.world import World
from timerd.model.partition import bucket_of
from timerd.model.schedules import (
    CatchUp,
    Definition,
    Policies,
    Recorded,
    Schedule,
    ScheduleState,
    Slot,
    Tick,
    share_of,
)

# So long before its first instant a window is recorded, so that its rows are loaded when they are due.
LEAD_MS = 120_000
WINDOW_MS = 60_000
# What is nearer than the lead has a window that grows by as much as there is time for: of many schedules that begin at
# one time, what is due first is written first.
FIRST_WINDOW_MS = 8_000
GROWTH = 3
MOST_IN_WINDOW = 1_000
# Ticks that record one instant each are due together, so much earlier at most: what is worked together shares its trips
# to the store. Those of longer windows have work enough by themselves.
TOGETHER_MS = 4_000
# What is over is gone through so many instants at a time.
MOST_MISSED = 10_000
LAST_MS = 1 << 62


def next_instants(entry: Schedule, times: SpecTimes, count: int) -> list[int]:
    """Those that this revision has yet to record: none that the revision before has started, or was to fire."""
    found: list[int] = []
    at_ms = entry.cur_ms
    while len(found) < count:
        asked = count - len(found)
        instants = times.after(at_ms, asked)
        found += [each for each in instants if _is_own(entry, times, each)]
        if len(instants) < asked:
            return found
        at_ms = instants[-1]
    return found


def _is_own(entry: Schedule, times: SpecTimes, instant_ms: int) -> bool:
    if instant_ms in entry.taken:
        return False
    if instant_ms > entry.since_ms:
        return True
    following = times.after(instant_ms, 1)
    next_ms = following[0] if following else LAST_MS
    return times.fire_at_ms(bytes.fromhex(entry.uid), instant_ms, next_ms) > entry.since_ms


class PlanOutlook(NamedTuple):
    """What a record has to decide: instants that come next, and how many of those before get no task. `walked_to_ms`:
    these are too many for one record, which counts those up to there; 0: they are not."""

    following: Sequence[int]
    missed: int
    walked_to_ms: int = 0


def outlook(entry: Schedule, definition: Definition, times: SpecTimes, now_ms: int) -> PlanOutlook:
    upcoming = _upcoming(entry, times, now_ms)
    late = _late(entry, times, upcoming, now_ms)
    missed = _missed(definition.policies, late, now_ms)
    if not missed:
        return PlanOutlook(upcoming, 0)
    reached_ms = late[missed - 1]
    if len(late) > MOST_MISSED:
        return PlanOutlook((), missed, reached_ms)
    return PlanOutlook(_upcoming(replace(entry, cur_ms=reached_ms), times, now_ms), missed)


def plan(entry: Schedule, definition: Definition, times: SpecTimes, world: World, tick: Tick) -> Schedule:
    """W1: the next record after that of tick `tick`. Without a further instant there is no tick, and it is DONE; so
    it is where a change finds as many tasks as there may be."""
    if not entry.remaining:
        return replace(entry, seq=entry.seq + 1, win=0, error="", tick=(), state=ScheduleState.DONE)
    seen = outlook(entry, definition, times, world.now_ms())
    if seen.walked_to_ms:
        return walked(entry, seen, world, tick)
    return _recorded(entry, seen.following, seen.missed, times, world, tick)


def _upcoming(entry: Schedule, times: SpecTimes, now_ms: int) -> list[int]:
    """All of a window and the one behind it, and not many more: of a daily schedule a thousand would be three years."""
    count = 2
    while True:
        found = next_instants(entry, times, count)
        on_time = next((each for each in found if each > now_ms), None)
        is_enough = on_time is not None and found[-1] >= _until_ms(on_time, now_ms)
        if is_enough or len(found) < count or count > MOST_IN_WINDOW:
            return found
        count = min(_more(found, now_ms, count), MOST_IN_WINDOW + 2)


def _more(found: Sequence[int], now_ms: int, count: int) -> int:
    """As many as there are until the end of the window if they go on as they began: each costs its time."""
    pace_ms = (found[-1] - found[0]) / (count - 1)
    until_ms = _until_ms(max(found[0], now_ms), now_ms)
    return max(2 * count, min(8 * count, int((until_ms - found[0]) / pace_ms) + 2))


def _until_ms(on_time: int, now_ms: int) -> int:
    """The end of a window whose first instant that is not over is this one."""
    until_ms = max(on_time, now_ms + LEAD_MS) + WINDOW_MS
    near_ms = on_time - now_ms
    return min(until_ms, on_time + max(FIRST_WINDOW_MS, GROWTH * near_ms)) if near_ms < LEAD_MS else until_ms


def _late(entry: Schedule, times: SpecTimes, upcoming: Sequence[int], now_ms: int) -> Sequence[int]:
    """Those that are over; more than MOST_MISSED: there may be others."""
    if upcoming and upcoming[-1] <= now_ms:
        upcoming = next_instants(entry, times, MOST_MISSED + 1)
    return [each for each in upcoming if each <= now_ms]


def _missed(policies: Policies, late: Sequence[int], now_ms: int) -> int:
    """How many of those that are over get no task, the oldest first."""
    if policies.catch_up is CatchUp.LATEST:
        return max(0, len(late) - 1)
    if policies.catch_up is CatchUp.NONE:
        return sum(each < now_ms - GRACE_MS for each in late)
    too_old = sum(each < now_ms - policies.window_ms for each in late) if policies.window_ms else 0
    return max(too_old, len(late) - policies.most)


def walked(entry: Schedule, seen: PlanOutlook, world: World, tick: Tick) -> Schedule:
    """A part of what was missed in a long outage: the next tick goes on at once."""
    seq = entry.seq + 1
    counted = replace(entry, seq=seq, win=0, cur_ms=seen.walked_to_ms, missed=entry.missed + seen.missed, error="")
    return replace(counted, tick=tick_place(replace(tick, number=seq), world.now_ms(), world))


def _recorded(
    entry: Schedule, upcoming: Sequence[int], missed: int, times: SpecTimes, world: World, tick: Tick
) -> Schedule:
    now_ms, seq = world.now_ms(), entry.seq + 1
    chosen = _chosen(entry, upcoming, now_ms)
    next_ms = upcoming[len(chosen)] if len(chosen) < len(upcoming) else 0
    remaining = entry.remaining - len(chosen) if entry.remaining >= 0 else -1
    nexts = [*chosen[1:], next_ms or LAST_MS][: len(chosen)]
    slots = [slot_of(entry, times, world, *each) for each in zip(chosen, nexts, strict=True)]
    if slots and missed:
        slots[0] = slots[0]._replace(missed=missed)
    cur_ms = chosen[-1] if chosen else entry.cur_ms
    next_tick: tuple[int, ...] = ()
    if next_ms and remaining:
        due_ms = tick_due_ms(entry.uid, next_ms, next_ms - cur_ms)
        next_tick = tick_place(replace(tick, number=seq), max(due_ms, now_ms), world)
    return replace(
        entry,
        state=entry.state if next_tick else ScheduleState.DONE,
        seq=seq,
        win=len(slots),
        ahead=ahead_of(entry, slots, next_ms, now_ms),
        tick=next_tick,
        cur_ms=cur_ms,
        created=entry.created + len(slots),
        missed=entry.missed + missed,
        remaining=remaining,
        error="",
        tzdata=world.tzdata,
    )


def _chosen(entry: Schedule, upcoming: Sequence[int], now_ms: int) -> Sequence[int]:
    """All of the window, or the one next instant; no more than there may be tasks."""
    on_time = next((each for each in upcoming if each > now_ms), now_ms)
    until_ms = _until_ms(on_time, now_ms)
    most = min(MOST_IN_WINDOW, entry.remaining) if entry.remaining >= 0 else MOST_IN_WINDOW
    within = [each for each in upcoming if each < until_ms]
    return (within or upcoming[:1])[:most]


def slot_of(entry: Schedule, times: SpecTimes, world: World, instant_ms: int, next_ms: int) -> Slot:
    fire_at_ms = times.fire_at_ms(bytes.fromhex(entry.uid), instant_ms, next_ms)
    place_ms = max(fire_at_ms, world.now_ms())
    slot = Slot(instant_ms, fire_at_ms, place_ms, 0)
    return slot._replace(shard=world.shard_of(row_prefix(entry.uid, entry.revision, slot), bucket_of(place_ms)))


def ahead_of(entry: Schedule, slots: Sequence[Slot], next_ms: int, now_ms: int) -> Recorded:
    """What of the records before is not over for a second, and these."""
    before = entry.ahead
    over = [slot for slot in before.slots if slot.place_ms <= now_ms - OVER_MS]
    kept = before.slots[len(over) :]
    before_ms = over[-1].instant_ms if over else before.before_ms
    return Recorded(entry.revision, entry.attempt, before_ms, next_ms, (*kept, *slots))


def lead_ms(uid: str, gap_ms: int) -> int:
    """Spread over up to half an hour: a million schedules of one midnight are not expanded in one minute."""
    return LEAD_MS + int(share_of(uid) * min(gap_ms / 8, 1_800_000))


def tick_due_ms(uid: str, next_ms: int, gap_ms: int) -> int:
    """Of the tick that records the next instant. `gap_ms`: since the one before."""
    due_ms = next_ms - lead_ms(uid, gap_ms)
    return due_ms - due_ms % TOGETHER_MS if gap_ms >= WINDOW_MS else due_ms


def tick_place(tick: Tick, place_ms: int, world: World) -> tuple[int, int]:
    return place_ms, world.shard_of(tick.prefix, bucket_of(place_ms))


def first_tick_place(tick: Tick, entry_cur_ms: int, times: SpecTimes, world: World) -> tuple[int, int]:
    """Of a revision that goes on from `cur`: at once, or with the lead of its first instant."""
    now_ms = world.now_ms()
    upcoming = times.after(entry_cur_ms, 1)
    due_ms = tick_due_ms(tick.uid, upcoming[0], upcoming[0] - now_ms) if upcoming else now_ms
    return tick_place(tick, max(now_ms, due_ms), world)
