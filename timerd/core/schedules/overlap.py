"""What a record decides where occurrences must not run beside each other (tests/models/overlap.pml).

One record decides one step: an occurrence is created, or what has come due is passed over, or waits. Ahead of its time
an instant is only created or left (O2), for what is open may end by then. All is decided by a clock that was read
before it was looked whether that has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from timerd.core.schedules.occurrences import row_prefix
from timerd.core.schedules.planning import LAST_MS, ahead_of, lead_ms, outlook, slot_of, tick_place, walked
from timerd.core.schedules.spec_times import SpecTimes
from timerd.core.schedules.world import World
from timerd.model.overlap import OpenedOccurrence, Overlap, OverlapState, WaitingInstant
from timerd.model.schedules import Definition, Schedule, ScheduleState, Slot, Tick
from timerd.model.settle import Outcome
from timerd.model.task import Template

# O3: an end may be told to nobody, so what waits is looked at so often.
POLL_MS = 10_000
# What is created ahead is open, and keeps triggers out, so it is so for a tenth of the gap at most.
LEAST_LEAD_MS = 5_000
# What was cancelled is over at once where nobody has it.
SOON_MS = 1_000
MOST_WAITING = 1_000


def is_guarded(entry: Schedule, definition: Definition) -> bool:
    """Under ALLOW what waits from before a change is created one by one as well."""
    return definition.policies.overlap is not Overlap.ALLOW or bool(entry.overlap.waiting)


def noted(entry: Schedule, definition: Definition, outcome: Outcome | None, now_ms: int) -> Schedule:
    """The one that was open has ended. Its dead letter may pause the schedule. A fixed delay counts from when that is
    known, and never from before its time."""
    state, policies = entry.overlap, definition.policies
    if state.open is None:
        return entry
    ended_ms = max(now_ms, state.open.instant_ms) if definition.spec.fixed_delay_ms else 0
    ended = replace(state, open=None, last=state.ended_with(outcome), ended_ms=ended_ms)
    is_halted = policies.pause_on_dead and outcome is Outcome.DEAD and entry.state is ScheduleState.ACTIVE
    if not is_halted:
        return replace(entry, overlap=ended)
    halted = replace(ended, halted_ms=state.open.instant_ms)
    return replace(entry, state=ScheduleState.PAUSED, overlap=halted)


def opened_of(entry: Schedule, slot: Slot, template: Template) -> OpenedOccurrence:
    prefix = row_prefix(entry.uid, entry.revision, slot).hex()
    place = (slot.place_ms, slot.shard, template.scope, template.priority)
    return OpenedOccurrence(prefix, *place, slot.instant_ms, entry.revision)


def decide(entry: Schedule, definition: Definition, times: SpecTimes, world: World, tick: Tick) -> Schedule:
    """W1, O1: the next record after that of tick `tick`. `entry`: what has ended is noted; what is open there is open.
    `world` has the clock of before the look."""
    step = Step(entry, definition, times, world, tick)
    if entry.state is ScheduleState.PAUSED:
        return step.recorded(entry, tick=())
    if not entry.remaining:
        return step.done(entry)
    seen = outlook(entry, definition, times, world.now_ms())
    passed = replace(entry.overlap, passed=entry.overlap.passed + seen.missed)
    entry = replace(entry, overlap=passed)
    if seen.walked_to_ms:
        return walked(entry, seen, world, tick)
    return step.taken(replace(entry, missed=entry.missed + seen.missed), seen.following)


@dataclass(frozen=True, slots=True)
class Step:
    """Of one record. `before`: what was read."""

    before: Schedule
    definition: Definition
    times: SpecTimes
    world: World
    tick: Tick

    def taken(self, entry: Schedule, following: Sequence[int]) -> Schedule:
        """What waits comes first: instants keep their order."""
        state = entry.overlap
        is_free = state.open is None or self._is_allowed
        if state.waiting and is_free:
            rest = replace(entry, overlap=replace(state, waiting=state.waiting[1:]))
            return self._created(rest, state.waiting[0], following)
        if following and is_free and self._lead_of(entry, following[0]) <= self._now_ms:
            first = WaitingInstant(following[0], state.passed)
            direct = replace(entry, cur_ms=first.instant_ms, overlap=replace(state, passed=0))
            return self._created(direct, first, following[1:])
        due = [] if is_free else self._due(entry, following)
        return self._passed_over(entry, due, following[len(due) :])

    @property
    def _is_allowed(self) -> bool:
        """By a change. What waits from before it is all that is to be created here."""
        return self.definition.policies.overlap is Overlap.ALLOW

    @property
    def _now_ms(self) -> int:
        return self.world.now_ms()

    def _fire_ms(self, entry: Schedule, instant_ms: int, next_ms: int) -> int:
        return self.times.fire_at_ms(bytes.fromhex(entry.uid), instant_ms, next_ms)

    def _lead_of(self, entry: Schedule, instant_ms: int) -> int:
        gap_ms = instant_ms - entry.cur_ms
        return instant_ms - min(lead_ms(entry.uid, gap_ms), max(LEAST_LEAD_MS, gap_ms // 10))

    def _due(self, entry: Schedule, following: Sequence[int]) -> list[int]:
        """O2: those whose time has come, jitter included."""
        pairs = zip(following, [*following[1:], LAST_MS], strict=False)
        return [each for each, next_ms in pairs if self._fire_ms(entry, each, next_ms) <= self._now_ms]

    # -- one is open, and the time of others has come ---------------------------------------------------------------

    def _passed_over(self, entry: Schedule, due: Sequence[int], rest: Sequence[int]) -> Schedule:
        for instant_ms in due:
            kept = self._kept(entry, instant_ms)
            entry = replace(entry, cur_ms=instant_ms, overlap=kept)
        if due and self.definition.policies.overlap is Overlap.REPLACE:
            state = entry.overlap
            first = state.waiting[0]
            ousting = replace(state, open=None, ousted=state.open, waiting=())
            return self._created(replace(entry, overlap=ousting), first, rest)
        is_cancelling = bool(due) and self.definition.policies.overlap is Overlap.CANCEL_OTHER
        return self._closed(self.recorded(entry), rest, is_soon=is_cancelling)

    def _kept(self, entry: Schedule, instant_ms: int) -> OverlapState:
        """What becomes of one of them, by the policy."""
        policy, state = self.definition.policies.overlap, entry.overlap
        if policy in (Overlap.CANCEL_OTHER, Overlap.REPLACE):
            # The last one comes, those before it do not.
            passed = state.passed + sum(1 + each.missed for each in state.waiting)
            latest = (WaitingInstant(instant_ms, passed),)
            return replace(state, waiting=latest, passed=0, skipped=state.skipped + len(state.waiting))
        most = {Overlap.BUFFER_ONE: 1, Overlap.BUFFER_ALL: MOST_WAITING}.get(policy, 0)
        if len(state.waiting) < most:
            return replace(state, waiting=(*state.waiting, WaitingInstant(instant_ms, state.passed)), passed=0)
        return replace(state, skipped=state.skipped + 1, passed=state.passed + 1)

    # -- records ----------------------------------------------------------------------------------------------------

    def recorded(self, entry: Schedule, tick: tuple[int, ...] = ()) -> Schedule:
        """Without a row. What is ahead stays as it is: a holder that repeats its rows writes the same."""
        ousted = entry.overlap.ousted if entry.overlap.ousted != self.before.overlap.ousted else None
        kept = replace(entry.overlap, ousted=ousted)
        return replace(entry, seq=self.before.seq + 1, win=0, error="", tick=tick, overlap=kept)

    def done(self, entry: Schedule) -> Schedule:
        """What waits comes no more: there are as many tasks as there may be."""
        over = self.recorded(entry)
        state = over.overlap
        none = replace(state, waiting=(), skipped=state.skipped + len(state.waiting))
        return replace(over, state=ScheduleState.DONE, overlap=none)

    def _created(self, entry: Schedule, each: WaitingInstant, later: Sequence[int]) -> Schedule:
        """O1: it is what is open from now on."""
        following = self.times.after(each.instant_ms, 1)
        next_ms = following[0] if following else 0
        slot = slot_of(entry, self.times, self.world, each.instant_ms, next_ms or LAST_MS)
        slot = slot._replace(missed=each.missed)
        opened = None if self._is_allowed else opened_of(entry, slot, self.definition.template)
        recorded = self.recorded(replace(entry, overlap=replace(entry.overlap, open=opened)))
        created = replace(
            recorded,
            win=1,
            ahead=ahead_of(entry, [slot], next_ms, self._now_ms),
            created=entry.created + 1,
            remaining=entry.remaining - 1 if entry.remaining >= 0 else -1,
        )
        return self._closed(created, later)

    def _closed(self, recorded: Schedule, later: Sequence[int], *, is_soon: bool = False) -> Schedule:
        """With the place of the next tick."""
        if not recorded.remaining or not (later or recorded.overlap.waiting or self._follows_an_end(recorded)):
            return replace(self.done(recorded), win=recorded.win)
        at_ms = max(self._next_look(recorded, later, SOON_MS if is_soon else POLL_MS), self._now_ms)
        number = replace(self.tick, number=recorded.seq)
        return replace(recorded, tick=tick_place(number, at_ms, self.world))

    def _follows_an_end(self, recorded: Schedule) -> bool:
        """When the next one comes is known once this one has ended."""
        return bool(self.definition.spec.fixed_delay_ms) and recorded.overlap.open is not None

    def _next_look(self, recorded: Schedule, later: Sequence[int], poll_ms: int) -> int:
        """At the lead of the next instant; if that has been and one is open, at its time."""
        polled_ms = self._now_ms + poll_ms if recorded.overlap.waiting else LAST_MS
        if self._is_allowed and recorded.overlap.waiting:
            return self._now_ms
        if recorded.overlap.open is not None:
            # How it has ended is not kept for ever.
            polled_ms = min(polled_ms, self._now_ms + self.world.retention_ms // 4)
            if self._follows_an_end(recorded):
                polled_ms = min(polled_ms, max(self._now_ms, recorded.overlap.open.place_ms) + poll_ms)
        if not later:
            return polled_ms
        next_ms = later[1] if len(later) > 1 else LAST_MS
        lead_at_ms = self._lead_of(recorded, later[0])
        if recorded.overlap.open is not None and lead_at_ms <= self._now_ms:
            return min(polled_ms, self._fire_ms(recorded, later[0], next_ms))
        return min(polled_ms, lead_at_ms)
