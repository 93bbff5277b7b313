"""A task that an instance gives itself every few seconds: stored, fired, delivered and acknowledged on time, it says
that this instance does for callers what it is there for; and where it gets stuck says which part does not.

It takes the way of every other task from the budget of requests on, in a partition that this instance holds, to a
worker inside this process: what other instances do wrong is not seen here. No caller can name its queue, and the
ledger counts it. It is late only when it is later than the timeout: a loaded server is not a sick one.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from typing import NamedTuple

import numpy as np

from timerd.core.dispatch import LATENESS_BOUNDS_MS, Histogram
from timerd.core.taken import CANARY
from timerd.model.errors import Overloaded, StoreUnavailable, TimerdError, Unavailable
from timerd.model.identity import message_prefix
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template
from timerd.services.calls.ingest import IngestBudget
from timerd.services.engine.engine import Engine
from timerd.services.engine.verbs import NewTasks
from timerd.services.health.canary_worker import NAME_BYTES, CanaryWorker, Flight
from timerd.services.health.health_board import API, SCHEDULER, STORE, HealthBoard
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.scheduler import Scheduler

REASON = "canary"
# Long enough to be stored and hinted before it is due.
LEAD_MS = 1_000
# For each of its three ways: into the store, to the worker, and the ack into the store.
TIMEOUT_S = 5.0
# What is left over by an instance that died is not delivered by the next one after so long.
KEPT_MS = 30_000
OUTCOMES = ("fired", "stored", "refused", "not_stored", "not_delivered", "not_acked", "moved")
_log = logging.getLogger(__name__)


class Failed(Exception):
    """`part` is red because of it; none is where nobody is to blame."""

    def __init__(self, outcome: str, part: str = "", sentence: str = "") -> None:
        super().__init__(sentence)
        self.outcome = outcome
        self.part = part
        self.sentence = sentence


class CanarySettings(NamedTuple):
    interval_ms: int
    timeout_s: float = TIMEOUT_S


class Canary:
    """`runs` counts by outcome; `round_trip_ms` is from the call to the ack that is durable."""

    def __init__(
        self,
        engine: Engine,
        ingest: IngestBudget,
        worker: CanaryWorker,
        scheduler: Scheduler,
        time: EngineTime,
        board: HealthBoard,
        settings: CanarySettings,
    ) -> None:
        self.settings = settings
        self.worker = worker
        self.runs: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self.round_trip_ms = Histogram(LATENESS_BOUNDS_MS)
        self._engine = engine
        self._ingest = ingest
        self._scheduler = scheduler
        self._time = time
        self._board = board
        self._inserting: asyncio.Task[object] | None = None
        self._good_s = asyncio.get_running_loop().time()

    @property
    def age_s(self) -> float:
        """Since the last one that came through, or since the start."""
        return asyncio.get_running_loop().time() - self._good_s

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.once()
            await asyncio.sleep(self.settings.interval_ms / 1000)

    async def once(self) -> str:
        """One of OUTCOMES."""
        began_s = asyncio.get_running_loop().time()
        flight = Flight(secrets.token_bytes(NAME_BYTES))
        self.worker.expect(flight)
        try:
            outcome = await self._fly(flight)
            self._came_through(outcome, began_s)
        except Failed as failed:
            outcome = self._got_stuck(failed)
        except Exception as error:  # noqa: BLE001 - it is logged, and the next one is tried
            _log.exception("the canary met an error that nobody foresaw")
            outcome = self._got_stuck(Failed("not_stored", SCHEDULER, f"{type(error).__name__}: {error}"))
        finally:
            self.worker.forget(flight)
        self.runs[outcome] += 1
        return outcome

    # -- its way --------------------------------------------------------------------------------------------------

    async def _fly(self, flight: Flight) -> str:
        """Of what no partition is placed here for, another instance delivers it."""
        fire_at_ms = int(self._time.exact_ms()) + LEAD_MS
        own = self._own(bucket_of(fire_at_ms))
        partition = own or Partition(TIME_SCOPE, bucket_of(fire_at_ms), 0)
        await self._store(self._task(flight, partition, fire_at_ms))
        self._board.clear(API, REASON)
        if own is None:
            return "stored"
        lead_s = max(0.0, fire_at_ms - self._time.exact_ms()) / 1000
        if not await self._within(flight.delivered, lead_s):
            raise self._late(partition)
        self._board.clear(SCHEDULER, REASON)
        if not await self._within(flight.settled) or (problem := flight.settled.result()):
            why = problem if flight.settled.done() else self._silence("made the ack of a task durable")
            raise Failed("not_acked", STORE, why)
        return "fired"

    def _own(self, bucket_ms: int) -> Partition | None:
        """One of the bucket that this instance holds, or will hold when there is something in it."""
        shards = range(self._engine.shards.count(bucket_ms))
        partitions = (Partition(TIME_SCOPE, bucket_ms, shard) for shard in shards)
        return next((each for each in partitions if self._scheduler.hand_over.is_mine(each)), None)

    def _task(self, flight: Flight, partition: Partition, fire_at_ms: int) -> NewTasks:
        """With an id by which it goes to that partition, found by trying."""
        bucket_ms, of = partition.bucket_ms, self._engine.shards.of
        prefix = b""
        while not prefix or of(prefix, bucket_ms) != partition.shard:
            prefix = message_prefix(CANARY.namespace, secrets.token_hex(16), b"")
        template = Template(*CANARY, expire_at_ms=fire_at_ms + KEPT_MS)
        columns = np.array([(fire_at_ms, fire_at_ms, 0, 0, 0, 0, 0, 0, NAME_BYTES, 0)], ROW)
        rows = RowGroup(columns, np.frombuffer(prefix, PREFIX), [template], flight.name, [])
        return NewTasks(CANARY.namespace, prefix, rows, {})

    async def _store(self, task: NewTasks) -> None:
        """A call that did not come back is waited for before the next one is made: they do not pile up."""
        timeout_s = self.settings.timeout_s
        if self._inserting is not None:
            await asyncio.wait({self._inserting}, timeout=timeout_s)
        if self._inserting is None or self._inserting.done():
            self._inserting = asyncio.get_running_loop().create_task(self._insert(task))
            await asyncio.wait({self._inserting}, timeout=timeout_s)
        if not self._inserting.done():
            raise Failed("not_stored", STORE, self._silence("stored a task"))
        inserted, self._inserting = self._inserting, None
        try:
            inserted.result()
        except Overloaded as error:
            raise Failed("refused", API, str(error)) from error
        except StoreUnavailable as error:
            raise Failed("not_stored", STORE, str(error)) from error
        except Unavailable as error:
            raise Failed("refused", SCHEDULER, str(error)) from error
        except TimerdError as error:
            raise Failed("not_stored", STORE, str(error)) from error

    async def _insert(self, task: NewTasks) -> None:
        """Where there is no room for a request, it tries again as callers are advised to."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self.settings.timeout_s / 2
        while True:
            try:
                with self._ingest.hold(task.rows.size_bytes):
                    await self._engine.schedule(task)
                return
            except Overloaded as error:
                if loop.time() >= until_s:
                    raise
                await asyncio.sleep(error.retry_after_ms / 1000)

    async def _within(self, future: asyncio.Future[str], lead_s: float = 0.0) -> bool:
        return bool((await asyncio.wait({future}, timeout=lead_s + self.settings.timeout_s))[0])

    def _silence(self, done: str) -> str:
        return f"The store has not {done} within {self.settings.timeout_s:g} s."

    def _late(self, partition: Partition) -> Failed:
        """Unless another instance has the partition by now: then it fires there."""
        if not self._scheduler.hand_over.is_mine(partition):
            return Failed("moved")
        return Failed(
            "not_delivered", SCHEDULER, f"A task was not delivered {self.settings.timeout_s:g} s after it was due."
        )

    # -- what it says ---------------------------------------------------------------------------------------------

    def _came_through(self, outcome: str, began_s: float) -> None:
        self._good_s = asyncio.get_running_loop().time()
        if outcome == "fired":
            self.round_trip_ms.add((self._good_s - began_s) * 1000)
        for part in (API, SCHEDULER, STORE):
            self._board.clear(part, REASON)

    def _got_stuck(self, failed: Failed) -> str:
        if failed.part:
            if self._board.is_serving(failed.part):
                _log.warning("the canary got stuck: %s", failed.sentence)
            self._board.set(failed.part, REASON, failed.sentence)
        return failed.outcome
