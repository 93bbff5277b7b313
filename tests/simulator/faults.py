"""The store as one run of the server sees it: each call takes its time on the way there and back, may fail before it
is done, may be done without an answer, and a crash may come between any two of these steps.

Behind it is one store in memory that outlives every run (as a disk does). Rows that are appended at the same time share
a commit.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from tests.property.world import OneCommitStore, done
from tests.simulator.repeats import held_up
from tests.simulator.virtual_loop import Owner
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.storage import Append, Appended, CasResult, CasStatus

Result = TypeVar("Result")
READS = {
    "scan",
    "stretch",
    "find",
    "settled",
    "catalogue",
    "get_dead_letters",
    "dead",
    "estimates",
    "read",
    "look",
    "facts",
}


@dataclass
class Weather:
    """What the generator chose for one history; it may clear up. `crash_at`: the server dies at the so-manieth step at
    the store from now; of kind `crash_in` where that is set."""

    random: Random
    delays_ms: Sequence[float] = (0,)
    # Some kinds of call take longer than the others, on one way of the two.
    slow_ms: dict[str, float] = field(default_factory=dict)
    unavailable: float = 0.0
    unknown: float = 0.0
    crash_at: int = 0
    crash_in: str = ""
    # How often rows that are written while a compare-and-set is on its way bring a crash as soon as that is done.
    crash_after_cas: float = 0.0
    cas_on_the_way: int = 0
    cas_begun: int = 0
    # The next rows are written while the marks are moved past them, and the server dies with that.
    writes_at_the_floor: bool = False
    crash: Callable[[], None] = lambda: None
    hits: Counter[str] = field(default_factory=Counter)

    def clear_up(self) -> None:
        self.unavailable = self.unknown = 0.0
        self.crash_at = 0
        self.crash_after_cas = 0.0
        self.writes_at_the_floor = False
        self.delays_ms = (0,)
        self.slow_ms = {}

    async def way(self, name: str) -> None:
        delays = self.delays_ms
        delay_ms = delays[0] if len(delays) == 1 else self.random.choice(delays)
        if name in self.slow_ms:
            delay_ms += self.random.choice((0, self.slow_ms[name]))
        await asyncio.sleep(delay_ms / 1000)

    async def until_the_floor(self) -> None:
        """Of a row that is due now the next compare-and-set lifts `closing`, the one after it `verified`."""
        self.writes_at_the_floor = False
        begun, patience = self.cas_begun + 2, 100
        while patience and not (self.cas_begun >= begun and self.cas_on_the_way):
            patience -= 1
            await asyncio.sleep(0.01)
        if self.cas_on_the_way:
            self.crash_in, self.crash_at = "cas", 2

    def step(self, name: str) -> None:
        """Between two effects."""
        if self.crash_at and self.crash_in in ("", name):
            self.crash_at -= 1
            if not self.crash_at:
                self.hits["crash between effects"] += 1
                self.crash()

    def rows_written(self) -> None:
        if self.cas_on_the_way and self.crash_after_cas and self.random.random() < self.crash_after_cas:
            self.crash_in, self.crash_at = "cas", 2

    def fate(self) -> int:
        """0: done and told; 1: not done, and told so; 2: not done, not told; 3: done, not told."""
        if not self.unavailable and not self.unknown:
            return 0
        dice = self.random.random()
        if dice < self.unavailable:
            return 1
        return 2 + (self.random.random() < 0.5) if dice < self.unavailable + self.unknown else 0


class FaultyStore:
    """All of `Store`, for one run of the server."""

    def __init__(self, disk: OneCommitStore, weather: Weather, owner: Owner) -> None:
        self.traits = disk.traits
        self._disk = disk
        self._weather = weather
        self._owner = owner
        self._appending: list[tuple[Sequence[Append], asyncio.Future[Sequence[Appended]]]] = []

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Every method that has no place of its own here: one step at the disk."""
        work: Callable[..., Coroutine[Any, Any, Any]] = getattr(self._disk, name)

        async def perform(*args: object, **named: object) -> Any:
            return await self._perform(name, lambda: done(work(*args, **named)), writes=name not in READS)

        setattr(self, name, perform)
        return perform

    async def _perform(self, name: str, work: Callable[[], Result], *, writes: bool) -> Result:
        weather = self._weather
        await held_up(name)
        await weather.way(name)
        self._step(name)
        fate = weather.fate()
        if fate == 1 or (fate and not writes):
            weather.hits["store unavailable"] += 1
            await weather.way(name)
            raise StoreUnavailable("The store is away.", "STORE_UNAVAILABLE")
        result = work() if fate != 2 else None
        self._step(name)
        await weather.way(name)
        if fate:
            weather.hits["unknown: done" if fate == 3 else "unknown: not done"] += 1
            raise StoreUnknown("The store did not say.")
        assert fate == 0
        return result  # type: ignore[return-value]

    def _step(self, name: str) -> None:
        self._weather.step(name)
        if self._owner.dead:
            raise asyncio.CancelledError

    async def append(self, messages: Sequence[Append]) -> Sequence[Appended]:
        """What comes while a commit is being gathered goes with it."""
        await held_up("append")
        await self._weather.way("append")
        if self._weather.writes_at_the_floor:
            await self._weather.until_the_floor()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[Appended]] = loop.create_future()
        self._appending.append((messages, future))
        if len(self._appending) == 1:
            loop.call_later(max(self._weather.delays_ms) / 4000, self._commit)
        appended = await future
        await self._weather.way("append")
        return appended

    def _commit(self) -> None:
        batch, self._appending = self._appending, []
        weather = self._weather
        weather.step("append")
        if self._owner.dead:
            return
        fate = weather.fate()
        self._disk.begin_commit()
        results = [done(self._disk.append(messages)) if fate in (0, 3) else [] for messages, _ in batch]
        self._disk.end_commit()
        weather.rows_written()
        weather.step("append")
        if fate:
            weather.hits[("", "store unavailable", "unknown: not done", "unknown: done")[fate]] += 1
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if fate == 1:
                future.set_exception(StoreUnavailable("The store is away.", "STORE_UNAVAILABLE"))
            elif fate:
                future.set_exception(StoreUnknown("The store did not say."))
            else:
                future.set_result(result)

    async def cas(self, changes: Sequence[Any]) -> Sequence[CasResult]:
        """Never raises for an outcome."""
        await held_up("cas")
        weather = self._weather
        weather.cas_on_the_way += 1
        weather.cas_begun += 1
        try:
            await weather.way("cas")
        finally:
            weather.cas_on_the_way -= 1
        self._step("cas")
        fate = weather.fate()
        results = done(self._disk.cas(changes)) if fate in (0, 3) else []
        self._step("cas")
        await weather.way("cas")
        if fate:
            weather.hits["cas unknown: done" if fate == 3 else "cas unknown: not done"] += 1
            return [CasResult(CasStatus.UNKNOWN) for _ in changes]
        return results

    async def close(self) -> None:
        """The disk stays."""
