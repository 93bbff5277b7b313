"""Engine time for the services: the clock port read, the engine clock asked, at each use."""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import Self

from timerd.core.cluster import STABLE_MS, Comparison, EngineClock, LeaseTrust, Standing
from timerd.model.errors import StoreUnavailable, Unavailable
from timerd.ports import Clock
from timerd.services.background import begin

# By so much the time of a store is ahead in believing a clock that was set.
SOONER_MS = 2_000.0


class EngineTime:
    """Every use observes both clocks, so a step of the wall clock stops firing before the next batch."""

    def __init__(self, clock: Clock, trust: LeaseTrust, stable_ms: float = STABLE_MS) -> None:
        self._clock = clock
        self._trust = trust
        self._engine = EngineClock.anchored(clock.wall_ms(), clock.boot_ms(), stable_ms)
        # Of the majority of the instances, where this one's clock is wrong by that; else 0.
        self.ahead_ms = 0.0
        # For which origin of the clock the others were asked; None: there is nobody to ask.
        self._compared_origin: int | None = None

    def exact_ms(self) -> float:
        """Engine time with a fraction, trusted or not."""
        boot_ms = self._clock.boot_ms()
        self._engine.observe(self._clock.wall_ms(), boot_ms)
        return self._engine.now_ms(boot_ms)

    def firing_ms(self) -> int | None:
        """Whole ms, rounded down: nothing is early. None: nothing fires (clock or lease not trusted)."""
        now_ms = self.exact_ms()
        return int(now_ms) if self.trusted and self.is_sure else None

    def accepting_ms(self) -> int:
        """Whole ms. Raises Unavailable where the clock is not trusted; to take something in needs no lease."""
        now_ms = int(self.exact_ms())
        if not self.trusted:
            raise Unavailable(f"{self.doubt} Try again then.", "CLOCK_NOT_TRUSTED", retry_after_ms=5_000)
        return now_ms

    # -- the others' clocks ---------------------------------------------------------------------------------------

    @property
    def origin(self) -> int:
        """Another one whenever the clock was set anew."""
        return self._engine.origins

    @property
    def is_set_anew(self) -> bool:
        """Since it was compared with the others'."""
        return self._compared_origin not in (None, self._engine.origins)

    def compared(self, found: Comparison, origin: int) -> None:
        """With the clocks of the others, while it had that origin. Where they cannot tell, what was known stays."""
        self._compared_origin = origin
        if found.standing is not Standing.UNKNOWN:
            self.ahead_ms = found.ahead_ms

    @property
    def doubt(self) -> str:
        """Why time is not trusted, and until when; empty where it is."""
        if not self._engine.trusted:
            return (
                f"The server's wall clock jumped by {self.difference_ms:.0f} ms: it takes nothing in and fires nothing "
                f"until the clock has been stable for {self.stable_s:g} s."
            )
        if self.ahead_ms:
            where = "ahead of" if self.ahead_ms > 0 else "behind"
            return (
                f"The clock of this instance is {abs(self.ahead_ms):.0f} ms {where} those of the majority of the "
                "instances, which agree: it holds nothing, takes nothing in and fires nothing until it is right. See "
                "to the machine's time service; where the clock was ahead, start this instance anew then."
            )
        if self.is_set_anew:
            return "The clock of this instance was set anew: it fires nothing until the other instances were asked."
        return ""

    @property
    def is_sure(self) -> bool:
        """Whether what this instance holds is surely its own."""
        return self._trust.is_trusted(self._clock.boot_ms())

    def check_sure(self) -> None:
        """Raises StoreUnavailable: what was held is to be tried again, or dropped, when the store answers."""
        if not self.is_sure:
            raise StoreUnavailable("This instance is not sure of its lease.", "LEASE_NOT_SURE")

    @property
    def difference_ms(self) -> float:
        """Wall less engine time."""
        return self._engine.difference_ms

    @property
    def stable_s(self) -> float:
        return self._engine.stable_ms / 1000

    @property
    def trusted(self) -> bool:
        return self._engine.trusted and not self.ahead_ms and not self.is_set_anew


class StoreTime:
    """Engine time for a store, which is there before anybody knows whether to trust it.

    A store dates what it writes, and forgets what has expired. By a wall clock that is stepped for a moment it would
    forget what is needed, and date what it writes so that nobody's later change counts. It may ask in any thread.

    A clock that was set for good is believed a little sooner than by `EngineTime`, which takes nothing in until then:
    what is written is dated by the time at which it was asked for."""

    def __init__(self, clock: Clock, stable_ms: float = STABLE_MS) -> None:
        self._clock = clock
        sooner_ms = min(SOONER_MS, stable_ms / 2)
        self._engine = EngineClock.anchored(clock.wall_ms(), clock.boot_ms(), stable_ms - sooner_ms)
        self._look_s = sooner_ms / 2000
        self._lock = Lock()

    @classmethod
    def followed(cls, clock: Clock, stable_ms: float) -> Self:
        """Of a server: it looks at its clocks also while nothing is asked of the store."""
        time = cls(clock, stable_ms)
        begin(time._follow(), "time of the store")
        return time

    def now_ms(self) -> int:
        with self._lock:
            boot_ms = self._clock.boot_ms()
            self._engine.observe(self._clock.wall_ms(), boot_ms)
            return int(self._engine.now_ms(boot_ms))

    async def _follow(self) -> None:
        while True:
            self.now_ms()
            await asyncio.sleep(self._look_s)
