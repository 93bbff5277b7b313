"""What comes again, put together: schedules, the worker of their ticks, and the sweep after a new tzdata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any

from google.protobuf.message import Message

from timerd.core.schedules.zones import OwnZones
from timerd.ports import Store
from timerd.services.dispatch.delivery import Delivery
from timerd.services.engine.engine import Engine
from timerd.services.holding.driving import Performs
from timerd.services.schedules.backfill_calls import BackfillCalls
from timerd.services.schedules.batch_calls import BatchCalls
from timerd.services.schedules.cycles import Cycles
from timerd.services.schedules.end_hints import EndHints
from timerd.services.schedules.known_definitions import KnownDefinitions
from timerd.services.schedules.passing import OtherInstances
from timerd.services.schedules.prune_calls import PruneCalls
from timerd.services.schedules.rebalancing import Rebalancing
from timerd.services.schedules.rosters import Rosters
from timerd.services.schedules.schedule_calls import ScheduleCalls
from timerd.services.schedules.schedule_stats import ScheduleStats
from timerd.services.schedules.schedules import Schedules
from timerd.services.schedules.slot_work import SlotWorker
from timerd.services.schedules.ticking import TickWorker
from timerd.services.schedules.zone_reads import ZoneReads
from timerd.services.schedules.zone_sweep import ZoneSweep


class Recurring:
    """Of one instance. `is_single`: there is no other one on these data. `holds`: see ZoneSweep."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        runner: Performs,
        now_ms: Callable[[], int],
        retention_ms: int,
        own: OwnZones,
        *,
        is_single: bool,
        holds: bool,
    ) -> None:
        self._runner = KnownDefinitions(ZoneReads(runner))
        self._hints, self._stats = EndHints(self._runner), ScheduleStats(monotonic)
        heard = self._hints.watch, self._stats.recorded
        self.schedules = Schedules(store, engine, self._runner, own, now_ms, retention_ms, *heard)
        self.cycles = Cycles(self.schedules, store, self._runner)
        self.rosters = Rosters(self.schedules.world, self._runner)
        self.rebalancing = Rebalancing(self.schedules, self._runner)
        self.sweep = ZoneSweep(store, self._runner, self.schedules.world, is_single=is_single, holds=holds)

    def verbs(self, engine: Engine) -> dict[str, Callable[[Any], Awaitable[Message]]]:
        """Of ScheduleService."""
        of_many = BatchCalls(self.schedules, engine), PruneCalls(self.schedules, engine)
        each = (ScheduleCalls(self.schedules, engine), *of_many, BackfillCalls(self.schedules.backfills, engine))
        return {name: verb for calls in each for name, verb in calls.verbs().items()}

    def ticks(self, delivery: Delivery, others: OtherInstances | None) -> TickWorker:
        """`others`: work what this instance may not compute."""
        world = self.schedules.world
        delivery.on_durable(partial(self._hints.settled, world=world))
        work = others.work if others is not None else None
        return TickWorker(delivery, world, self._runner, self._stats, work)

    def slots(self, delivery: Delivery) -> SlotWorker:
        """Who fills the slots of cycles whose members timerd keeps."""
        return SlotWorker(self.rosters, delivery, self.schedules.world, self._runner, self._stats)
