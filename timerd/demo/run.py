"""The demo from beginning to end: start, schedule, kill, restart, wait, judge, compare."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from timerd.client import Client, TimerdError
from timerd.demo import every_second, processes
from timerd.demo.agreement import Figure, compare, may_be_repeated
from timerd.demo.callers import QUEUE, Callers
from timerd.demo.every_second import Seconds
from timerd.demo.excuse import forgotten_by_a_crash
from timerd.demo.plan import Plan, make_plan
from timerd.demo.processes import DemoFailed, OneServer, Servers
from timerd.demo.progress import DemoProgress
from timerd.demo.records import (
    CallRecord,
    Confirmed,
    DeliveryRecord,
    Kill,
    LogReader,
    Logs,
    LogWriter,
    Record,
    now_ms,
    read_logs,
)
from timerd.demo.story import stories_of
from timerd.demo.verdict import Verdict, judge

# From the last fire time until everything must have arrived and been confirmed.
_TIMEOUT_S = 30.0
# Settle records and with them the ledger follow within about a second.
_LEDGER_TIMEOUT_S = 10.0
_LOOK_S = 0.1
_TIMEOUT_S = 30.0
_LEDGER = ("inserted", "acked", "cancelled", "moved", "carried", "expired", "dead", "purged", "unexplained")


@dataclass(frozen=True, slots=True)
class DemoSettings:
    tasks: int
    seconds: int
    seed: int
    data: Path | None


@dataclass(frozen=True, slots=True)
class Report:
    settings: DemoSettings
    verdict: Verdict
    figures: tuple[Figure, ...]
    # What was killed, and for how long it was gone.
    victim: str
    down_ms: float
    # What the callers asked, whatever they were answered.
    cancels_asked: int
    moves_asked: int
    # Of the schedule beside the tasks.
    every_second: every_second.Judgement

    @property
    def holds(self) -> bool:
        agrees = all(figure.agrees for figure in self.figures)
        return self.verdict.holds and agrees and not self.every_second.wrong


@dataclass(slots=True)
class DemoStage:
    """Everything that is running."""

    folder: Path
    servers: Servers
    client: Client
    log: LogWriter
    # Of the schedule.
    seconds: Seconds
    kills: list[Kill] = field(default_factory=list)

    def logs_of_schedule(self) -> Logs:
        return read_logs([self.folder / f"{every_second.WORKER}.log"])


def judged(logs: Logs) -> Verdict:
    excused = forgotten_by_a_crash(logs)
    return judge(replace(logs, deliveries=tuple(each for each in logs.deliveries if each not in excused)))


async def run_demo(
    settings: DemoSettings,
    *,
    quiet: bool,
    on: Callable[[Path], Servers] = OneServer,
    judging: Callable[[Logs], Verdict] = judged,
) -> Report:
    """`on`: what it plays on, given the folder of the run."""
    plan = make_plan(settings.tasks, settings.seconds, settings.seed)
    with _folder(settings.data) as folder, DemoProgress(plan, quiet=quiet) as progress:
        async with _stage(folder, on(folder), settings.seconds, progress) as stage:
            await _play(stage, plan, progress)
            progress.say(f"asking {stage.servers.name} for the ledger")
            return await _report(stage, settings, judging)


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
async def _stage(folder: Path, servers: Servers, seconds: int, progress: DemoProgress) -> AsyncIterator[DemoStage]:
    target = servers.worker_target
    workers = [processes.worker(folder, target, every_second.QUEUE, every_second.WORKER)]
    workers.append(processes.worker(folder, target, QUEUE))
    log = LogWriter(folder / "callers.log")
    try:
        progress.say(f"starting {servers.name} and two workers")
        await servers.start()
        await asyncio.gather(*(worker.start() for worker in workers))
        async with Client(servers.callers_target, timeout=_TIMEOUT_S) as client:
            yield DemoStage(folder, servers, client, log, every_second.seconds_from(int(now_ms()), seconds))
    finally:
        progress.say("stopping")
        await asyncio.gather(*(worker.stop() for worker in workers))
        await servers.stop()
        log.close()


async def _play(stage: DemoStage, plan: Plan, progress: DemoProgress) -> None:
    await every_second.create(stage.client, stage.seconds)
    callers = Callers(stage.client, stage.log, start_ms=int(now_ms()) + 1)
    arrivals = Arrivals(stage.folder)
    progress.say("all is up")
    watching = asyncio.create_task(_watch(callers, arrivals, progress))
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(callers.run(plan))
            group.create_task(_kill_and_restart(stage, callers.start_ms + plan.kill_ms, progress))
        progress.say("waiting for what is still to come")
        # Of what was killed and is not back yet, nothing can arrive.
        ends_ms = callers.start_ms + plan.end_ms, stage.seconds.end_ms
        last_ms = max(*ends_ms, *(int(kill.ready_ms) for kill in stage.kills))
        await _wait_for_all(stage, arrivals, last_ms)
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


async def _kill_and_restart(stage: DemoStage, at_ms: int, progress: DemoProgress) -> None:
    await asyncio.sleep(max(0.0, (at_ms - now_ms()) / 1000))
    killed_ms = now_ms()
    victim = stage.servers.victim
    await stage.servers.kill()
    progress.say(f"{victim} was killed with kill -9; starting it again")
    await stage.servers.start_again()
    kill = Kill(killed_ms, now_ms())
    stage.kills.append(kill)
    stage.log.write([kill])
    progress.say(f"{victim} is back after {kill.ready_ms - kill.killed_ms:,.0f} ms")


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
        if isinstance(record, DeliveryRecord):
            self.deliveries += 1
            self.fired.add(record.number)
            self._number_of[record.delivery_id] = record.number
        elif isinstance(record, Confirmed) and record.delivery_id in self._number_of:
            self.confirmed.add(self._number_of[record.delivery_id])


async def _watch(callers: Callers, arrivals: Arrivals, progress: DemoProgress) -> None:
    while True:
        arrivals.look()
        progress.show(callers.answered, len(arrivals.fired), len(arrivals.confirmed))
        await asyncio.sleep(_LOOK_S)


async def _wait_for_all(stage: DemoStage, arrivals: Arrivals, last_fire_ms: int) -> None:
    """Bounded: what has not come by then is lost, and the verdict says so. `last_fire_ms`: of what could be fired."""
    calls = [record for record in LogReader(stage.folder / "callers.log").read() if isinstance(record, CallRecord)]
    must = {story.number for story in stories_of(calls).values() if story.must_arrive}
    deadline_ms = last_fire_ms + _TIMEOUT_S * 1000
    while now_ms() < deadline_ms:
        arrivals.look()
        # A little longer than the last fire time, so that what must not come has its chance.
        is_all = must <= arrivals.confirmed and arrivals.fired <= arrivals.confirmed and now_ms() > last_fire_ms + 1500
        if is_all and every_second.is_complete(stage.seconds, stage.logs_of_schedule()):
            return
        await asyncio.sleep(_LOOK_S)


async def _report(stage: DemoStage, settings: DemoSettings, judging: Callable[[Logs], Verdict]) -> Report:
    logs = read_logs([stage.folder / "callers.log", stage.folder / "worker.log"])
    verdict = judging(logs)
    repeated = set[int]() if stage.servers.knows_repeats else may_be_repeated(logs)
    return Report(
        settings=settings,
        verdict=verdict,
        figures=await _compared(stage, verdict, len(repeated)),
        victim=stage.servers.victim,
        down_ms=sum(kill.ready_ms - kill.killed_ms for kill in logs.kills),
        cancels_asked=sum(call.verb == "cancel" for call in logs.calls),
        moves_asked=sum(call.verb == "move" for call in logs.calls),
        every_second=every_second.judge(stage.seconds, stage.logs_of_schedule()),
    )


async def _compared(stage: DemoStage, verdict: Verdict, written_again: int) -> tuple[Figure, ...]:
    least = stage.seconds.count
    scheduled = least, least + stage.seconds.most_ticks
    deadline_ms = now_ms() + _LEDGER_TIMEOUT_S * 1000
    while True:
        try:
            ledger = (await stage.client.server_info()).ledger
        except TimerdError as error:
            raise DemoFailed(f"The server did not show its ledger: {error}") from error
        seen = {name: getattr(ledger, name) for name in _LEDGER}
        figures = compare(verdict, seen, written_again, scheduled)
        if all(figure.agrees for figure in figures) or now_ms() > deadline_ms:
            return figures
        await asyncio.sleep(_LOOK_S)
