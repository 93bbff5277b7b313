"""The rules of tests/models/cycle.pml, each broken in the code: a history must show who is lost, has two turns, or
has one after its removal. Names are those of the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from tests.cycles.histories import RosterHistory
from tests.schedules.histories import NAME
from tests.schedules.variants import quick
from timerd.core.protocol import Find, Procedure, Withdrawn, WriteEntries
from timerd.core.schedules import roster, roster_walk
from timerd.core.schedules.member_tasks import CycleRun, SlotMember, member_task
from timerd.core.schedules.world import World
from timerd.model.cycles import CycleShape
from timerd.model.storage import Found

Settings = dict[str, Any]
SOUND_WITHDRAW = roster.withdraw_member
SOUND_PREFIX = CycleRun.prefix
# So many members come and go that two calls often meet.
BUSY: Settings = {"changes": 20, "meeting": 0.6, "paces_ms": (1, 500, 1_500, 4_000)}
DRAWS = iter(range(1 << 30))


def look_first(members: Sequence[SlotMember], history: RosterHistory) -> Procedure[None]:
    """The record is read, THEN the entry is written."""
    [member], world = members, history.world
    found = yield from roster.read_roster(NAME)
    before = yield from roster.entries_of(found.uid, [member.key])
    stamp = roster._stamp(before[member.key], world.now_ms())
    yield WriteEntries([roster._entry(found.uid, member, stamp)])
    for number, _ in roster.turns_to_come(found, [member.key], world.now_ms()):
        yield from roster.fill(found.run(number), members, world)


def add_blind(members: Sequence[SlotMember], history: RosterHistory) -> Procedure[None]:
    """The roster is not read again after the record."""
    [member], world = members, history.world
    found = yield from roster.read_roster(NAME)
    before = yield from roster.entries_of(found.uid, [member.key])
    stamp = roster._stamp(before[member.key], world.now_ms())
    yield WriteEntries([roster._entry(found.uid, member, stamp)])
    found = yield from roster.read_roster(NAME)
    for number, _ in roster.turns_to_come(found, [member.key], world.now_ms()):
        yield from roster.fill(found.run(number), members, world)


def _gone(key: str, found: roster.Roster, history: RosterHistory) -> Procedure[None]:
    before = yield from roster.entries_of(found.uid, [key])
    if before[key]:
        yield WriteEntries([roster._removal(found.uid, key, roster._stamp(before[key], history.world.now_ms()))])


def _withdraw_all(key: str, found: roster.Roster, history: RosterHistory) -> Procedure[None]:
    for number in roster._numbers_alive(found, key, history.world.now_ms()):
        yield from roster.withdraw_member(found.run(number), key, history.world)


def cancel_first(key: str, history: RosterHistory) -> Procedure[None]:
    found = yield from roster.read_roster(NAME)
    yield from _withdraw_all(key, found, history)
    yield from _gone(key, found, history)


def removal_looks_first(key: str, history: RosterHistory) -> Procedure[None]:
    found = yield from roster.read_roster(NAME)
    yield from _gone(key, found, history)
    yield from _withdraw_all(key, found, history)


def no_stick(run: CycleRun, key: str, world: World) -> Procedure[Withdrawn]:
    """What is not there yet is not withdrawn."""
    task = member_task(run, key)
    found: Sequence[Found] = yield Find(task.home, [(task.position_ms, task.digest)])
    if not found[0].rows:
        return Withdrawn.WITHDRAWN
    return (yield from SOUND_WITHDRAW(run, key, world))


def of_one_kind(run: CycleRun, key: str) -> bytes:
    """The task of a key has the same name in each of its places."""
    return SOUND_PREFIX(run._replace(place=0), key)


def unshifted(shape: CycleShape, slot: int, place: int) -> int:
    """The kinds of a slot are those whose hash is in it."""
    return slot


def anew(run: CycleRun, key: str) -> bytes:
    """A task of each try."""
    return b"%012d" % next(DRAWS)


# Name -> what is patched: (object, name, in its place), and settings of the history.
VARIANTS: dict[str, tuple[list[tuple[Any, str, Any]], Settings]] = {
    "READFIRST": ([], {"reads_before": True}),
    "ACKFIRST": ([], {**BUSY, "crashes": 20, "slots_acked_early": True}),
    "NOLOOK": ([(roster, "turns_to_come", lambda *_: [])], {}),
    "LOOKFIRST": ([], {"puts": look_first, **BUSY}),
    "BLINDINSERT": ([(CycleRun, "prefix", anew)], {}),
    "ADDBLIND": ([], {"puts": add_blind, **BUSY}),
    "CANCELFIRST": ([], {"removes": cancel_first, **BUSY}),
    "REMLOOKFIRST": ([], {"removes": removal_looks_first, **BUSY}),
    "ONEKIND": ([(CycleRun, "prefix", of_one_kind)], {**BUSY, "has_places": True}),
    "UNSHIFTED": ([(CycleShape, "slots_back", unshifted)], {**BUSY, "has_places": True}),
    "NOSTICK": ([(roster, "withdraw_member", no_stick)], BUSY),
}


@contextmanager
def variant(name: str) -> Iterator[Settings]:
    """Nothing of it where the name is empty."""
    patches, settings = VARIANTS[name] if name else ([], {})
    with ExitStack() as stack:
        stack.enter_context(quick())
        for module in (roster, roster_walk):
            stack.enter_context(patch.object(module, "SEGMENT_BITS", 3))
        for where, attribute, value in patches:
            stack.enter_context(patch.object(where, attribute, value))
        yield settings
