"""Wires a server: the only module that names concrete adapters.

config -> store, clock, alarm -> scheduler (partition machines) -> firing -> delivery -> API -> gRPC server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from timerd.adapters.alarm import make_alarm
from timerd.adapters.clocks import SystemClock
from timerd.adapters.process import allow_open_files, give_back_large_buffers, give_back_spare, tune_interpreter
from timerd.adapters.signals import hear_signals
from timerd.adapters.sqlite.store import SqliteStore
from timerd.adapters.zones import zone
from timerd.config import CassandraConfig, ServerConfig
from timerd.core.cluster import Timing
from timerd.core.deliveries import Deliveries
from timerd.core.delivery_machine import DeliveryMachine
from timerd.core.gates import Gate
from timerd.core.instance_machine import InstanceMachine
from timerd.core.ledger import Ledger
from timerd.core.limits import Limit
from timerd.core.partition import Memory, Settings
from timerd.core.redelivery_gate import RETURN_MS
from timerd.core.redelivery_guard import RedeliveryGuard
from timerd.model.errors import StartupError
from timerd.ports import Clock, Hints, Store, StoreTraits
from timerd.services.api import TimerApi
from timerd.services.background import begin, noted_by_loop
from timerd.services.calls.patience import LIMIT_S, Patience
from timerd.services.calls.reads import DeliveryFacts
from timerd.services.checkup import Checkup, checkup_of
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.ports import Alarm
from timerd.services.engine.engine import Engine
from timerd.services.engine.firing import Firing
from timerd.services.health.clock_watch import ClockWatch
from timerd.services.holding.alone import Alone
from timerd.services.holding.cluster_settings import CLUSTER, cluster_settings
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.membership import Member, Membership
from timerd.services.holding.scheduler import Scheduler
from timerd.services.holding.shards import Shards
from timerd.services.holding.throttle import Throttle
from timerd.services.housekeeping import every
from timerd.services.operating.foreseeing import Foreseeing
from timerd.services.operating.inspect_service import Colleagues, InspectService
from timerd.services.operating.operating import Operating
from timerd.services.operating.reporting import Reporting
from timerd.services.peers.peer_wire import peer_token
from timerd.services.peers.peering import Calling, Peering, peering
from timerd.services.peers.peers import Connect
from timerd.services.schedules.backfill_calls import BackfillCalls
from timerd.services.schedules.batch_calls import BatchCalls
from timerd.services.schedules.end_hints import EndHints
from timerd.services.schedules.prune_calls import PruneCalls
from timerd.services.schedules.schedule_calls import ScheduleCalls
from timerd.services.schedules.schedule_tally import ScheduleTally
from timerd.services.schedules.schedules import Schedules
from timerd.services.schedules.ticking import TickWorker
from timerd.services.server import ApiServer
from timerd.services.stopping import bounded
from timerd.services.transport.hanging_up import HangingUp
from timerd.services.work.lending import Lending
from timerd.services.work.moving_away import stop_wait_ms
from timerd.services.work.peer_links import PeerLinks
from timerd.services.work.relaying import Relaying, relaying
from timerd.services.work.work_service import WorkService
from timerd.v1.schedule_service_pb2 import DESCRIPTOR as SCHEDULE_PROTO

if TYPE_CHECKING:
    from timerd.adapters.sqlite.backup import Checked
    from timerd.observability.watch import Watch

log = logging.getLogger(__name__)
DROP_EVERY_S = 60.0
FLUSH_EVERY_S = 10.0
# Of each bucket of a shared store, where nothing is recorded yet: so that a few instances share a minute that nobody
# announced.
DEFAULT_SHARDS = 4
# Where a commit is not cheap: each is a row, which whoever takes the partition over has to read.
SELDOM_SETTLE_MS = 20
# What else is asked whether a row may be sent, and how many may: a new gate or limit is listed here.
GATES: Sequence[Callable[[], Gate]] = ()
LIMITS: Sequence[Callable[[], Limit]] = ()
# For calls that are being answered.
STOP_GRACE_MS = 500
SCHEDULE_SERVICE = SCHEDULE_PROTO.services_by_name["ScheduleService"]
# Makes what listens: from the services for everybody, and those for the other instances.
Serving = Callable[[ServerConfig, TimerApi, WorkService, Sequence[grpc.GenericRpcHandler]], ApiServer]


@dataclass(slots=True)
class Node:
    """One running instance: everything below the CLI."""

    config: ServerConfig
    store: Store
    time: EngineTime
    scheduler: Scheduler
    engine: Engine
    delivery: Delivery
    server: ApiServer
    hanging_up: HangingUp
    # To the other instances; None: there are none.
    peering: Peering | None = None
    relaying: Relaying | None = None
    clocks: ClockWatch | None = None
    # None: where it is run without a server.
    checkup: Checkup | None = None
    # Of recurring schedules.
    ticks: TickWorker | None = None
    address: str = ""
    _loops: tuple[asyncio.Task[None], ...] = ()

    async def start(self) -> str:
        """Listening and serving; returns HOST:PORT. Raises StartupError."""
        await self.listen()
        work = [
            self.membership.run(),
            self.scheduler.run(),
            every(DROP_EVERY_S, self._drop_expired),
            every(FLUSH_EVERY_S, self.engine.flush_estimates),
        ]
        if self.clocks is not None:
            work.append(self.clocks.run())
        self._loops = tuple(begin(each, "loops") for each in work)
        if self.checkup is not None:
            self.checkup.watch(self._loops)
        return self.address

    async def listen(self) -> str:
        """As `start`, without the loops: whoever turns the clock by hand calls `step`."""
        self.address = str(await self.server.start())
        try:
            if self.clocks is not None:
                await self.clocks.before_joining()
            await self.membership.join(self.config.advertise or self.address)
        except BaseException:
            await self.server.kill()
            raise
        await self.server.set_serving(serving=True)
        if self.checkup is not None:
            self.checkup.join()
        if self.ticks is not None:
            self.ticks.join()
        return self.address

    @property
    def membership(self) -> Membership:
        return self.scheduler.membership

    async def step(self) -> None:
        """What the loops do, once and to its end."""
        await self.membership.step()
        if self.clocks is not None:
            await self.clocks.step()
        await self.scheduler.step(int(self.time.exact_ms()))
        if self.checkup is not None:
            self.checkup.look()

    async def keep_house(self) -> None:
        await self._drop_expired()
        await self.engine.flush_estimates()

    async def stop(self, drain_ms: int) -> None:
        """Takes nothing new, lets workers finish, carries what they still have, settles, closes. Where others take
        over they do so first, for what is due meanwhile is not to wait for the workers of this instance. Nor are its
        callers: they stay connected until it hangs up, and what they ask others may fire at once."""
        await self.server.set_serving(serving=False)
        if self.checkup is not None:
            self.checkup.stop()
        if not self.membership.present():
            self.engine.drain()
        self.scheduler.hand_over.keep()
        await self.membership.leaving()
        if self.membership.incarnation:
            await self.scheduler.leave(int(self.time.exact_ms()))
        await self.delivery.drain(stop_wait_ms(drain_ms, set(self.membership.live()) - {self.membership.name}))
        self.engine.drain()
        for step in self._last_steps():
            await bounded(step)

    def _last_steps(self) -> Iterator[Coroutine[Any, Any, object]]:
        if self.relaying is not None:
            yield self.relaying.sync()
        yield self.hanging_up.hang_up()
        if self.relaying is not None:
            yield self.relaying.links.close()
        yield self.server.stop(STOP_GRACE_MS)
        for loop in self._loops:
            loop.cancel()
        yield self.scheduler.leave(int(self.time.exact_ms()))
        yield self.membership.left()
        yield self.engine.flush_estimates()
        yield self.engine.shards.close()
        self.delivery.close()
        if self.peering is not None:
            yield self.peering.peers.close()
        yield self.store.close()

    async def _drop_expired(self) -> None:
        await self.scheduler.drop_expired(int(self.time.exact_ms()))


def _settings(config: ServerConfig, name: str, traits: StoreTraits) -> Settings:
    settings = Settings(name, config.listen, max_mark_lag_ms=config.max_mark_lag_ms, traits=traits)
    return settings if traits.commit_is_cheap else replace(settings, settle_every_ms=SELDOM_SETTLE_MS)


def _scheduler(
    config: ServerConfig,
    store: Store,
    time: EngineTime,
    membership: Membership,
    machine: DeliveryMachine,
    calling: Calling | None,
) -> Scheduler:
    """Holds the partitions of this instance. Without `calling` there is no other one."""
    return Scheduler(
        store,
        time,
        _settings(config, membership.name, store.traits),
        InstanceMachine(config.look_ahead_ms),
        Memory(config.memory_budget_bytes),
        config.history_retention_ms,
        membership,
        Deliveries(machine, RedeliveryGuard()),
        Throttle(config.catch_up_rows_per_s),
        calling.view if calling is not None else None,
    )


async def assemble(
    config: ServerConfig,
    store: Store,
    clock: Clock,
    make: Callable[[Callable[[], float]], Alarm],
    name: str,
    timing: Timing | None = None,
    serve: Serving = ApiServer,
    hints: Hints | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    connect: Connect | None = None,
) -> Node:
    """With `timing` it is one of several on the same store, and `hints` is a way to those that it cannot call. `sleep`
    is how time passes before it has joined, `connect` how it reaches the others."""
    traits = store.traits
    patience = Patience(LIMIT_S) if traits.is_shared else Patience()
    store = patience.watch(store)
    secret, shard_count = await cluster_settings(store, config.shards, DEFAULT_SHARDS if traits.is_shared else 1)
    member = Member(name, store, clock, timing, sleep=sleep) if timing is not None else None
    membership = member or Alone(name)
    time = EngineTime(clock, membership.trust, config.clock_stable_ms)
    machine = DeliveryMachine(secret, config.resume_grace_ms)
    calling = Calling(store, member, secret, time, config, hints, connect) if member is not None else None
    scheduler = _scheduler(config, store, time, membership, machine, calling)
    grows = traits.is_shared or shard_count > 1
    now_ms, instances = lambda: int(time.exact_ms()), lambda: len(membership.live())
    shards = Shards(store, shard_count, grows=grows, now_ms=now_ms, instances=instances)
    engine = Engine(store, scheduler, time, secret, config, shards)
    gates, limits = [gate() for gate in GATES], [limit() for limit in LIMITS]
    peer_links = PeerLinks(store, secret) if calling is not None else None
    firing = Firing(scheduler, time, store, secret, max(RETURN_MS, config.resume_grace_ms), peer_links, gates)
    lending = Lending(machine, firing, peer_links.links) if peer_links is not None else None
    delivery = Delivery(firing, make(time.exact_ms), machine, abroad=lending, server=name, limits=limits)
    peers = peering(calling, scheduler, time) if calling is not None else None

    def delivered() -> DeliveryFacts:
        return DeliveryFacts(delivery.in_flight, delivery.workers)

    reporting = Reporting(store, scheduler, time, delivered)
    colleagues = Colleagues(peers.peers) if peers is not None else None
    operating = Operating(store, scheduler, time, clock, reporting, colleagues, shards, config.max_mark_lag_ms)
    api = TimerApi(engine, config, delivered, operating, patience)
    ticks, calls = _scheduling(store, engine, scheduler, delivery, api, now_ms, config.history_retention_ms)
    hanging_up, scaler = HangingUp(), Foreseeing(store, now_ms).handler()
    if peers is None or member is None or peer_links is None or lending is None:
        server = serve(config, api, WorkService(delivery, hanging_up), [calls, scaler])
        alone = None, None, None, checkup_of(config, server, engine, scheduler, delivery, time), ticks
        return Node(config, store, time, scheduler, engine, delivery, server, hanging_up, *alone)
    token = peer_token(secret)
    relays = relaying(delivery, lending, peer_links, firing, membership, peers.peers, token, hanging_up)
    scheduler.effector.on_gone(relays.gone)
    inspected = InspectService(token, scheduler, reporting)
    inside = [calls, scaler, peers.service.handler(), relays.service.handler(), inspected.handler()]
    server = serve(config, api, WorkService(relays.home, hanging_up), inside)
    clocks = ClockWatch(time, clock, member, peers.peers.read_clock, server.board)
    several = peers, relays, clocks, checkup_of(config, server, engine, scheduler, delivery, time), ticks
    return Node(config, store, time, scheduler, engine, delivery, server, hanging_up, *several)


def _scheduling(
    store: Store,
    engine: Engine,
    scheduler: Scheduler,
    delivery: Delivery,
    api: TimerApi,
    now_ms: Callable[[], int],
    retention_ms: int,
) -> tuple[TickWorker, grpc.GenericRpcHandler]:
    """Who works the ticks of schedules, and who answers calls of them."""
    hints, tally = EndHints(scheduler.procedures), ScheduleTally(monotonic)
    schedules = Schedules(store, engine, scheduler.procedures, zone, now_ms, retention_ms, hints.watch, tally.recorded)
    delivery.on_durable(partial(hints.settled, world=schedules.world))
    of_many = BatchCalls(schedules, engine), PruneCalls(schedules, engine)
    each = (ScheduleCalls(schedules, engine), *of_many, BackfillCalls(schedules.backfills, engine))
    verbs = {name: verb for calls in each for name, verb in calls.verbs().items()}
    handler = api.handler_of(SCHEDULE_SERVICE, verbs)
    return TickWorker(delivery, schedules.world, scheduler.procedures, tally), handler


def _place_of(config: ServerConfig, traits: StoreTraits) -> tuple[str, Timing | None]:
    """The name of this instance, and how often it says that it lives where it is one of several."""
    if not traits.is_shared:
        return config.name or f"timerd-{os.getpid()}", None
    return config.name or f"{socket.gethostname()}-{os.getpid()}", Timing(config.heartbeat_ms, config.lease_ttl_ms)


async def _open_sqlite(config: ServerConfig, now_ms: Callable[[], int]) -> Store:
    return SqliteStore(config.data, now_ms, config.synchronous, give_back_spare)


async def _open_cassandra(config: ServerConfig, now_ms: Callable[[], int]) -> Store:
    with _needs_driver():
        from timerd.adapters.cassandra.store import open_store
    return await open_store(config.cassandra, now_ms)


class StoreKind(NamedTuple):
    """What `store` of the configuration names. `open` raises StartupError where the store is not there, or not as it
    should be. From `large_bytes` on a buffer goes back to the machine when it is freed."""

    open: Callable[[ServerConfig, Callable[[], int]], Awaitable[Store]]
    large_bytes: int


# SQLite's writer knows moments of rest in which smaller buffers go back. Fresh pages for those of each commit were a
# seventh of its time.
STORES = {"sqlite": StoreKind(_open_sqlite, 16 << 20), "cassandra": StoreKind(_open_cassandra, 128 << 10)}


async def open_hints(config: ServerConfig) -> Hints | None:
    """Raises StartupError where Redis is there and does not let this instance in."""
    if not config.redis.url.get_secret_value():
        return None
    try:
        from timerd.adapters.redis.hints import open_hints as open_redis
    except ModuleNotFoundError as error:
        raise StartupError("Redis's client is not installed: `pip install timerd[redis]`.") from error
    return await open_redis(config.redis)


def apply_schema(config: CassandraConfig) -> int:
    """The tables of timerd in Cassandra, made or brought to this version, which is returned. Raises StartupError."""
    with _needs_driver():
        from timerd.adapters.cassandra import schema
        from timerd.adapters.cassandra.settings import settings_of
    return schema.apply_schema(settings_of(config))


@contextlib.contextmanager
def _needs_driver() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise StartupError(
            "Cassandra's driver is not installed: `pip install timerd[cassandra]`, or timerd[scylla] for ScyllaDB."
        ) from error


async def serve(config: ServerConfig, ready: Callable[[str, str], None]) -> None:
    """Runs until a signal asks it to stop, then drains. `ready` hears where it listens, and where for HTTP. Raises
    StartupError with a sentence."""
    kind = STORES[config.store]
    give_back_large_buffers(kind.large_bytes)
    allow_open_files()
    clock = SystemClock()
    hints = await open_hints(config)
    store = await kind.open(config, lambda: int(clock.wall_ms()))
    watching = None
    try:
        node, watching = await _assemble_watched(config, store, clock, hints)
        # First, so that a start that takes long can be seen to go on.
        http_address = await watching.start(config) if watching is not None else ""
        address = await node.start()
    except BaseException:
        if watching is not None:
            await watching.stop()
        if hints is not None:
            await hints.close()
        await store.close()
        raise
    tune_interpreter()
    stopped = asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(noted_by_loop)
    hear_signals(stopped.set, node.server.refresh)
    node.membership.on_oust(stopped.set)
    ready(address, http_address)
    await stopped.wait()
    with contextlib.suppress(asyncio.CancelledError):
        await node.stop(config.drain_ms)
    if watching is not None:
        await watching.stop()


async def _assemble_watched(
    config: ServerConfig, store: Store, clock: Clock, hints: Hints | None
) -> tuple[Node, Watch | None]:
    """Nobody pays for a watch that nobody asked for."""
    name, timing = _place_of(config, store.traits)
    if not config.http.listen:
        return await assemble(config, store, clock, make_alarm, name, timing, hints=hints), None
    from timerd.observability.figures import Observed
    from timerd.observability.store_timing import StoreTimes
    from timerd.observability.watch import Watch

    times = StoreTimes()
    node = await assemble(config, times.watch(store), clock, make_alarm, name, timing, hints=hints)
    peers = node.peering.peers if node.peering is not None else None
    assert node.checkup is not None
    api, checkup = node.server.api, node.checkup
    observed = Observed(node.engine, node.scheduler, node.delivery, api, node.time, times, checkup, peers, node.ticks)
    return node, Watch(observed, checkup, lambda: store.read([CLUSTER]))


class Kept(NamedTuple):
    """What a copy of the data holds."""

    size_bytes: int
    schema_version: int
    rows: int
    dead_letters: int
    # Rows of finished buckets without a known end, by the ledger.
    unexplained: int


def back_up_sqlite(directory: Path, target: Path, progress: Callable[[int, int], None]) -> Kept:
    """While a server serves or none does. Raises StartupError."""
    from timerd.adapters.sqlite.backup import back_up

    return _kept(back_up(directory, target, progress))


def restore_sqlite(backup: Path, directory: Path) -> Kept:
    """Into a directory without data. Raises StartupError."""
    from timerd.adapters.sqlite.backup import restore

    return _kept(restore(backup, directory))


def _kept(checked: Checked) -> Kept:
    ledger = Ledger()
    ledger.add_finished([each for each in checked.controls if each.finished])
    return Kept(checked.size_bytes, checked.schema_version, checked.rows, checked.dead_letters, ledger.unexplained)
