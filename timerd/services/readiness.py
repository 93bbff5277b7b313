"""What an instance finds out about itself without being asked: each second by a look at what is in memory, every few
seconds by its canary, where it has one. What is wrong goes to the board.

A canary costs two writes of the store: it is for instances that somebody watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from timerd.config import ServerConfig
from timerd.services.background import begin
from timerd.services.dispatch.delivery import Delivery
from timerd.services.engine.engine import Engine
from timerd.services.health.canary import Canary, CanarySettings
from timerd.services.health.canary_worker import CanaryWorker
from timerd.services.health.health_board import LIVE, SCHEDULER, HealthBoard
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.failures import Failures
from timerd.services.holding.scheduler import Scheduler
from timerd.services.operating.activity import Activity
from timerd.services.server import ApiServer

LOOK_EVERY_S = 1.0
# Where an instance is watched and nothing else is said: red within twice this and its timeout.
CANARY_EVERY_MS = 5_000


class ReadinessProbe:
    """Of one instance."""

    def __init__(self, board: HealthBoard, time: EngineTime, failures: Failures, canary: Canary | None = None) -> None:
        self.board = board
        self.canary = canary
        self._loops: Sequence[asyncio.Task[None]] = ()
        self._own: list[asyncio.Task[None]] = []
        self._time = time
        self._failures = failures

    def join(self) -> None:
        """The instance serves."""
        if self.canary is not None:
            self.canary.worker.join()

    def watch(self, loops: Sequence[asyncio.Task[None]]) -> None:
        """From here to `stop`. `loops`: what has to go on as long as the instance does."""
        self._loops = loops
        work = [self._look_on()] if self.canary is None else [self._look_on(), self.canary.run()]
        self._own = [begin(each, "readiness probe") for each in work]

    def stop(self) -> None:
        self._loops = ()
        for task in self._own:
            task.cancel()

    def look(self) -> None:
        self._time.exact_ms()
        self.board.put(SCHEDULER, "clock", self._time.doubt)
        self.board.put(
            SCHEDULER, "lease", "" if self._time.is_sure else "The instance is not sure of its lease: it fires nothing."
        )
        self.board.put(SCHEDULER, "unforeseen", self._failures.sentence())
        failed = [loop for loop in self._loops if loop.done() and not loop.cancelled() and loop.exception()]
        self.board.put(LIVE, "loops", f"A part of the instance has failed: {failed[0].exception()}" if failed else "")

    async def _look_on(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)


def readiness_probe_of(
    config: ServerConfig,
    server: ApiServer,
    engine: Engine,
    scheduler: Scheduler,
    delivery: Delivery,
    time: EngineTime,
    activity: Activity,
) -> ReadinessProbe:
    """With a canary, which `activity` tells of, where the settings ask for one, or for the port of those who watch."""
    watched_ms = CANARY_EVERY_MS if config.http.listen else 0
    interval_ms = watched_ms if config.canary_ms is None else config.canary_ms
    if not interval_ms:
        return ReadinessProbe(server.board, time, scheduler.held.failures)
    worker = CanaryWorker(delivery, time.exact_ms)
    settings = CanarySettings(interval_ms)
    canary = Canary(engine, server.api.ingest, worker, scheduler, time, server.board, settings)
    activity.tell_of(canary)
    return ReadinessProbe(server.board, time, scheduler.held.failures, canary)
