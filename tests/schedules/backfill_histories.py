"""Histories of one backfill, as those of a schedule (histories.py), and the rules of its chain broken one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from tests.property.world import done
from tests.schedules.histories import END_MS, NAME, START_MS, Broken, Call, History, Process, Row, definition
from timerd.core.protocol import FindEntries, Procedure, RemoveEntries, TryCas
from timerd.core.schedules import backfill
from timerd.core.schedules.backfill import PastSpan
from timerd.core.schedules.backfill_rows import backfill_tick_row, rows_of
from timerd.core.schedules.world import World, place_rows
from timerd.model.backfills import Backfill, BackfillName, BackfillState, BackfillTick
from timerd.model.identity import RowKey
from timerd.model.overlap import Overlap
from timerd.model.schedules import Definition, Recorded, Schedule, ScheduleState, definition_key
from timerd.model.storage import Cas, CasResult, CasStatus, Entry

IT = BackfillName(*("default", "it"), "first")
COUNT = 40


@dataclass
class BackfillHistory(History):
    """Of a schedule that is there, and makes nothing itself."""

    cancels: int = 1
    ok_at_ms: int = 0

    def play(self) -> None:
        """Raises Broken."""
        schedule = Schedule("0f" * 8, 1, ScheduleState.ACTIVE, "try")
        done(self.store.cas([Cas(NAME.key, None, schedule.to_bytes())]))
        key = definition_key("default", "it", schedule.uid, 1, "try")
        done(self.store.write_entries([Entry(key, definition(1).to_bytes())]))
        self.processes.append(Process(self._begun(), call=Call(0, self._begun)))
        for _ in range(self.random.randrange(60, 500)):
            self._something()
        self.crashes = self.repeats = self.cancels = 0
        while self.now_ms < self.rest_ms or self.processes or self._due_ticks():
            self._go_on()
        self._check()

    @property
    def span(self) -> PastSpan:
        return PastSpan(START_MS - COUNT * self.every_ms[1], START_MS, 1, Overlap.ALLOW)

    @property
    def rest_ms(self) -> int:
        return END_MS + 120_000

    def _begun(self) -> Procedure[Backfill]:
        return backfill.begin_backfill(IT, "begin", self.span, self.world)

    def _cancelled(self) -> Procedure[Backfill]:
        return backfill.cancel_backfill(IT, "cancel", self.world)

    def _change(self) -> None:
        if self.cancels and self.random.random() < 0.2:
            self.cancels -= 1
            self.processes.append(Process(self._cancelled(), call=Call(1, self._cancelled)))

    def _take(self, key: RowKey) -> Procedure[object]:
        return backfill.run_backfill_tick(BackfillTick.from_bytes(self.payloads[key]), self.world)

    def _ended(self, process: Process, value: object) -> None:
        super()._ended(process, value)
        if isinstance(value, Backfill) and value.state is BackfillState.CANCELLED:
            self.ok_at_ms = value.ended_ms

    def fire(self, row: Row) -> None:
        if self.ok_at_ms and row.key.position_ms > self.ok_at_ms:
            raise Broken(f"after the OK of the cancel {row.said.instant_ms - START_MS} fired")
        super().fire(row)

    def _cas(self, process: Process, change: Cas) -> CasResult:
        [result] = done(self.store.cas([change]))
        if change.key == IT.key and result.status is CasStatus.APPLIED:
            entry = Backfill.from_bytes(change.value)
            self.log.append(f"{self.now_ms - START_MS} {entry.state} {entry.seq}, {entry.created} created")
        return result

    def _check(self) -> None:
        [stored] = done(self.store.read([IT.key]))
        assert stored is not None
        entry = Backfill.from_bytes(stored)
        if entry.state not in (BackfillState.DONE, BackfillState.CANCELLED):
            raise Broken(f"it is {entry.state} and nothing goes on")
        fired = {self.rows[key].said.instant_ms for key in self.fired}
        if entry.created != len(fired):
            raise Broken(f"{entry.created} were created, and {len(fired)} have fired")
        if more := fired - {self.span.begin_ms + n * self.every_ms[1] for n in range(COUNT)}:
            raise Broken(f"too much: {sorted(each - START_MS for each in more)}")
        if entry.state is BackfillState.DONE and len(fired) != COUNT:
            raise Broken(f"{COUNT - len(fired)} are lost")


def played(seed: int, **settings: Any) -> BackfillHistory:  # noqa: ANN401 - of a History
    """Raises Broken."""
    history = BackfillHistory(seed, **settings)
    history.play()
    return history


# --- broken rules ----------------------------------------------------------------------------------------------------


def tick_first(name: BackfillName, entry: Backfill, it: Definition, at: World) -> Procedure[None]:
    """W1."""
    if entry.tick:
        yield from place_rows([backfill_tick_row(backfill.tick_of(name, entry), *entry.tick)], at)
    yield from place_rows(rows_of(name, entry, entry.window, it), at)
    if not entry.tick:
        yield RemoveEntries([name.definition_key(entry.uid)])


def no_void(tick: BackfillTick, entry: Backfill | None, stored: bytes | None, at: World) -> Procedure[bool]:
    """F2."""
    yield from ()
    return True


def early_ok(name: BackfillName, request: str, at: World) -> Procedure[Backfill]:
    """U2: what is ahead is left to others."""
    while True:
        entry, stored = yield from backfill.read_backfill(name)
        if entry is None or stored is None or entry.state is BackfillState.VOID:
            raise backfill.no_backfill(name)
        if entry.state is not BackfillState.RUNNING:
            return entry
        yield from backfill._cancel(name, entry, stored, "", at)


def nothing_inserted(name: BackfillName, entry: Backfill, stored: bytes, at: World) -> Procedure[None]:
    """U2: what was to fire before the end is left to its recorder."""
    later = tuple(slot for slot in entry.ahead.slots if slot.fire_at_ms > entry.ended_ms)
    if later:
        yield from WIND_UP(name, replace(entry, ahead=replace(entry.ahead, slots=later)), stored, at)
        return
    found: list[bytes | None] = yield FindEntries([name.definition_key(entry.uid)])
    assert found
    none = replace(entry, win=0, ahead=Recorded())
    yield TryCas(Cas(name.key, stored, none.to_bytes()))


def last_only(name: BackfillName, entry: Backfill, stored: bytes, at: World) -> Procedure[None]:
    """U2: of what is ahead the last window alone."""
    slots = tuple(slot for _, slot in entry.window) or entry.ahead.slots[-1:]
    yield from WIND_UP(name, replace(entry, ahead=replace(entry.ahead, slots=slots)), stored, at)


WIND_UP = backfill.wind_up
VARIANTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "TICKFIRST": ("complete", tick_first),
    "NOVOID": ("_void", no_void),
    "EARLYOK": ("cancel_backfill", early_ok),
    "NOINSERT": ("wind_up", nothing_inserted),
    "LASTONLY": ("wind_up", last_only),
}


@contextmanager
def variant(name: str) -> Iterator[None]:
    if not name:
        yield
        return
    what, by = VARIANTS[name]
    with patch.object(backfill, what, by):
        yield
