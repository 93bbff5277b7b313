"""The demo from beginning to end: start, schedule, kill, restart, wait, judge, compare."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from timerd.client import Client, TimerdError
from timerd.demo import processes
from timerd.demo.agreement import Figure, compare
from timerd.demo.callers import QUEUE, Callers
from timerd.demo.excuse import forgotten_by_a_crash
from timerd.demo.plan import Plan, make_plan
from timerd.demo.processes import Child, DemoFailed
from timerd.demo.progress import Progress
from timerd.demo.records import Call, Confirmed, Delivery, Kill, LogReader, LogWriter, Record, now_ms, read_logs
from timerd.demo.story import stories_of
from timerd.demo.verdict import Verdict, judge

# From the last fire time until everything must have arrived and been confirmed.
_PATIENCE_S = 30.0
# Settle records and with them the ledger follow within about a second.
_LEDGER_PATIENCE_S = 10.0
_LOOK_S = 0.1
_TIMEOUT_S = 30.0
_LEDGER = ("inserted", "acked", "cancelled", "moved", "carried", "expired", "dead", "purged", "unexplained")


@dataclass(frozen=True, slots=True)
class Settings:
    tasks: int
    seconds: int
    seed: int
    data: Path | None


@dataclass(frozen=True, slots=True)
class Report:
    settings: Settings
    verdict: Verdict
    figures: tuple[Figure, ...]
    down_ms: float
    # What the callers asked, whatever they were answered.
    cancels_asked: int
    moves_asked: int

    @property
    def holds(self) -> bool:
        return self.verdict.holds and all(figure.agrees for figure in self.figures)


@dataclass(slots=True)
class Stage:
    """Everything that is running."""

    folder: Path
    server: Child
    worker: Child
    client: Client
    log: LogWriter
    kills: list[Kill] = field(default_factory=list)


async def run_demo(settings: Settings, *, quiet: bool) -> Report:
    plan = make_plan(settings.tasks, settings.seconds, settings.seed)
    with _folder(settings.data) as folder, Progress(plan, quiet=quiet) as progress:
        async with _stage(folder, progress) as stage:
            await _play(stage, plan, progress)
            progress.say("asking the server for its ledger")
            return await _report(stage, settings)


@contextlib.contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    if data is None:
        with tempfile.TemporaryDirectory(prefix="timerd-demo-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise DemoFailed(f"{data} is in use: name a folder that is empty or does not exist.")
    data.mkdir(parents=True, exist_ok=True)
    yield data


@contextlib.asynccontextmanager
async def _stage(folder: Path, progress: Progress) -> AsyncIterator[Stage]:
    port = processes.free_port()
    server, worker = processes.server(folder, port), processes.worker(folder, port, QUEUE)
    log = LogWriter(folder / "callers.log")
    try:
        progress.say("starting the server and a worker")
        await server.start()
        await worker.start()
        async with Client(f"127.0.0.1:{port}", timeout=_TIMEOUT_S) as client:
            yield Stage(folder, server, worker, client, log)
    finally:
        progress.say("stopping")
        await worker.stop()
        await server.stop()
        log.close()


async def _play(stage: Stage, plan: Plan, progress: Progress) -> None:
    callers = Callers(stage.client, stage.log, start_ms=int(now_ms()) + 1)
    arrivals = Arrivals(stage.folder)
    progress.say("the server is up")
    watching = asyncio.create_task(_watch(callers, arrivals, progress))
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(callers.run(plan))
            group.create_task(_kill_and_restart(stage, callers.start_ms + plan.kill_ms, progress))
        progress.say("waiting for what is still to come")
        await _wait_for_all(stage.folder, arrivals, callers.start_ms + plan.end_ms)
    except ExceptionGroup as group:
        raise _first(group) from group
    finally:
        watching.cancel()
        await asyncio.wait([watching])


def _first(error: Exception) -> Exception:
    """The one that made the others end."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _kill_and_restart(stage: Stage, at_ms: int, progress: Progress) -> None:
    await asyncio.sleep(max(0.0, (at_ms - now_ms()) / 1000))
    killed_ms = now_ms()
    await stage.server.kill()
    progress.say("the server was killed with kill -9; starting it again")
    await stage.server.start()
    kill = Kill(killed_ms, now_ms())
    stage.kills.append(kill)
    stage.log.write([kill])
    progress.say(f"the server is back after {kill.ready_ms - kill.killed_ms:,.0f} ms")


class Arrivals:
    """What the worker has written so far."""

    def __init__(self, folder: Path) -> None:
        self._reader = LogReader(folder / "worker.log")
        self.fired: set[int] = set()
        self.deliveries = 0
        self._number_of: dict[str, int] = {}
        self.confirmed: set[int] = set()

    def look(self) -> None:
        for record in self._reader.read():
            self._note(record)

    def _note(self, record: Record) -> None:
        if isinstance(record, Delivery):
            self.deliveries += 1
            self.fired.add(record.number)
            self._number_of[record.delivery_id] = record.number
        elif isinstance(record, Confirmed) and record.delivery_id in self._number_of:
            self.confirmed.add(self._number_of[record.delivery_id])


async def _watch(callers: Callers, arrivals: Arrivals, progress: Progress) -> None:
    while True:
        arrivals.look()
        progress.show(callers.answered, len(arrivals.fired), len(arrivals.confirmed))
        await asyncio.sleep(_LOOK_S)


async def _wait_for_all(folder: Path, arrivals: Arrivals, last_fire_ms: int) -> None:
    """Bounded: what has not come by then is lost, and the verdict says so."""
    calls = [record for record in LogReader(folder / "callers.log").read() if isinstance(record, Call)]
    must = {story.number for story in stories_of(calls).values() if story.must_arrive}
    deadline_ms = last_fire_ms + _PATIENCE_S * 1000
    while now_ms() < deadline_ms:
        arrivals.look()
        # A little longer than the last fire time, so that what must not come has its chance.
        if must <= arrivals.confirmed and arrivals.fired <= arrivals.confirmed and now_ms() > last_fire_ms + 1500:
            return
        await asyncio.sleep(_LOOK_S)


async def _report(stage: Stage, settings: Settings) -> Report:
    logs = read_logs([stage.folder / "callers.log", stage.folder / "worker.log"])
    excused = forgotten_by_a_crash(logs)
    verdict = judge(replace(logs, deliveries=tuple(each for each in logs.deliveries if each not in excused)))
    return Report(
        settings=settings,
        verdict=verdict,
        figures=await _compared(stage.client, verdict),
        down_ms=sum(kill.ready_ms - kill.killed_ms for kill in logs.kills),
        cancels_asked=sum(call.verb == "cancel" for call in logs.calls),
        moves_asked=sum(call.verb == "move" for call in logs.calls),
    )


async def _compared(client: Client, verdict: Verdict) -> tuple[Figure, ...]:
    deadline_ms = now_ms() + _LEDGER_PATIENCE_S * 1000
    while True:
        try:
            ledger = (await client.server_info()).ledger
        except TimerdError as error:
            raise DemoFailed(f"The server did not show its ledger: {error}") from error
        figures = compare(verdict, {name: getattr(ledger, name) for name in _LEDGER})
        if all(figure.agrees for figure in figures) or now_ms() > deadline_ms:
            return figures
        await asyncio.sleep(_LOOK_S)
