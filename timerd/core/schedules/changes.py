"""Create, update, pause, resume, delete: each is one compare-and-set of the register, after the first tick of what it
brings into force (F1), and before what the revision before had ahead is wound up (U1, U2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from timerd.core.protocol import Procedure, RemoveEntries, TryCas, WriteEntries
from timerd.core.schedules.chain import DELETED_MS, Ticked, bring, run_tick, wind_up
from timerd.core.schedules.occurrences import tick_row
from timerd.core.schedules.opened import finish
from timerd.core.schedules.planning import first_tick_place, tick_place
from timerd.core.schedules.world import OccurrenceRow, World, current_definition, place_rows, read_schedule, times_of
from timerd.core.schedules.zones import computed_by
from timerd.model.cycles import CYCLE
from timerd.model.errors import Aborted, AlreadyExists, NotFound, Precondition
from timerd.model.overlap import NOTHING_OPEN, Overlap, OverlapState
from timerd.model.registers import RegisterKey
from timerd.model.schedules import (
    Definition,
    Recorded,
    Schedule,
    ScheduleState,
    Tick,
    definition_key,
    name_entry,
    schedule_key,
)
from timerd.model.storage import Cas, CasResult, CasStatus, Entry
from timerd.model.zones import UTC, namespace_entry

TRIES = 10


@dataclass(frozen=True, slots=True)
class Name:
    """Of a schedule."""

    namespace: str
    schedule_id: str

    @property
    def key(self) -> RegisterKey:
        return schedule_key(self.namespace, self.schedule_id)

    @property
    def kind(self) -> str:
        """As callers know it."""
        return "cycle" if self.schedule_id.startswith(CYCLE) else "schedule"

    @property
    def remedy(self) -> str:
        """Of one that is there. A cycle is what it was created as."""
        return "delete it first" if self.kind == "cycle" else "update it, delete it first"

    @property
    def shown(self) -> str:
        return self.schedule_id.removeprefix(CYCLE)


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a schedule. `cur_ms`: from where the new revision goes on (none: from where the old one was at
    the change); `since_ms`: what fires up to then belongs to the old one (none: the change)."""

    definition: Definition
    state: ScheduleState
    cur_ms: int | None = None
    since_ms: int | None = None
    # Whether what waits for the end of another one comes no more.
    drops_waiting: bool = False


# None: it is so already.
Decide = Callable[[Schedule, Definition, int], Change | None]


def create(name: Name, request: str, definition: Definition, world: World) -> Procedure[Schedule]:
    """F1: definition and name, THEN whose zones are in force (Z4), THEN the first tick, THEN the cas that brings
    revision 1 into force. Raises AlreadyExists, ZonesDiffer, and NotFound where another try of the call has created it
    and it was deleted since."""
    for _ in range(TRIES):
        entry, stored = yield from read_schedule(name.key)
        if entry is not None and request in entry.requests:
            # Its first try was not answered; the schedule may be deleted since.
            return check_alive(name, entry)
        if entry is not None and entry.state is not ScheduleState.DELETED:
            raise AlreadyExists(
                f"There is a {name.kind} {name.shown!r} already: {name.remedy}, or choose another id.",
                f"{name.kind.upper()}_EXISTS",
                field=f"{name.kind}_id",
            )
        now_ms, zone = world.now_ms(), definition.spec.zone
        generation = yield from computed_by(world.zones, zone, 0, now_ms)
        fresh = new_schedule(request, definition, generation, world)
        yield from announce_namespaces([name], world)
        yield WriteEntries(new_entries(name, fresh, definition))
        generation = yield from computed_by(world.zones, zone, 0, now_ms, anew=True)
        fresh = armed_by(generation, fresh, world)
        row = yield from first_tick_row(name, fresh, definition, world)
        yield from place_rows([row], world)
        result: CasResult = yield TryCas(Cas(name.key, stored, fresh.to_bytes()))
        if result.status is CasStatus.APPLIED:
            return fresh
    raise busy()


def new_schedule(request: str, definition: Definition, generation: int, world: World) -> Schedule:
    """As it is if no other data come into force meanwhile."""
    now_ms = world.now_ms()
    return Schedule(
        world.token(),
        1,
        ScheduleState.ACTIVE,
        world.token(),
        cur_ms=now_ms,
        since_ms=now_ms,
        remaining=definition.policies.max_count or -1,
        requests=(request,),
        overlap=OverlapState(ended_ms=now_ms) if definition.spec.fixed_delay_ms else NOTHING_OPEN,
        zones=generation,
        tzdata=world.tzdata,
    )


def armed_by(generation: int, fresh: Schedule, world: World) -> Schedule:
    """Z2: by whose data its instants are computed."""
    if (fresh.zones, fresh.tzdata) == (generation, world.tzdata):
        return fresh
    return replace(fresh, zones=generation, tzdata=world.tzdata)


def new_entries(name: Name, entry: Schedule, definition: Definition) -> list[Entry]:
    """The definition of revision 1, and the name that lists it."""
    listed = Entry(name_entry(name.namespace, name.schedule_id, entry.uid), b"1")
    return [_definition_entry(name, entry, definition), listed]


def change(name: Name, request: str, revision: int, decide: Decide, world: World) -> Procedure[Schedule]:
    """U1 and U2, to their end: after it nothing of the old revision starts that fires after the change. `revision`: the
    only one that may be changed; 0: any. Raises NotFound, Aborted, and what `decide` raises."""
    for _ in range(TRIES * 10):
        entry, stored = yield from read_schedule(name.key)
        entry = check_alive(name, entry, request)
        assert stored is not None
        if entry.left.slots:
            yield from wind_up(name.namespace, name.schedule_id, entry, stored, world)
            continue
        if request in entry.requests:
            return entry
        _check_revision(entry, revision, name.kind)
        now_ms = world.now_ms()
        if not (yield from bring(name.namespace, name.schedule_id, entry, stored, now_ms, world)):
            continue
        definition = yield from current_definition(name.namespace, name.schedule_id, entry)
        wanted = decide(entry, definition, now_ms)
        if wanted is None:
            return entry
        if (yield from _announce_zone(name, entry, stored, definition, wanted.definition)):
            continue
        yield from finish(name.schedule_id, entry, definition, world)
        yield from _bring_into_force(name, entry, stored, wanted, request, now_ms, world)
    raise busy()


def _announce_zone(
    name: Name, entry: Schedule, stored: bytes, definition: Definition, wanted: Definition
) -> Procedure[bool]:
    """Z4: whether it is to be read again. A sweep of the zone sees that the schedule is about to be one of it."""
    zone = wanted.spec.zone
    if zone in (definition.spec.zone, entry.coming_zone, UTC):
        return False
    yield TryCas(Cas(name.key, stored, replace(entry, coming_zone=zone).to_bytes()))
    return True


def tick_or_resume(tick: Tick, world: World) -> Procedure[Ticked]:
    """What a tick does; that of a pause which is over makes a change."""
    ticked = yield from run_tick(tick, world)
    if ticked is Ticked.PAUSED_UNTIL:
        try:
            request = f"resume {tick.uid} {tick.revision}"
            yield from change(Name(tick.namespace, tick.schedule_id), request, tick.revision, resumed, world)
        except (Aborted, NotFound):
            # Another call was faster.
            return Ticked.OVER
    return ticked


def paused(note: str, until_ms: int) -> Decide:
    def decide(entry: Schedule, definition: Definition, now_ms: int) -> Change | None:
        wanted = replace(definition, note=note, until_ms=until_ms)
        if entry.state is ScheduleState.PAUSED:
            kept = Change(wanted, ScheduleState.PAUSED, entry.cur_ms, entry.since_ms)
            return None if wanted == definition else kept
        return Change(wanted, ScheduleState.PAUSED)

    return decide


def resumed(entry: Schedule, definition: Definition, now_ms: int) -> Change | None:
    """SKIP_MISSED: with the next instant."""
    if entry.state is not ScheduleState.PAUSED:
        return None
    return Change(replace(definition, note="", until_ms=0), ScheduleState.ACTIVE, now_ms, drops_waiting=True)


def resumed_with_missed(entry: Schedule, definition: Definition, now_ms: int) -> Change | None:
    """CATCH_UP: from where it was at the pause."""
    if entry.state is not ScheduleState.PAUSED:
        return None
    return Change(replace(definition, note="", until_ms=0), ScheduleState.ACTIVE, entry.cur_ms, entry.since_ms)


def updated(edit: Callable[[Definition], Definition]) -> Decide:
    """A pause goes on, with its note; what was done begins anew."""

    def decide(entry: Schedule, definition: Definition, now_ms: int) -> Change | None:
        wanted = edit(definition)
        if wanted == definition:
            return None
        if entry.state is ScheduleState.PAUSED:
            return Change(wanted, ScheduleState.PAUSED, entry.cur_ms, entry.since_ms)
        return Change(wanted, ScheduleState.ACTIVE)

    return decide


def deleted(*, cancel_open: bool = False) -> Decide:
    """`cancel_open`: refused where nobody knows what is open. Raises Precondition."""

    def decide(entry: Schedule, definition: Definition, now_ms: int) -> Change | None:
        if cancel_open and definition.policies.overlap is Overlap.ALLOW:
            raise Precondition(
                "cancel_open needs an overlap policy other than allow, under which a schedule does not know what is "
                "open: delete it without, then list its tasks and cancel them.",
                "OVERLAP_ALLOWED",
                field="cancel_open",
            )
        return Change(replace(definition, until_ms=0), ScheduleState.DELETED, drops_waiting=True)

    return decide


def remove_name(name: Name, entry: Schedule) -> Procedure[None]:
    """Of one that is deleted and wound up."""
    yield RemoveEntries([name_entry(name.namespace, name.schedule_id, entry.uid)])


def check_alive(name: Name, entry: Schedule | None, request: str = "") -> Schedule:
    """Of one that was deleted by the same call the register still tells so. Raises NotFound."""
    if entry is None or (entry.state is ScheduleState.DELETED and request not in entry.requests):
        raise NotFound(
            f"There is no {name.kind} {name.shown!r} in the namespace {name.namespace!r}: check the id and the "
            "namespace.",
            f"{name.kind.upper()}_NOT_FOUND",
            field=f"{name.kind}_id",
        )
    return entry


def _check_revision(entry: Schedule, revision: int, kind: str) -> None:
    if revision and revision != entry.revision:
        raise Aborted(
            f"The {kind} has revision {entry.revision} by now, not {revision}: look at it again, then decide.",
            "REVISION_CHANGED",
            field="revision",
        )


def _bring_into_force(
    name: Name, entry: Schedule, stored: bytes, wanted: Change, request: str, now_ms: int, world: World
) -> Procedure[None]:
    """The definition, THEN the first tick, THEN the cas, which also notes all that is ahead, not the last window
    alone."""
    cur_ms = wanted.cur_ms if wanted.cur_ms is not None else _reached(entry, wanted.definition, now_ms)
    if wanted.definition.spec.fixed_delay_ms:
        # What is withdrawn comes at another time.
        cur_ms = min(cur_ms, now_ms)
    generation, zone = entry.zones, wanted.definition.spec.zone
    if wanted.state is not ScheduleState.DELETED:
        is_announced = bool(entry.coming_zone)
        generation = yield from computed_by(world.zones, zone, entry.zones, now_ms, anew=is_announced)
    fresh = replace(
        entry,
        revision=entry.revision + 1,
        state=wanted.state,
        attempt=world.token(),
        seq=0,
        win=0,
        ahead=Recorded(),
        tick=(),
        cur_ms=cur_ms,
        since_ms=wanted.since_ms if wanted.since_ms is not None else now_ms,
        left=entry.ahead,
        taken=tuple(each for each in entry.taken if each > cur_ms),
        remaining=_remaining(entry, wanted.definition),
        overlap=_overlap(entry.overlap, wanted),
        zones=generation,
        coming_zone="",
        tzdata=world.tzdata,
        reached_ms=max(entry.reached_ms, entry.cur_ms) if wanted.definition.cycle is not None else 0,
        error="",
    ).asked(request)
    if wanted.state is not ScheduleState.DELETED:
        yield from announce_namespaces([name], world)
        yield WriteEntries([_definition_entry(name, fresh, wanted.definition)])
    if wanted.state is ScheduleState.ACTIVE or wanted.definition.until_ms:
        row = yield from first_tick_row(name, fresh, wanted.definition, world)
        yield from place_rows([row], world)
    expires_at_ms = now_ms + DELETED_MS if wanted.state is ScheduleState.DELETED else 0
    result: CasResult = yield TryCas(Cas(name.key, stored, fresh.to_bytes(), expires_at_ms))
    if result.status is CasStatus.APPLIED:
        world.recorded(entry, fresh)
    if result.status is CasStatus.APPLIED and not entry.ahead.slots:
        yield RemoveEntries(
            [definition_key(name.namespace, name.schedule_id, entry.uid, entry.revision, entry.attempt)]
        )


def _reached(entry: Schedule, wanted: Definition, now_ms: int) -> int:
    """From where the next revision goes on: behind the last instant that fires up to now. The next one that is recorded
    is too far, for the next revision may have others before it; and no instant is looked at that fires before now."""
    later = [slot for slot in entry.ahead.slots if slot.fire_at_ms > now_ms]
    reached_ms = min(later[0].instant_ms - 1, now_ms) if later else entry.cur_ms
    return max(reached_ms, now_ms - wanted.spec.jitter_ms)


def _overlap(state: OverlapState, wanted: Change) -> OverlapState:
    """What waits is created by the new revision, unless it comes no more. Under ALLOW nobody looks at what is open. Who
    changes it has seen why it was paused."""
    if wanted.definition.policies.overlap is Overlap.ALLOW:
        state = replace(state, open=None, ousted=None, passed=0, last=())
    state = replace(state, halted_ms=0 if wanted.state is not ScheduleState.PAUSED else state.halted_ms)
    if not wanted.drops_waiting:
        return state
    return replace(state, waiting=(), skipped=state.skipped + len(state.waiting), ended_ms=0)


def _remaining(entry: Schedule, definition: Definition) -> int:
    """Of a limit that was changed, what is left of the new one."""
    most = definition.policies.max_count
    return max(0, most - entry.created) if most else -1


def announce_namespaces(names: Iterable[Name], world: World) -> Procedure[None]:
    """Before a name in it, so that a sweep comes to that."""
    if world.zones is None:
        return
    unknown = {name.namespace for name in names} - world.zones.announced
    if unknown:
        yield WriteEntries([Entry(namespace_entry(each), b"1") for each in sorted(unknown)])
        world.zones.announced.update(unknown)


def _definition_entry(name: Name, entry: Schedule, definition: Definition) -> Entry:
    key = definition_key(name.namespace, name.schedule_id, entry.uid, entry.revision, entry.attempt)
    return Entry(key, definition.to_bytes())


def first_tick_row(name: Name, entry: Schedule, definition: Definition, world: World) -> Procedure[OccurrenceRow]:
    """Raises ZonesDiffer."""
    tick = Tick(name.namespace, name.schedule_id, entry.uid, entry.revision, 0, entry.attempt)
    if entry.state is ScheduleState.PAUSED:
        return tick_row(tick, *tick_place(tick, max(definition.until_ms, world.now_ms()), world))
    times = yield from times_of(name.schedule_id, entry, definition, world)
    return tick_row(tick, *first_tick_place(tick, entry.cur_ms, times, world))


def busy() -> Aborted:
    return Aborted("The schedule is being changed by others all the time: try again.", "SCHEDULE_BUSY")
