"""Replays a day: stores its reminders, lets the facts of 2013 happen at a chosen speed, then asks the oracle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.departures.caller import Caller
from examples.departures.data import Flight, load_day
from examples.departures.facts import Pace, facts_of, first_instant_ms, last_instant_ms
from examples.departures.logs import (
    CALLS,
    CRASHES,
    DELIVERIES,
    Call,
    Crash,
    LogWriter,
    Plan,
    Received,
    now_ms,
    read_log,
    read_plan,
    write_plan,
)
from examples.departures.oracle import Verdict, judge, story_of
from examples.departures.processes import Place, RunError, Victim, server, worker
from examples.departures.report import show
from timerd import Client

# Between the start of the run and the first instant of the day: time to store everything.
_HEAD_START_MS = 5_000
# How long the run waits for reminders after the last one was due, and for surprises after the last one came.
_GRACE_S = 15.0
_AFTERWARDS_S = 1.0
_LOOK_EVERY_S = 0.2
# Who loses an instance asks on at the others, some of which has to take over first.
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What to replay. `server` None: one of our own, or three instances on Cassandra, one of which is killed."""

    day: date
    speed: int
    lead_ms: int
    folder: Path
    server: str | None = None
    cluster: bool = False


def replay(wish: Wish, console: Console) -> bool:
    """Whether the oracle found everything right."""
    wish = replace(wish, folder=_new_folder(wish.folder))
    flights = load_day(wish.day)
    asyncio.run(_run(wish, flights, console))
    return judge_folder(wish.folder, console)


def _new_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if any((folder / name).exists() for name in (CALLS, DELIVERIES)):
        raise RunError(f"{folder} holds the logs of another run already: name another folder with --logs.")
    return folder.resolve()


async def _run(wish: Wish, flights: Sequence[Flight], console: Console) -> None:
    async with _place(wish) as place, Client(place.address, timeout=_TIMEOUT_S) as client:
        plan = _plan(wish, flights)
        write_plan(wish.folder, plan)
        ends_ms = _ends_ms(plan, flights)
        console.print(
            f"{wish.day}: {len(flights):,} flights, {plan.speed:,} times as fast as they were, on {place.address}: "
            f"{(ends_ms - now_ms()) / 1000:.0f} s. Logs: {wish.folder}",
            soft_wrap=True,
        )
        middle_ms = (plan.wall_start_ms + ends_ms) // 2
        async with (
            worker(place.gate_address, plan.queue, wish.folder / DELIVERIES) as gate,
            _crash(place.victim, middle_ms, wish.folder, console),
        ):
            await _call(client, plan, flights, wish.folder, console)
            await _wait_for_the_last(plan, wish.folder, ends_ms, gate)


@asynccontextmanager
async def _place(wish: Wish) -> AsyncIterator[Place]:
    if wish.cluster:
        # It uses what the tests have.
        from examples.departures.cluster import instances

        async with instances(wish.folder) as place:
            yield place
    else:
        async with server(wish.server, wish.folder / "server.log") as place:
            yield place


@asynccontextmanager
async def _crash(victim: Victim | None, at_ms: int, folder: Path, console: Console) -> AsyncIterator[None]:
    """Beside the day; it is over before the run is."""
    crash = asyncio.create_task(_kill_and_restart(victim, at_ms, folder, console)) if victim is not None else None
    try:
        yield
        if crash is not None:
            await crash
    finally:
        if crash is not None:
            crash.cancel()


async def _kill_and_restart(victim: Victim, at_ms: int, folder: Path, console: Console) -> None:
    await asyncio.sleep((at_ms - now_ms()) / 1000)
    killed_ms = now_ms()
    await victim.kill()
    console.print(f"{victim.victim} was killed with kill -9; it is started again under its name")
    await victim.start_again()
    crash = Crash(killed_ms, now_ms())
    log = LogWriter(folder / CRASHES)
    log.write([crash])
    log.close()
    console.print(f"{victim.victim} serves again after {(crash.back_ms - crash.killed_ms) / 1000:.1f} s")


def _plan(wish: Wish, flights: Sequence[Flight]) -> Plan:
    start_ms = time.time_ns() // 1_000_000 + _HEAD_START_MS
    first_ms = first_instant_ms(flights, wish.lead_ms)
    # A queue of its own: what an interrupted run left on a shared server is not met again.
    queue = f"departures-{wish.day}-{start_ms}"
    return Plan(wish.day.isoformat(), wish.lead_ms, wish.speed, first_ms, start_ms, queue)


def _ends_ms(plan: Plan, flights: Sequence[Flight]) -> int:
    pace = Pace(plan.data_start_ms, plan.wall_start_ms, plan.speed)
    return pace.wall_ms(last_instant_ms(flights, plan.lead_ms))


async def _call(client: Client, plan: Plan, flights: Sequence[Flight], folder: Path, console: Console) -> None:
    log = LogWriter(folder / CALLS)
    facts = sum(len(facts_of(flight, plan.lead_ms)) for flight in flights)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            bar = progress.add_task("moves and cancels", total=facts)
            caller = Caller(client, plan, log, lambda: progress.advance(bar))
            await caller.store_reminders(flights)
            await caller.follow(flights)
    finally:
        log.close()


async def _wait_for_the_last(plan: Plan, folder: Path, ends_ms: int, gate: asyncio.subprocess.Process) -> None:
    """Until every reminder that must come has come, or the grace is over; then a little longer, for surprises."""
    await asyncio.sleep((ends_ms - now_ms()) / 1000)
    wanted = _must_come(folder)
    while now_ms() < ends_ms + _GRACE_S * 1000:
        if gate.returncode is not None:
            raise RunError(f"The worker ended with exit code {gate.returncode} before the day was over.")
        if wanted <= {each.flight_id for each in read_log(folder / DELIVERIES, Received)}:
            break
        await asyncio.sleep(_LOOK_EVERY_S)
    await asyncio.sleep(_AFTERWARDS_S)


def _must_come(folder: Path) -> set[str]:
    calls: dict[str, list[Call]] = {}
    for call in read_log(folder / CALLS, Call):
        calls.setdefault(call.flight_id, []).append(call)
    return {flight_id for flight_id, mine in calls.items() if story_of(mine).must}


def judge_folder(folder: Path, console: Console) -> bool:
    """From the logs of a run that is over, and the data."""
    verdict, plan = verdict_of(folder)
    show(verdict, f"{plan.day}, {plan.speed:,} times as fast", console)
    return verdict.holds


def verdict_of(folder: Path) -> tuple[Verdict, Plan]:
    try:
        plan = read_plan(folder)
    except FileNotFoundError:
        raise RunError(f"{folder} holds no run: name the folder that a replay wrote its logs to.") from None
    flights = load_day(date.fromisoformat(plan.day))
    calls, received = read_log(folder / CALLS, Call), read_log(folder / DELIVERIES, Received)
    return judge(flights, plan, calls, received, read_log(folder / CRASHES, Crash)), plan
