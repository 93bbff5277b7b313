"""The whole year at once, moved into the future: store 336,776 reminders, count them per month, list a day, purge.

All instants move by the same number of milliseconds, so that the first lies a day ahead and the last less than 366.
Months and days stay those of New York in 2013: what the server counts is held against the data, range by range.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples.departures.caller import moment
from examples.departures.data import MINUTE_MS, YEAR, Flight, check_day, load_year, midnight_ms
from examples.departures.facts import reminder_ms
from examples.departures.logs import now_ms
from examples.departures.processes import server
from timerd import Client

DAY_MS = 24 * 60 * MINUTE_MS
# The first reminder fires a day and this much after the run began; a run takes less.
_HEAD_START_MS = 60 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class Reminder:
    flight_id: str
    fire_at_ms: int


@dataclass(frozen=True, slots=True)
class Check:
    """One figure of the server beside the data's."""

    what: str
    expected: int
    found: int

    @property
    def agrees(self) -> bool:
        return self.expected == self.found


@dataclass(frozen=True, slots=True)
class Range:
    """Half open."""

    name: str
    start_ms: int
    end_ms: int


class Future:
    """The reminders of the year (or of its first months), moved. Pure; the oracle of this run."""

    def __init__(self, flights: Sequence[Flight], lead_ms: int, today_ms: int) -> None:
        first_ms = min(reminder_ms(flight, lead_ms) for flight in flights)
        wanted_ms = today_ms + DAY_MS + _HEAD_START_MS - first_ms
        self.shift_ms = -(-wanted_ms // MINUTE_MS) * MINUTE_MS
        moved = (Reminder(flight.flight_id, reminder_ms(flight, lead_ms) + self.shift_ms) for flight in flights)
        self.reminders = sorted(moved, key=lambda each: (each.fire_at_ms, each.flight_id))
        self._instants_ms = [each.fire_at_ms for each in self.reminders]

    def months(self) -> list[Range]:
        """The whole year without gaps: a lead of hours reaches into the month before, also that of 2012."""
        starts = [midnight_ms(date(YEAR, month, 1)) + self.shift_ms for month in range(1, 13)]
        edges = [min(starts[0], self._instants_ms[0]), *starts[1:], midnight_ms(date(YEAR + 1, 1, 1)) + self.shift_ms]
        names = [f"{date(YEAR, month, 1):%B}" for month in range(1, 13)]
        return [Range(name, *pair) for name, pair in zip(names, itertools.pairwise(edges), strict=True)]

    def day(self, day: date) -> Range:
        following = midnight_ms(day + timedelta(days=1))
        return Range(day.isoformat(), midnight_ms(day) + self.shift_ms, following + self.shift_ms)

    def within(self, span: Range) -> list[Reminder]:
        start, end = (bisect_left(self._instants_ms, edge_ms) for edge_ms in (span.start_ms, span.end_ms))
        return self.reminders[start:end]


def replay_year(named: str | None, day: date, lead_ms: int, months: int, console: Console) -> bool:
    """Whether the server agreed with the data in everything."""
    check_day(day)
    with console.status(f"reading the flights of {YEAR}"):
        flights = [flight for flight in load_year() if flight.day.month <= months]
        future = Future(flights, lead_ms, round(now_ms()))
    return asyncio.run(_run(named, future, future.day(day), console))


async def _run(named: str | None, future: Future, day: Range, console: Console) -> bool:
    queue = f"departures-{YEAR}-{round(now_ms())}"
    with tempfile.TemporaryDirectory(prefix="timerd-departures-log-") as logs:
        async with server(named, Path(logs, "server.log")) as place, Client(place.address) as client:
            run = YearRun(client, queue, future, console)
            try:
                await run.store()
                checks = [check async for check in run.look(day)]
            finally:
                # Also where something failed: a shared server is left as it was found.
                checks_at_the_end = await run.purge()
    checks += checks_at_the_end
    console.print(table_of(checks))
    return all(check.agrees for check in checks)


class YearRun:
    """The steps, against one server."""

    def __init__(self, client: Client, queue: str, future: Future, console: Console) -> None:
        self._client = client
        self._queue = queue
        self._future = future
        self._console = console

    async def store(self) -> None:
        reminders = self._future.reminders
        since_ms = now_ms()
        with self._progress() as progress:
            bar = progress.add_task("stored", total=len(reminders))
            items = ((each.flight_id, moment(each.fire_at_ms)) for each in reminders)
            await self._client.schedule_many(
                self._queue, items, progress=lambda stored: progress.update(bar, completed=stored)
            )
        took_s = (now_ms() - since_ms) / 1000
        per_s = len(reminders) / took_s
        self._console.print(f"{len(reminders):,} reminders stored in {took_s:.1f} s ({per_s:,.0f}/s)", soft_wrap=True)

    async def look(self, day: Range) -> AsyncIterator[Check]:
        with self._progress() as progress:
            for month in progress.track(self._future.months(), description="counted by month"):
                yield Check(f"counted in {month.name}", len(self._future.within(month)), await self._count(month))
        expected = self._future.within(day)
        listed = [each async for each in self._list(day)]
        yield Check(f"listed on {day.name}", len(expected), len(listed))
        yield Check("of these, as in the data", len(expected), _same(expected, listed))
        yield Check("of these, in order of time", len(listed), _in_order(listed))

    async def purge(self) -> list[Check]:
        """A dry run, the same with force, and a look whether anything is left."""
        in_all = len(self._future.reminders)
        checks = [
            Check("would be purged (dry run)", in_all, await self._purge(force=False)),
            Check("counted after the dry run", in_all, await self._count_all()),
            Check("purged", in_all, await self._purge(force=True)),
            Check("counted after the purge", 0, await self._count_all()),
        ]
        left = [each async for each in self._list(self._future.months()[0])]
        return [*checks, Check("listed in January after the purge", 0, len(left))]

    async def _purge(self, force: bool) -> int:
        """Month by month, so that a bar can show how far it is."""
        purged = 0
        with self._progress() as progress:
            what = "purged by month" if force else "looked at by month"
            for month in progress.track(self._future.months(), description=what):
                start, end = moment(month.start_ms), moment(month.end_ms)
                purged += await self._client.purge(start=start, end=end, queue=self._queue, force=force)
        return purged

    async def _count_all(self) -> int:
        with self._progress() as progress:
            months = progress.track(self._future.months(), description="counted again by month")
            return sum([await self._count(month) for month in months])

    async def _count(self, span: Range) -> int:
        start, end = moment(span.start_ms), moment(span.end_ms)
        return int(await self._client.count(start=start, end=end, queue=self._queue))

    async def _list(self, span: Range) -> AsyncIterator[Reminder]:
        start, end = moment(span.start_ms), moment(span.end_ms)
        async for task in self._client.list(
            start=start, end=end, queue=self._queue, include_payload=True, page_size=1000
        ):
            yield Reminder(task.payload.decode(), task.fire_at_ms)

    def _progress(self) -> Progress:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        return Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)


def _same(expected: Sequence[Reminder], listed: Sequence[Reminder]) -> int:
    """How many of the day were listed, each once."""
    return len(set(expected) & set(listed)) if len(set(listed)) == len(listed) else -1


def _in_order(listed: Sequence[Reminder]) -> int:
    """How many stand where they should."""
    instants = [each.fire_at_ms for each in listed]
    return sum(found == right for found, right in zip(instants, sorted(instants), strict=True))


def table_of(checks: Sequence[Check]) -> Table:
    table = Table("", "data", "server", "", title=f"The flights of {YEAR}, moved into the future")
    table.columns[1].justify = table.columns[2].justify = "right"
    for check in checks:
        verdict = "agrees" if check.agrees else "DIFFERS"
        table.add_row(check.what, f"{check.expected:,}", f"{check.found:,}", verdict)
    return table
