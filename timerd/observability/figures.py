"""What the metrics are made of: a copy of all counters of one instance, taken at one moment in the event loop.

The copy is what leaves the loop: turning it into text takes milliseconds and is done in a thread (see collector.py).
Facts that need the store are read at most every half minute, however often they are asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from timerd.core.dispatch import OTHERS, QueueStats
from timerd.core.partition import PartitionMachine
from timerd.core.regulation import KeyUse, LimitLabels
from timerd.core.taken import QueueKey
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.partition import scope_of
from timerd.observability.curves import Curve, curve_of
from timerd.observability.key_figures import KeyFigures, keys_of
from timerd.observability.limit_figures import (
    AdaptiveFigures,
    BreakerFigures,
    LimitFigures,
    adaptive_of,
    breakers_of,
    limits_of,
)
from timerd.observability.loop_lag import LoopLag
from timerd.observability.own_health import HealthFigures, health_of
from timerd.observability.pool_figures import PoolFigures, pools_of
from timerd.observability.store_timing import StoreTimes
from timerd.services.api import TimerApi
from timerd.services.background import unforeseen
from timerd.services.dispatch.delivery import Delivery
from timerd.services.engine.engine import Engine
from timerd.services.engine.verbs import EngineFacts
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.scheduler import Scheduler
from timerd.services.peers.peers import Peers
from timerd.services.readiness import ReadinessProbe
from timerd.services.regulation.regulating import Regulating
from timerd.services.schedules.ticking import TickWorker
from timerd.services.schedules.zone_sweep import SweepFigures, ZoneSweep
from timerd.services.streams.sink import StreamSink
from timerd.services.streams.streams import Streams
from timerd.services.webhooks.sink import WebhookSink
from timerd.services.webhooks.webhooks import Webhooks

_log = logging.getLogger(__name__)
FACTS, ERROR = "facts", "error"
FACTS_EVERY_S = 30.0
FACTS_TIMEOUT_S = 2.0


class QueueFigures(NamedTuple):
    lateness: Curve
    processing: Curve
    attempts: Curve
    outcomes: Mapping[str, int]
    dead: int


class ScheduleFigures(NamedTuple):
    """`broken`: whose ticks have failed ten times on this instance, and go on failing. `zones`: None without ticks."""

    ticks: Mapping[str, int]
    instants: Mapping[str, int]
    broken: int
    zones: SweepFigures | None = None


class TargetFigures(NamedTuple):
    """Of one target. `outcomes`: requests, or entries, by what they came to; `state`: one of TargetState."""

    outcomes: Mapping[str, int]
    state: str


def _queues(known: Mapping[QueueKey, QueueStats]) -> dict[QueueKey, QueueFigures]:
    return {queue: _queue(stats) for queue, stats in known.items() if not queue.is_internal}


def _targets(sinks: Iterable[WebhookSink | StreamSink]) -> dict[QueueKey, TargetFigures]:
    return {sink.queue: TargetFigures(dict(sink.outcomes), sink.state.value) for sink in sinks}


@dataclass(frozen=True, slots=True)
class Figures:
    """`due`: in memory, of the queues that are known; `backlogs`: buckets of the store in which something due may wait,
    of queues without workers; `oldest_due_s`: how long the oldest task that has come due and is
    held here waits; `mark_lag_s`: how far the slowest partition's mark is behind the present."""

    queues: Mapping[QueueKey, QueueFigures]
    scheduled: Mapping[QueueKey, int]
    pending: Mapping[QueueKey, int]
    due: Mapping[QueueKey, int]
    backlogs: Mapping[QueueKey, int]
    changed: Mapping[str, int]
    quota_taken: Mapping[tuple[str, str], int]
    quota_refused: Mapping[tuple[str, str], int]
    quota_used: Mapping[tuple[str, str], int]
    calls: Mapping[tuple[str, str], int]
    call_times: Mapping[str, Curve]
    answered_calls: Mapping[str, Curve]
    in_flight: int
    instances: int
    hints_dropped: int
    hint_messages: Mapping[str, int]
    workers: int
    streams: int
    partitions: Mapping[str, int]
    partition_events: Mapping[str, int]
    rescued_rows: int
    foreign_rows: int
    unforeseen: Mapping[str, int]
    lease_events: Mapping[str, int]
    lease_age_s: float
    lease_sure: bool
    loaded: int
    oldest_due_s: float
    mark_lag_s: float
    memory_used_bytes: int
    memory_budget_bytes: int
    ingest_used_bytes: int
    ingest_budget_bytes: int
    clock_trusted: bool
    clock_offset_s: float
    store_times: Mapping[str, Curve]
    store_failed: Mapping[tuple[str, str], int]
    store_changes: Mapping[tuple[str, str], int]
    loop_lag: Curve
    loop_busy: float
    facts: EngineFacts | None
    health: HealthFigures
    schedules: ScheduleFigures
    webhooks: Mapping[QueueKey, TargetFigures]
    stream_targets: Mapping[QueueKey, TargetFigures]
    limits: Mapping[LimitLabels, LimitFigures]
    key_use: Mapping[LimitLabels, KeyUse]
    breakers: Mapping[QueueKey, BreakerFigures]
    adaptive: Mapping[QueueKey, AdaptiveFigures]
    pools: Mapping[tuple[str, str], PoolFigures]
    keys: KeyFigures

    @property
    def saturation(self) -> float:
        """How much of what runs out first is in use: of 1, and what autoscaling goes by."""
        memory = self.memory_used_bytes / max(1, self.memory_budget_bytes)
        return max(memory, self.ingest_used_bytes / max(1, self.ingest_budget_bytes), self.loop_busy)


class Observed:
    """The parts of one instance that keep counters."""

    def __init__(
        self,
        engine: Engine,
        scheduler: Scheduler,
        delivery: Delivery,
        api: TimerApi,
        time: EngineTime,
        store_times: StoreTimes,
        probe: ReadinessProbe,
        peers: Peers | None = None,
        ticks: TickWorker | None = None,
        zones: ZoneSweep | None = None,
        webhooks: Webhooks | None = None,
        regulating: Regulating | None = None,
        streams: Streams | None = None,
    ) -> None:
        self.engine = engine
        self.store_times = store_times
        self.loop_lag = LoopLag()
        self._scheduler = scheduler
        self._delivery = delivery
        self._api = api
        self._time = time
        self._probe = probe
        self._peers = peers
        self._ticks = ticks
        self._zones = zones
        self._posting: Sequence[WebhookSink] = webhooks.sinks if webhooks is not None else []
        self._appending: Sequence[StreamSink] = streams.sinks if streams is not None else []
        self._regulating = regulating
        self._facts: EngineFacts | None = None
        self._pending: Mapping[QueueKey, int] = {}
        self._read_s = -FACTS_EVERY_S
        self._reading = asyncio.Lock()

    async def figures(self) -> Figures:
        await self._refresh()
        now_ms = self._time.exact_ms()
        machines = list(self._scheduler.machines.values())
        oldest = [ms for m in machines if (ms := m.oldest_standing_ms(int(now_ms))) is not None]
        held, member = self._scheduler.held, self._scheduler.membership
        memory, ingest, calls = self._scheduler.memory, self._api.ingest, self._api.calls
        return Figures(
            queues=_queues(self._delivery.queue_stats.queues),
            scheduled=dict(self.engine.scheduled),
            pending=self._pending,
            due=self._due(machines, int(now_ms)),
            backlogs=self._backlogs(),
            changed=dict(self._api.changed),
            quota_taken=dict(self._api.quotas.taken),
            quota_refused=dict(self._api.quotas.refused),
            quota_used=self._api.quotas.in_use(),
            calls=dict(calls.ended),
            call_times={name: curve_of(each) for name, each in calls.seconds.items()},
            answered_calls={state: curve_of(each) for state, each in self._api.calling.seconds.items()},
            in_flight=self._delivery.in_flight,
            instances=len(member.live()),
            hints_dropped=self._peers.dropped_hints if self._peers is not None else 0,
            hint_messages=dict(self._peers.hint_messages()) if self._peers is not None else {},
            workers=self._delivery.workers,
            streams=self._api.sessions + self._delivery.workers,
            partitions=Counter(m.phase.name.lower() for m in machines),
            partition_events=dict(held.events.counts),
            rescued_rows=held.events.rescued_rows,
            foreign_rows=held.foreign_rows(),
            unforeseen=dict(unforeseen),
            lease_events=dict(member.events),
            lease_age_s=member.lease_age_ms() / 1000,
            lease_sure=self._time.is_sure,
            loaded=sum(m.waiting_rows for m in machines),
            oldest_due_s=max(0.0, now_ms - min(oldest, default=now_ms)) / 1000,
            mark_lag_s=_mark_lag_s(machines, now_ms),
            memory_used_bytes=memory.used_bytes,
            memory_budget_bytes=memory.budget_bytes,
            ingest_used_bytes=ingest.used_bytes,
            ingest_budget_bytes=ingest.limit_bytes,
            clock_trusted=self._time.trusted,
            clock_offset_s=self._time.difference_ms / 1000,
            store_times={name: curve_of(each) for name, each in self.store_times.calls.items()},
            store_failed=dict(self.store_times.failed),
            store_changes=dict(self.store_times.changes),
            loop_lag=curve_of(self.loop_lag.seen),
            loop_busy=self.loop_lag.busy,
            facts=self._facts,
            health=health_of(self._probe),
            schedules=_schedules(self._ticks, self._zones),
            webhooks=_targets(self._posting),
            stream_targets=_targets(self._appending),
            breakers=self._breakers(int(now_ms)),
            adaptive=adaptive_of(self._regulating.still.adaptive) if self._regulating is not None else {},
            pools=pools_of(self._delivery.machine.capacity.pools),
            keys=keys_of(memory.order_keys, self._known()),
            key_use=(key_use := self._key_use(int(now_ms))),
            limits=self._limits(key_use, lambda queues: sum(self._due_of(machines, queues, int(now_ms)).values())),
        )

    def _breakers(self, now_ms: int) -> Mapping[QueueKey, BreakerFigures]:
        return breakers_of(self._regulating.still.breakers, now_ms) if self._regulating is not None else {}

    def _limits(
        self, keys: Mapping[LimitLabels, KeyUse], due: Callable[[Collection[QueueKey]], int]
    ) -> Mapping[LimitLabels, LimitFigures]:
        ruled = self._regulating
        return limits_of(ruled.limits, ruled.still.holds.pushed_back, due, keys) if ruled is not None else {}

    def _key_use(self, now_ms: int) -> Mapping[LimitLabels, KeyUse]:
        keys = self._regulating.key_limits if self._regulating is not None else None
        return keys.use.at(now_ms) if keys is not None else {}

    def _due(self, machines: Sequence[PartitionMachine], now_ms: int) -> Mapping[QueueKey, int]:
        """Of the queues that are told apart anyway, so that many queues do not hold up the loop."""
        return self._due_of(machines, [queue for queue in self._known() if not queue.is_internal], now_ms)

    def _backlogs(self) -> Mapping[QueueKey, int]:
        """The store knows scopes. Of a queue that was not used since the start nobody knows the name: these are counted
        together, so that none is missing."""
        if self._facts is None:
            return {}
        left = dict(self._facts.backlogs)
        named = {queue: left.pop(scope_of(*queue), 0) for queue in self._known()}
        return {queue: buckets for queue, buckets in named.items() if not queue.is_internal} | {
            OTHERS: sum(left.values())
        }

    def _known(self) -> set[QueueKey]:
        return {*self._delivery.queue_stats.queues, *self.engine.scheduled} - {OTHERS}

    def _due_of(
        self, machines: Sequence[PartitionMachine], queues: Iterable[QueueKey], now_ms: int
    ) -> Mapping[QueueKey, int]:
        return {queue: sum(each.all_due(queue, now_ms) for each in machines) for queue in queues}

    async def _refresh(self) -> None:
        """What the store knows; where it does not answer, what it said last."""
        async with self._reading:
            if monotonic() - self._read_s < FACTS_EVERY_S:
                return
            self._read_s = monotonic()
            try:
                async with asyncio.timeout(FACTS_TIMEOUT_S):
                    self._facts = await self.engine.facts()
                    known = [q for q in self._delivery.queue_stats.queues if q.namespace and not q.is_internal]
                    self._pending = {queue: await self.engine.estimate(*queue) for queue in known}
            except (StoreUnavailable, StoreUnknown, TimeoutError):
                # The counters of the store's calls say so.
                self._read_s = monotonic() - FACTS_EVERY_S / 2
            except Exception:  # noqa: BLE001 - it is logged and counted
                # A spoilt row must not take all other metrics along: it is an error of the store like others.
                self._facts = None
                self.store_times.failed[FACTS, ERROR] += 1
                _log.exception("what the store holds cannot be counted: the metrics are without it")


def _mark_lag_s(machines: Iterable[PartitionMachine], now_ms: float) -> float:
    marks = [_mark_ms(each) for each in machines if each.partition.bucket_ms <= now_ms]
    return max(0.0, now_ms - min(marks, default=now_ms)) / 1000


def _mark_ms(machine: PartitionMachine) -> int:
    """One that cannot even be taken is as far behind as it is old."""
    return machine.control.verified_ms if machine.control is not None else machine.partition.bucket_ms


def _queue(stats: QueueStats) -> QueueFigures:
    curves = (curve_of(stats.lateness), curve_of(stats.processing), curve_of(stats.attempts))
    return QueueFigures(*curves, dict(stats.outcomes), stats.dead)


def _schedules(ticks: TickWorker | None, zones: ZoneSweep | None) -> ScheduleFigures:
    if ticks is None:
        return ScheduleFigures({}, {}, 0)
    stats = ticks.stats
    swept = zones.figures if zones is not None else None
    return ScheduleFigures(dict(stats.ticks), dict(stats.instants), stats.broken, swept)
