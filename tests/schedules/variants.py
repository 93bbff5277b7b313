"""The rules of tests/models/schedules.pml, overlap.pml and pointing.pml, each broken in the code: a history must show
what is lost, doubled, or open beside another one.

Names are those of the model, but for HALFWOUND, which is of one step there. A variant changes a step of the product's
procedures, or what they write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, cast
from unittest.mock import patch

from tests.schedules.histories import History, Process
from timerd.core.protocol import (
    Find,
    Located,
    Procedure,
    ReadRegister,
    SetMarks,
    TryCas,
    Withdrawn,
    WriteEntries,
    locate,
    message_place,
    withdraw_many,
)
from timerd.core.schedules import chain, changes, opened, overlap, planning, triggering
from timerd.core.schedules.changes import Name
from timerd.core.schedules.occurrences import tick_row, window_rows
from timerd.core.schedules.world import OccurrenceRow, World, current_definition, place_rows, read_schedule
from timerd.model.identity import TaskId, digest_of
from timerd.model.overlap import Overlap, OverlapState
from timerd.model.registers import RegisterKey
from timerd.model.rows import single_row
from timerd.model.schedules import Definition, Recorded, Schedule, ScheduleState, Tick, schedule_key
from timerd.model.storage import Append, Cas, CasResult, CasStatus, Mark

Settings = dict[str, Any]


@contextmanager
def quick() -> Iterator[None]:
    """Windows of a few instants from the first one on, so that a history of two minutes has many."""
    with patch.multiple(planning, LEAD_MS=20_000, WINDOW_MS=15_000, FIRST_WINDOW_MS=35_000):
        yield


# --- W1 ------------------------------------------------------------------------------------------------------------


def row_first(
    key: RegisterKey, entry: Schedule, stored: bytes, definition: Definition, at: World, tick: Tick
) -> Procedure[Schedule | None]:
    recorded = planning.plan(entry, definition, at.times(tick.schedule_id, definition), at, tick)
    yield from place_rows(window_rows(tick.schedule_id, recorded, definition), at)
    result: CasResult = yield TryCas(Cas(key, stored, recorded.to_bytes()))
    return recorded if result.status is CasStatus.APPLIED else None


def no_fence(
    key: RegisterKey, entry: Schedule, stored: bytes, definition: Definition, at: World, tick: Tick
) -> Procedure[Schedule | None]:
    """Compares the number of the window alone."""
    recorded = planning.plan(entry, definition, at.times(tick.schedule_id, definition), at, tick)
    now: bytes = yield ReadRegister(key)
    if Schedule.from_bytes(now).seq != entry.seq:
        return None
    is_same = Schedule.from_bytes(now).revision == entry.revision
    fields = recorded if is_same else replace(Schedule.from_bytes(now), seq=recorded.seq, cur_ms=recorded.cur_ms)
    result: CasResult = yield TryCas(Cas(key, now, fields.to_bytes()))
    return recorded if result.status is CasStatus.APPLIED else None


def tick_first(namespace: str, schedule_id: str, entry: Schedule, definition: Definition, at: World) -> Procedure[None]:
    if entry.tick:
        yield from place_rows([tick_row(chain.tick_of(namespace, schedule_id, entry), *entry.tick)], at)
    yield from place_rows(window_rows(schedule_id, entry, definition), at)


# --- W2, W3 --------------------------------------------------------------------------------------------------------


def recompute(namespace: str, schedule_id: str, entry: Schedule, definition: Definition, at: World) -> Procedure[None]:
    """By the rules of a newer release of time zones, a second later."""
    later = [slot._replace(instant_ms=slot.instant_ms + 1_000) for slot in entry.ahead.slots]
    is_repeat = at.now_ms() % 2_000 >= 1_000
    anew = replace(entry, ahead=replace(entry.ahead, slots=tuple(later))) if is_repeat else entry
    yield from place_rows(window_rows(schedule_id, anew, definition), at)
    if entry.tick:
        yield from place_rows([tick_row(chain.tick_of(namespace, schedule_id, entry), *entry.tick)], at)


def blind_insert(rows: list[OccurrenceRow], at: World) -> Procedure[None]:
    """What is late is written again now, whatever became of it."""
    for prefix, partition, row in rows:
        [key] = row.keys()
        if key.position_ms < at.now_ms():
            anew = key._replace(position_ms=at.now_ms(), digest=digest_of(prefix, at.now_ms() % 1_000))
            again = single_row(anew, key.position_ms, row.template_of(0), row.payload(0), row.extra_of(0), 0)
            yield from place_rows([(prefix, partition, again)], at)
        else:
            yield from place_rows([(prefix, partition, row)], at)


# --- F1, F2 --------------------------------------------------------------------------------------------------------


def cas_first(name: Name, request: str, definition: Definition, at: World) -> Procedure[Schedule]:
    entry, stored = yield from read_schedule(name.key)
    if entry is not None and entry.revision:
        return entry
    now_ms = at.now_ms()
    fresh = Schedule(at.token(), 1, ScheduleState.ACTIVE, at.token(), cur_ms=now_ms, since_ms=now_ms).asked(request)
    yield WriteEntries(changes.new_entries(name, fresh, definition))
    yield TryCas(Cas(name.key, stored, fresh.to_bytes()))
    row = yield from changes.first_tick_row(name, fresh, definition, at)
    yield from place_rows([row], at)
    return fresh


def no_void(key: RegisterKey, entry: Schedule | None, stored: bytes | None, tick: Tick, at: World) -> Procedure[bool]:
    yield from ()
    return True


# --- U1 ------------------------------------------------------------------------------------------------------------


def blind_update(*_: object) -> Procedure[bool]:
    yield from ()
    return True


def half_help(
    namespace: str, schedule_id: str, entry: Schedule, stored: bytes, until_ms: int, at: World
) -> Procedure[bool]:
    """Without the window before."""
    if entry.state is not ScheduleState.ACTIVE:
        return True
    definition = yield from current_definition(namespace, schedule_id, entry)
    upcoming = planning.next_instants(entry, at.times(schedule_id, definition), 1)
    if not upcoming or upcoming[0] > until_ms:
        return True
    tick = chain.tick_of(namespace, schedule_id, entry)
    recorded = yield from chain.record(schedule_key(namespace, schedule_id), entry, stored, definition, at, tick)
    if recorded is not None:
        yield from chain.complete(namespace, schedule_id, recorded, definition, at)
    return False


# --- U2, U3 --------------------------------------------------------------------------------------------------------


def noting(change_left: Callable[[Schedule], Recorded]) -> Callable[[History, Process, Cas], Cas]:
    def alter(history: History, process: Process, change: Cas) -> Cas:
        entry = Schedule.from_bytes(change.value)
        if not entry.left.slots or (
            change.expected and Schedule.from_bytes(change.expected).revision == entry.revision
        ):
            return change
        return replace(change, value=replace(entry, left=change_left(entry)).to_bytes())

    return alter


def last_window(entry: Schedule) -> Recorded:
    """As where only the last of the windows ahead is noted."""
    return replace(entry.left, slots=entry.left.slots[-1:])


def early_new(tick: Tick, at: World) -> Procedure[chain.Ticked]:
    """The new revision records although what the old one had ahead is not wound up."""
    key = schedule_key(tick.namespace, tick.schedule_id)
    while True:
        entry, stored = yield from read_schedule(key)
        if entry is None or stored is None or entry.revision != tick.revision or not entry.left.slots:
            return (yield from SOUND_TICK(tick, at))
        if chain._is_of_the_past(entry, tick) or entry.seq != tick.number or entry.state is not ScheduleState.ACTIVE:
            return chain.Ticked.OVER
        definition = yield from current_definition(tick.namespace, tick.schedule_id, entry)
        recorded = yield from chain.record(key, entry, stored, definition, at, tick)
        if recorded is not None:
            yield from chain.complete(tick.namespace, tick.schedule_id, recorded, definition, at)
            return chain.Ticked.RECORDED


def old_tick_ends(tick: Tick, at: World) -> Procedure[chain.Ticked]:
    entry, _ = yield from read_schedule(schedule_key(tick.namespace, tick.schedule_id))
    if entry is not None and entry.revision > tick.revision:
        return chain.Ticked.OVER
    return (yield from SOUND_TICK(tick, at))


def not_taken(
    namespace: str, schedule_id: str, entry: Schedule, stored: bytes, later: int, taken: list[int], at: World
) -> Procedure[None]:
    yield from SOUND_FORGET(namespace, schedule_id, entry, stored, later, [], at)


def half_wound(
    tasks: Sequence[TaskId], request: str, now_ms: Callable[[], int], kept_ms: int
) -> Procedure[list[Withdrawn]]:
    """What another try has to go on with is taken for done."""
    half = (len(tasks) + 1) // 2
    said = yield from SOUND_WITHDRAW(tasks[:half], request, now_ms, kept_ms)
    return [*said, *[Withdrawn.WITHDRAWN] * (len(tasks) - half)]


# --- O1 to O3 (overlap.pml) -----------------------------------------------------------------------------------------


def look_first(
    key: RegisterKey, entry: Schedule, stored: bytes, definition: Definition, at: World, tick: Tick
) -> Procedure[Schedule | None]:
    """It is looked whether the open one has ended, THEN the register is read by which the record is fenced."""
    looked = yield from opened.look(tick.schedule_id, entry, definition, at)
    now: bytes = yield ReadRegister(key)
    entry = Schedule.from_bytes(now)
    if entry.revision != tick.revision or entry.state is not ScheduleState.ACTIVE:
        return None
    if looked.overlap.open is None:
        entry = replace(entry, overlap=replace(entry.overlap, open=None))
    recorded = overlap.decide(entry, definition, at.times(tick.schedule_id, definition), at, tick)
    result: CasResult = yield TryCas(Cas(key, now, recorded.to_bytes()))
    return recorded if result.status is CasStatus.APPLIED else None


def undurable(task: TaskId, **_: object) -> Procedure[Located]:
    """An end that a crash takes back is taken for one."""
    return (yield from locate(task))


def trigger_blind(schedule_id: str, entry: Schedule, definition: Definition, at: World) -> Procedure[Schedule]:
    yield from ()
    return overlap.noted(entry, definition, None, at.now_ms())


def early_skip(step: overlap.Step, entry: Schedule, following: Sequence[int]) -> list[int]:
    """Ahead of its time it is passed over."""
    return list(following[:1])


def clock_late(entry: Schedule, definition: Definition, at: World, tick: Tick) -> Procedure[Schedule]:
    looked = yield from opened.look(tick.schedule_id, entry, definition, at)
    for _ in range(4):
        # Time passes.
        yield ReadRegister(schedule_key(tick.namespace, tick.schedule_id))
    return overlap.decide(looked, definition, at.times(tick.schedule_id, definition), at, tick)


def open_stays(entry: Schedule, taken: Sequence[int]) -> OverlapState:
    """What a change has withdrawn is open for ever."""
    return entry.overlap


def oust_late(schedule_id: str, entry: Schedule, definition: Definition, at: World) -> Procedure[None]:
    """What is replaced is cancelled with the next record."""
    ousted = replace(entry.overlap, ousted=None)
    yield from SOUND_FINISH(schedule_id, replace(entry, overlap=ousted), definition, at)


# --- P4 (pointing.pml) ------------------------------------------------------------------------------------------------


def nobody_returns(*_: object) -> Procedure[bool]:
    """What a holder that has just come does not know to be with a worker is with nobody."""
    yield from ()
    return False


def point_there(*of_a_place: Any) -> Procedure[Append]:  # noqa: ANN401 - as the one in whose place it is
    """What nobody has written at a place that is left leads nowhere."""
    going, answer = SOUND_ONWARD(*of_a_place), None
    while True:
        try:
            request = going.send(answer)
        except StopIteration as end:
            return cast(Append, end.value)
        if isinstance(request, SetMarks):
            there: list[Mark] = []
            for mark in request.marks:
                [found] = yield Find(mark.partition, [(mark.key.position_ms, mark.key.digest)])
                there += [mark] if len(found.rows) else []
            request = SetMarks(there)
        answer = (yield request) if request != SetMarks([]) else 0


def marks_stay(forwards: Sequence[Mark]) -> Procedure[None]:
    """What was said of a task at a place is not taken along to the next one."""
    yield from ()


# How histories are drawn: with trouble anywhere, or mostly right after a change of the register.
PROFILES: dict[str, Settings] = {
    "anywhere": {},
    "fragile": {"crashes": 8, "fragile": 0.4, "changes": 1},
    # Many are ahead, and who winds them up dies between one and the next.
    "full": {
        "crashes": 12,
        "changes": 4,
        "every_ms": {1: 2_000, 2: 3_000},
        "steps": (300, 1_200),
        "paces_ms": (1, 500),
    },
}
# Who records dies right after it, and more than a window goes by until somebody comes again.
SLOW: Settings = {"crashes": 12, "fragile": 0.6, "changes": 8, "paces_ms": (1, 20_000, 30_000), "steps": (100, 400)}
# Rows come too late for their places, and who wrote them stands still.
LATE: Settings = {
    "crashes": 6,
    "changes": 6,
    "passes": 0.5,
    "stops": 0.1,
    "paces_ms": (1, 4_000),
    "steps": (300, 1_000),
}
# The same where occurrences must not run beside each other, and callers cancel what is open.
LATE_APART: Settings = {**LATE, "cancels": 4}
FRAGILE = PROFILES["fragile"]
# The same where holders crash, and their successors know of no delivery until its worker is back.
TAKEN_OVER: Settings = {"takeovers": 6, "cancels": 6}
SOUND_TICK, SOUND_FORGET, SOUND_FINISH = chain.run_tick, chain._forget, opened.finish
SOUND_WITHDRAW, SOUND_ONWARD = withdraw_many, message_place._onward
# Name -> what is patched: (module, name, in its place), and settings of the history.
VARIANTS: dict[str, tuple[list[tuple[Any, str, Any]], Settings]] = {
    "ROWFIRST": ([(chain, "record", row_first)], {}),
    "TICKFIRST": ([(chain, "complete", tick_first)], FRAGILE),
    "ACKFIRST": ([], {**FRAGILE, "acks_early": True}),
    "NOFENCE": ([(chain, "record", no_fence)], {}),
    "RECOMPUTE": ([(chain, "complete", recompute)], {}),
    "BLINDINSERT": ([(chain, "place_rows", blind_insert)], {}),
    "CASFIRST": ([(changes, "create", cas_first)], {}),
    "NOVOID": ([(chain, "_void", no_void)], {}),
    "BLINDUPDATE": ([(changes, "bring", blind_update)], {}),
    "HALFHELP": ([(changes, "bring", half_help)], SLOW),
    "NORET": ([], {"alter": noting(lambda entry: Recorded())}),
    "LASTONLY": ([], {"alter": noting(last_window)}),
    "NOINSERT": ([(chain, "rows_of", lambda *_: [])], {}),
    "NOTAKEN": ([(chain, "_forget", not_taken)], {}),
    "HALFWOUND": ([(chain, "withdraw_many", half_wound)], {}),
    "EARLYNEW": ([(changes, "run_tick", early_new)], {}),
    "EARLYOK": ([], {"says_early": True}),
    "OLDTICKENDS": ([(changes, "run_tick", old_tick_ends)], FRAGILE),
}
# Of histories with that policy of overlaps.
OVERLAP_VARIANTS: dict[str, tuple[Overlap, list[tuple[Any, str, Any]], Settings]] = {
    "LOOKFIRST": (Overlap.SKIP, [(chain, "record", look_first)], FRAGILE),
    "UNDURABLE": (Overlap.SKIP, [(opened, "locate", undurable)], {}),
    "TRIGGERBLIND": (Overlap.SKIP, [(triggering, "look", trigger_blind)], {}),
    "EARLYSKIP": (Overlap.SKIP, [(overlap.Step, "_due", early_skip)], {}),
    "CLOCKLATE": (Overlap.SKIP, [(chain, "next_record", clock_late)], {"changes": 0}),
    "NOPOLL": (Overlap.BUFFER_ONE, [(overlap, "POLL_MS", 1 << 61)], {}),
    "OUSTLATE": (Overlap.REPLACE, [(chain, "finish", oust_late)], {}),
    "POINTTHERE": (Overlap.REPLACE, [(message_place, "_onward", point_there)], LATE),
    "MARKSSTAY": (Overlap.SKIP, [(message_place, "taken_along", marks_stay)], LATE_APART),
    "NORETURN": (Overlap.CANCEL_OTHER, [(opened, "_may_return", nobody_returns)], TAKEN_OVER),
    "OPENWITHDRAWN": (Overlap.SKIP, [(chain, "_without_withdrawn", open_stays)], {"changes": 6}),
}


@contextmanager
def overlap_variant(name: str) -> Iterator[tuple[Overlap, Settings]]:
    policy, patches, settings = OVERLAP_VARIANTS[name]
    with ExitStack() as stack:
        stack.enter_context(quick())
        for module, attribute, value in patches:
            stack.enter_context(patch.object(module, attribute, value))
        yield policy, settings


@contextmanager
def variant(name: str) -> Iterator[Settings]:
    """Nothing of it where the name is empty."""
    patches, settings = VARIANTS[name] if name else ([], {})
    with ExitStack() as stack:
        stack.enter_context(quick())
        for module, attribute, value in patches:
            stack.enter_context(patch.object(module, attribute, value))
        yield settings
