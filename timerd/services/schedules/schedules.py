"""What the calls of schedules ask: the core's procedures driven against the store and the holders."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import zip_longest
from typing import NamedTuple

from timerd.core import recurrence as when
from timerd.core.protocol import Procedure
from timerd.core.schedules.changes import Decide, Name, change, check_alive, create, remove_name
from timerd.core.schedules.creating_many import WantedSchedule, create_many
from timerd.core.schedules.opened import cancel
from timerd.core.schedules.planning import next_instants
from timerd.core.schedules.spec_times import times_now
from timerd.core.schedules.triggering import trigger
from timerd.core.schedules.world import World, current_definition, read_schedule
from timerd.core.schedules.zones import OwnZones
from timerd.model.errors import Invalid
from timerd.model.identity import RowKey, TaskId, digest_of, mac_of
from timerd.model.occurrences import Occurrence, Reason
from timerd.model.overlap import OpenedOccurrence
from timerd.model.recurrence import Spec
from timerd.model.rows import single_row
from timerd.model.schedules import (
    NAME_SLOTS,
    Definition,
    Policies,
    Schedule,
    ScheduleState,
    definition_key,
    named,
    names_place,
    prefix_of,
    schedule_key,
)
from timerd.model.task import Extra, Template
from timerd.ports import Store
from timerd.services.engine.engine import Engine
from timerd.services.engine.verbs import NewTasks
from timerd.services.holding.driving import Performs, Returned, drive
from timerd.services.schedules.backfills import Backfills
from timerd.services.schedules.spec_wire import wire_field
from timerd.services.schedules.ticking import CALL_PAUSE_S, until_decided

UPCOMING = 10
# Schedules that are read together for a list.
READ_AT_ONCE = 200

# An instant that is foreseen, and when it fires.
Coming = tuple[when.Foreseen, int | None]
# Of what is deleted.
NOTHING = Definition(Spec(()), Policies(), Template("", ""))


class Shown(NamedTuple):
    """A schedule as calls show it. `upcoming`: (instant, fire time); `open_task`: the one that must end before another
    one comes. `is_done`: the last of its tasks was to fire by now; they are written ahead of that."""

    name: Name
    entry: Schedule
    definition: Definition
    upcoming: Sequence[tuple[int, int]] = ()
    open_task: TaskId | None = None
    is_done: bool = False


class ListPlace(NamedTuple):
    """In the list of a namespace: behind this name of a slot."""

    slot: int
    after: bytes


class Schedules:
    """Of one instance."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        runner: Performs,
        own_zones: OwnZones,
        now_ms: Callable[[], int],
        retention_ms: int,
        watches: Callable[[str, str, bytes], None],
        recorded: Callable[[Schedule, Schedule], None],
    ) -> None:
        self._store = store
        self._engine = engine
        self._runner = runner
        self._recurrence = lru_cache(maxsize=1024)(self._make_recurrence)
        self._own_zones = own_zones
        heard = watches, recorded
        self.world = World(now_ms, engine.shards.of, self._times_of, _token, retention_ms, *heard, own_zones)
        self.backfills = Backfills(store, runner, self.world)

    def _times_of(self, schedule_id: str, it: Definition) -> when.Recurrence:
        return self.times(schedule_id, it.spec)

    def times(self, schedule_id: str, spec: Spec) -> when.Recurrence:
        """Raises Invalid."""
        try:
            return self._recurrence(spec, schedule_id)
        except Invalid as error:
            raise Invalid(str(error), wire_field(error.field), error.reason) from None

    def _make_recurrence(self, spec: Spec, schedule_id: str) -> when.Recurrence:
        return when.recurrence(spec, self._own_zones.zone(spec.zone), schedule_id.encode())

    def check(self, schedule_id: str, spec: Spec) -> None:
        """Raises Invalid: it cannot be computed, or has no instant from now on."""
        times, now_ms = self.times(schedule_id, spec), self._engine.now_ms()
        if spec.fixed_delay_ms:
            # Of which nothing is known but its end.
            has_instant = not spec.end_ms or spec.end_ms > now_ms + spec.fixed_delay_ms
        else:
            has_instant = bool(times.after(now_ms, 1))
        if not has_instant:
            raise Invalid("The schedule has no instant from now on: give it a later end, or other times.", "spec")

    async def create(self, name: Name, request: str, definition: Definition) -> Shown:
        self.check(name.schedule_id, definition.spec)
        entry = await self._decided(lambda: create(name, request, definition, self.world))
        return self._shown(name, entry, definition)

    async def _driven(self, procedure: Procedure[Returned]) -> Returned:
        return await drive(procedure, self._runner)

    async def _decided(self, begin: Callable[[], Procedure[Returned]]) -> Returned:
        return await until_decided(lambda: self._driven(begin()), CALL_PAUSE_S)

    async def create_many(self, wanted: Sequence[WantedSchedule]) -> list[Schedule | None]:
        """Each name once. None: it is to be created by itself."""
        return await self._decided(lambda: create_many(wanted, self.world))

    async def change(
        self, name: Name, request: str, revision: int, decide: Decide, *, cancel_open: bool = False
    ) -> Shown:
        """Until what the revision before had ahead is wound up. `cancel_open`: of what is deleted, the task that is
        open is cancelled."""
        self._engine.now_ms()
        entry = await self._decided(lambda: change(name, request, revision, decide, self.world))
        if entry.state is ScheduleState.DELETED:
            if cancel_open and entry.overlap.open is not None:
                await self._driven(cancel(entry.overlap.open))
            await self.backfills.cancel_all(name.namespace, name.schedule_id, request)
            await self._driven(remove_name(name, entry))
            return Shown(name, entry, NOTHING)
        definition = await self._driven(current_definition(name.namespace, name.schedule_id, entry))
        return self._shown(name, entry, definition)

    async def trigger(self, name: Name, request: str) -> tuple[TaskId, int]:
        """A task now; a repeat of the call is answered with the same one. Raises Precondition: another one is open."""
        now_ms = self._engine.now_ms()
        opened = await self._decided(lambda: trigger(name, request, self.world))
        if opened is not None:
            return self.task_of(name, opened), opened.place_ms
        shown = await self.get(name)
        entry, definition = shown.entry, shown.definition
        prefix = prefix_of("trigger", entry.uid, request)
        said = Occurrence(name.schedule_id, prefix.hex(), now_ms, 0, Reason.TRIGGER, entry.revision)
        key = RowKey(now_ms, digest_of(prefix, 0), 0)
        row = single_row(key, now_ms, definition.template, definition.payload, Extra(occurrence=said.to_text()), 0)
        tasks = NewTasks(name.namespace, prefix, row, {}, delayed=(0,), counted_from_ms=now_ms)
        stored = await self._engine.schedule(tasks)
        return stored.task_ids[0], int(tasks.rows.columns["fire_at_ms"][0])

    def task_of(self, name: Name, opened: OpenedOccurrence) -> TaskId:
        """As callers know it."""
        task = opened.task
        mac = mac_of(self._engine.secret, name.namespace, task.prefix, task.home, task.scope, task.priority)
        return task._replace(mac=mac)

    async def get(self, name: Name) -> Shown:
        entry, _ = await self._driven(read_schedule(name.key))
        entry = check_alive(name, entry)
        definition = await self._driven(current_definition(name.namespace, name.schedule_id, entry))
        return self._shown(name, entry, definition)

    def _shown(self, name: Name, entry: Schedule, definition: Definition) -> Shown:
        """With what is recorded ahead, and what follows."""
        now_ms = self.world.now_ms()
        upcoming = [(each.instant_ms, each.fire_at_ms) for each in entry.ahead.slots if each.fire_at_ms > now_ms]
        more = UPCOMING - len(upcoming)
        if entry.remaining >= 0:
            more = min(more, entry.remaining)
        if entry.state is ScheduleState.ACTIVE and more > 0:
            upcoming += self._following(name, entry, definition, more)
        opened = self.task_of(name, entry.overlap.open) if entry.overlap.open is not None else None
        return Shown(name, entry, definition, upcoming[:UPCOMING], opened, _is_done(entry, now_ms))

    def _following(self, name: Name, entry: Schedule, definition: Definition, count: int) -> Sequence[tuple[int, int]]:
        """None, where the data of this instance do not say when it comes."""
        if not self._own_zones.speaks_of(definition.spec.zone):
            return ()
        try:
            times = times_now(entry, definition.spec, self.times(name.schedule_id, definition.spec))
        except Invalid:
            # Its zone is gone with a later release.
            return ()
        following = next_instants(entry, times, count + 1)
        nexts: list[int | None] = [*following[1:], None][: len(following)]
        uid = bytes.fromhex(entry.uid)
        return [(each, times.fire_at_ms(uid, each, n)) for each, n in zip(following, nexts, strict=True)][:count]

    async def page(
        self, namespace: str, place: ListPlace, limit: int, kind: str = "schedules"
    ) -> tuple[list[Shown], ListPlace | None]:
        """About so many of those that there are, and where the next ones are; None: there are no more."""
        found: list[Shown] = []
        slot, after = place
        while slot < NAME_SLOTS:
            most = min(READ_AT_ONCE, limit - len(found))
            entries = await self._store.list_entries(names_place(namespace, slot, kind), after, most)
            found += await self._living(namespace, [each.key.name for each in entries])
            if len(entries) < most:
                slot, after = slot + 1, b""
            else:
                after = entries[-1].key.name
            if len(found) >= limit:
                break
        return found, ListPlace(slot, after) if slot < NAME_SLOTS else None

    async def _living(self, namespace: str, names: Sequence[bytes]) -> list[Shown]:
        """A name may be announced before its schedule is there, and be left over by one that is gone."""
        if not names:
            return []
        ids = [named(name) for name in names]
        stored = await self._store.read([schedule_key(namespace, schedule_id) for schedule_id, _ in ids])
        entries = [Schedule.from_bytes(each) if each is not None else None for each in stored]
        alive = [
            (schedule_id, entry)
            for (schedule_id, uid), entry in zip(ids, entries, strict=True)
            if entry is not None and entry.uid == uid and entry.state is not ScheduleState.DELETED
        ]
        keys = [definition_key(namespace, name, each.uid, each.revision, each.attempt) for name, each in alive]
        definitions, now_ms = await self._store.find_entries(keys), self.world.now_ms()
        return [
            Shown(
                Name(namespace, schedule_id),
                entry,
                Definition.from_bytes(definition),
                is_done=_is_done(entry, now_ms),
            )
            for (schedule_id, entry), definition in zip(alive, definitions, strict=True)
            if definition is not None
        ]

    async def preview(self, name: Name, spec: Spec | None, from_ms: int | None, count: int) -> list[Coming]:
        """Of a schedule, or of a spec that is not stored, whose jitter nobody knows yet."""
        uid = b""
        if spec is None:
            shown = await self.get(name)
            spec, uid = shown.definition.spec, bytes.fromhex(shown.entry.uid)
        if spec.fixed_delay_ms:
            raise Invalid(
                "A fixed delay counts from when the task before ends, so nothing can be foreseen but the next one: get "
                "the schedule, which says it.",
                "spec.fixed_delay",
            )
        after_ms = self.world.now_ms() if from_ms is None else from_ms
        times = self.times(name.schedule_id, spec)
        return _with_fire_times(when.preview(times, after_ms, count), times, uid)


def _is_done(entry: Schedule, now_ms: int) -> bool:
    return entry.state is ScheduleState.DONE and all(each.fire_at_ms <= now_ms for each in entry.ahead.slots)


def _with_fire_times(foreseen: Sequence[when.Foreseen], times: when.Recurrence, uid: bytes) -> list[Coming]:
    """None, where none comes, or where it is drawn from an identity that is not there yet."""
    if times.spec.jitter_ms and not uid:
        return [(each, None) for each in foreseen]
    coming = [each.instant_ms for each in foreseen if each.change is not when.WallTimeChange.SKIPPED]
    nexts = [*coming[1:], *times.after(coming[-1], 1)] if coming else []
    fires = {at_ms: times.fire_at_ms(uid, at_ms, next_ms) for at_ms, next_ms in zip_longest(coming, nexts)}
    skipped = when.WallTimeChange.SKIPPED
    return [(each, None if each.change is skipped else fires[each.instant_ms]) for each in foreseen]


def _token() -> str:
    return secrets.token_hex(8)


def request_hash(method: str, namespace: str, request_id: str, content: bytes) -> str:
    """Of a call: its repeats have the same."""
    text = f"{method}\0{namespace}\0{request_id}\0".encode() + content
    return blake2b(text, digest_size=8, person=b"timerd.schedule").hexdigest()
