"""Wires a server: the only module that names concrete adapters.

config -> store, clock, alarm -> scheduler (partition machines) -> firing -> delivery -> API -> gRPC server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import grpc

from timerd.adapters.alarm import make_alarm
from timerd.adapters.clocks import SystemClock
from timerd.adapters.process import allow_open_files, give_back_large_buffers, give_back_spare, tune_interpreter
from timerd.adapters.signals import hear_signals
from timerd.adapters.sqlite.store import SqliteStore
from timerd.adapters.zones import TzdataPackage
from timerd.config import CassandraConfig, JwtConfig, ServerConfig
from timerd.core.cluster import Timing
from timerd.core.dispatch import RETURN_MS, Deliveries, DeliveryMachine, Limit, RedeliveryGuard
from timerd.core.gates import Gate
from timerd.core.instance_machine import InstanceMachine
from timerd.core.partition import HoldingSettings, Memory
from timerd.core.schedules.zones import OwnZones
from timerd.core.taken import QueueKey
from timerd.core.webhooks.addresses import AddressRules
from timerd.model.backup_contents import BackupContents
from timerd.model.errors import StartupError
from timerd.ports import Clock, Hints, Store, StoreTraits, TokenReader, ZoneData
from timerd.services.api import TimerApi
from timerd.services.background import noted_by_loop
from timerd.services.calls.call_deadline import LIMIT_S, CallDeadline
from timerd.services.calls.quotas import Quotas
from timerd.services.calls.reads import DeliveryFacts
from timerd.services.calls.task_ends import TaskEnds
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.ports import Alarm
from timerd.services.engine.engine import Engine
from timerd.services.engine.firing import SchedulerFiring
from timerd.services.health.clock_watch import ClockWatch
from timerd.services.holding.cluster_settings import CLUSTER, cluster_settings
from timerd.services.holding.engine_time import EngineTime, StoreTime
from timerd.services.holding.membership import Member, Membership
from timerd.services.holding.scheduler import Scheduler
from timerd.services.holding.shards import Shards
from timerd.services.holding.single_instance import SingleInstance
from timerd.services.holding.throttle import Throttle
from timerd.services.node import Node
from timerd.services.operating.activity import Activity
from timerd.services.operating.audited_calls import AuditedCalls
from timerd.services.operating.colleagues import Colleagues
from timerd.services.operating.foreseeing import Foreseeing
from timerd.services.operating.inspect_service import InspectService
from timerd.services.operating.operating import Operating
from timerd.services.operating.overview import Overview
from timerd.services.operating.reporting import Reporting
from timerd.services.operating.watching import Watching
from timerd.services.peers.peer_wire import peer_token
from timerd.services.peers.peering import Calling, Peering, peering
from timerd.services.peers.peers import Connect
from timerd.services.peers.shared_ends import SharedEnds
from timerd.services.readiness import readiness_probe_of
from timerd.services.regulation.in_force import RulesInForce, due_soon
from timerd.services.regulation.keys_elsewhere import KeysElsewhere
from timerd.services.regulation.limit_calls import regulation_verbs
from timerd.services.regulation.regulating import Regulating
from timerd.services.regulation.rule_peer_service import RegulationPeerService
from timerd.services.schedules.cycle_calls import CycleCalls
from timerd.services.schedules.passing import OtherInstances, TickService
from timerd.services.schedules.recurring import Recurring
from timerd.services.schedules.slot_work import SlotWorker
from timerd.services.schedules.ticking import TickWorker
from timerd.services.schedules.zone_sweep import ZoneSweep
from timerd.services.server import ApiServer
from timerd.services.streams.streams import Streams
from timerd.services.streams.targets_file import read_password, read_streams
from timerd.services.transport.audit_records import AuditRecords
from timerd.services.transport.hanging_up import HangingUp
from timerd.services.transport.key_file import KeyFile
from timerd.services.webhooks.targets_file import read_targets
from timerd.services.webhooks.webhooks import Webhooks
from timerd.services.work.connected import ConnectedWorkers
from timerd.services.work.credit_allocation import CreditAllocation
from timerd.services.work.peer_links import PeerLinks
from timerd.services.work.relaying import relaying
from timerd.services.work.work_service import WorkService

if TYPE_CHECKING:
    from timerd.observability.watch import Watch

log = logging.getLogger(__name__)
# Of each bucket of a shared store, where nothing is recorded yet: so that a few instances share a minute that nobody
# announced.
DEFAULT_SHARDS = 4
# Where a commit is not cheap: each is a row, which the next holder of the partition has to read.
SELDOM_SETTLE_MS = 20
_DRIVER = "Cassandra's driver is not installed: `pip install timerd[cassandra]`, or timerd[scylla] for ScyllaDB."
_REDIS = "Redis's client is not installed: `pip install timerd[redis]`."
# What else is asked whether a row may be sent, and how many may: a new gate or limit is listed here.
GATES: Sequence[Callable[[], Gate]] = ()
LIMITS: Sequence[Callable[[], Limit]] = ()
# Makes what listens: from the services for everybody, and those for the other instances.
Serving = Callable[[ServerConfig, TimerApi, WorkService, Sequence[grpc.GenericRpcHandler]], ApiServer]


class Foundation(NamedTuple):
    """What keeps tasks and fires them, before anybody is served. Without `calling` there is no other instance."""

    config: ServerConfig
    store: Store
    call_deadline: CallDeadline
    secret: bytes
    shard_count: int
    known_zones: bytes | None
    member: Member | None
    membership: Membership
    time: EngineTime
    machine: DeliveryMachine
    calling: Calling | None
    scheduler: Scheduler
    shards: Shards
    engine: Engine

    def now_ms(self) -> int:
        return int(self.time.exact_ms())


async def _foundation(
    config: ServerConfig,
    store: Store,
    clock: Clock,
    name: str,
    timing: Timing | None,
    hints: Hints | None,
    sleep: Callable[[float], Awaitable[None]],
    connect: Connect | None,
) -> Foundation:
    traits = store.traits
    call_deadline = CallDeadline(LIMIT_S) if traits.is_shared else CallDeadline()
    store = call_deadline.watch(store)
    default = DEFAULT_SHARDS if traits.is_shared else 1
    secret, shard_count, known_zones = await cluster_settings(store, config.shards, default)
    member = Member(name, store, clock, timing, sleep=sleep) if timing is not None else None
    membership = member or SingleInstance(name)
    time = EngineTime(clock, membership.trust, config.clock_stable_ms)
    machine = DeliveryMachine(secret, config.resume_grace_ms)
    calling = Calling(store, member, secret, time, config, hints, connect) if member is not None else None
    scheduler = _scheduler(config, store, time, membership, machine, calling, secret)
    grows = traits.is_shared or shard_count > 1
    now_ms, instances = lambda: int(time.exact_ms()), lambda: len(membership.live())
    shards = Shards(store, shard_count, grows=grows, now_ms=now_ms, instances=instances)
    engine = Engine(store, scheduler, time, secret, config, shards)
    scheduler.effect_runner.on_made(engine.counted)
    found = secret, shard_count, known_zones, member, membership, time, machine, calling, scheduler, shards, engine
    return Foundation(config, store, call_deadline, *found)


def _scheduler(
    config: ServerConfig,
    store: Store,
    time: EngineTime,
    membership: Membership,
    machine: DeliveryMachine,
    calling: Calling | None,
    secret: bytes,
) -> Scheduler:
    """Holds the partitions of this instance."""
    settings = HoldingSettings(
        membership.name, config.listen, max_mark_lag_ms=config.max_mark_lag_ms, traits=store.traits
    )
    if not store.traits.commit_is_cheap:
        settings = replace(settings, settle_every_ms=SELDOM_SETTLE_MS)
    return Scheduler(
        store,
        time,
        settings,
        InstanceMachine(config.look_ahead_ms),
        Memory(config.memory_budget_bytes),
        config.history_retention_ms,
        membership,
        Deliveries(machine, RedeliveryGuard(), _return_ms(config)),
        Throttle(config.catch_up_rows_per_s),
        calling.view if calling is not None else None,
        secret,
    )


def _return_ms(config: ServerConfig) -> int:
    """How long a worker that has what was taken over has time to be heard of."""
    return max(RETURN_MS, config.resume_grace_ms)


class Answering(NamedTuple):
    """Who answers callers and operators, and works the ticks of what comes again."""

    api: TimerApi
    handlers: Sequence[grpc.GenericRpcHandler]
    ticks: TickWorker
    slots: SlotWorker
    sweep: ZoneSweep
    connected: ConnectedWorkers
    activity: Activity
    inspected: InspectService


def _answering(
    base: Foundation,
    clock: Clock,
    delivery: Delivery,
    peers: Peering | None,
    zones: ZoneData | None,
    regulating: Regulating,
    ends: TaskEnds,
) -> Answering:
    """`peers`: where there are other instances."""
    config, store, scheduler, engine, membership = base.config, base.store, base.scheduler, base.engine, base.membership
    own_zones = OwnZones(zones or TzdataPackage(), base.known_zones)
    again = store, engine, scheduler.procedures, base.now_ms, config.history_retention_ms, own_zones
    recurring = Recurring(*again, is_single=base.member is None, holds=config.hold_tzdata)
    ticks = recurring.ticks(delivery, OtherInstances(peers.peers, membership) if peers is not None else None)

    def delivered() -> DeliveryFacts:
        return DeliveryFacts(delivery.in_flight, delivery.workers, scheduler.memory.worked)

    colleagues = Colleagues(peers.peers) if peers is not None else None
    reporting = Reporting(store, scheduler, base.time, delivered, recurring.sweep)
    last = colleagues, base.shards, config.max_mark_lag_ms, recurring.sweep
    operating = Operating(store, scheduler, base.time, clock, reporting, *last)
    delivery.on_settled(engine.use.settled)
    engine.goes_by(regulating.known.mode, regulating.known.on_failure)
    watching = Watching(delivery.tail, membership, colleagues)
    kept = Quotas(config.quotas_file, engine.use), AuditRecords(store, base.now_ms), watching, engine.singles
    keys, place_of = engine.ordering, scheduler.hand_over.place_of
    elsewhere = KeysElsewhere(peers.peers, membership, keys, place_of) if peers is not None else None
    api = TimerApi(engine, config, delivered, operating, base.call_deadline, regulating, *kept, elsewhere, ends)
    delivery.on_durable(api.ends.settled)
    connected = ConnectedWorkers(base.now_ms)
    activity = Activity(engine, scheduler, delivery, connected, base.now_ms, lambda: ticks.stats.broken)
    inspected = InspectService(peer_token(base.secret), scheduler, reporting, activity, watching)
    overview = Overview(activity, engine, store, membership, colleagues, base.now_ms)
    cycles = CycleCalls(recurring, engine, base.shard_count, regulating)
    ruled = regulation_verbs(regulating, scheduler.procedures, engine, base.now_ms, keys, elsewhere)
    handlers = (
        api.handler_of("ScheduleService", recurring.verbs(engine)),
        api.handler_of("CycleService", cycles.verbs()),
        api.handler_of("OverviewService", {**overview.verbs(), **AuditedCalls(kept[1]).verbs()}),
        api.handler_of("RegulationService", ruled),
        Foreseeing(store, base.now_ms).handler(),
    )
    return Answering(api, handlers, ticks, recurring.slots(delivery), recurring.sweep, connected, activity, inspected)


def _api_server(
    config: ServerConfig, api: TimerApi, work: WorkService, handlers: Sequence[grpc.GenericRpcHandler]
) -> ApiServer:
    return ApiServer(config, api, work, handlers, _token_reader(config.auth.jwt))


def _token_reader(config: JwtConfig) -> TokenReader | None:
    """Raises StartupError."""
    if not config.keys:
        return None
    try:
        from timerd.adapters.json_web_tokens import FetchedKeys, JwtReader
    except ModuleNotFoundError as error:
        raise StartupError("Signed tokens need PyJWT: `pip install timerd[jwt]`.") from error
    is_address = config.keys.startswith("https://")
    return JwtReader(config, FetchedKeys(config.keys) if is_address else KeyFile(Path(config.keys)))


async def assemble(
    config: ServerConfig,
    store: Store,
    clock: Clock,
    make: Callable[[Callable[[], float]], Alarm],
    name: str,
    timing: Timing | None = None,
    serve: Serving = _api_server,
    hints: Hints | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    connect: Connect | None = None,
    zones: ZoneData | None = None,
) -> Node:
    """With `timing` it is one of several on the same store, and `hints` is a way to those that it cannot call. `sleep`
    is how time passes before it has joined, `connect` how it reaches the others, `zones` other data of time zones."""
    base = await _foundation(config, store, clock, name, timing, hints, sleep, connect)
    store, time, scheduler, member = base.store, base.time, base.scheduler, base.member
    peer_links = PeerLinks(store, base.secret) if base.calling is not None else None
    grace_ms, gates, ends = _return_ms(config), [gate() for gate in GATES], TaskEnds()
    firing = SchedulerFiring(scheduler, time, store, base.secret, grace_ms, peer_links, gates, ends.awaited)
    opened, is_single = partial(_opened, scheduler, lambda: delivery), peer_links is None
    lease_ms, due = lambda: delivery.longest_lease_ms, partial(due_soon, scheduler, base.now_ms)
    rules = RulesInForce(base.machine, opened, lease_ms, due, clock.boot_ms, name, is_single=is_single)
    links = peer_links.links if peer_links is not None else None
    allocation = CreditAllocation(base.machine, firing, links, rules.still.opens_ms) if links is not None else None
    limits, hold = [*rules.limits, *(limit() for limit in LIMITS)], rules.hold
    alarm, machine, told = make(time.exact_ms), base.machine, base.membership.announced
    delivery: Delivery = Delivery(
        firing, alarm, machine, remote=allocation, server=name, limits=limits, hold=hold, announced=told
    )
    peers = peering(base.calling, scheduler, time) if base.calling is not None else None
    regulating = rules.regulating(scheduler, peers.peers if peers is not None else None, base.now_ms)
    to = _answering(base, clock, delivery, peers, zones, regulating, ends)
    webhooks, streams = _webhooks(config, delivery, clock, to.api), _streams(config, delivery)
    to.api.targets.watch([sink for each in (webhooks, streams) if each is not None for sink in each.sinks])
    last = to.sweep, webhooks, regulating, to.api.audited
    hangup = HangingUp()
    parts = config, store, time, scheduler, base.engine, delivery
    if peers is None or member is None or peer_links is None or allocation is None:
        work = WorkService(delivery, to.api.results, hangup, to.connected)
        server = serve(config, to.api, work, to.handlers)
        probe = readiness_probe_of(config, server, base.engine, scheduler, delivery, time, to.activity)
        return Node(*parts, server, hangup, None, None, None, probe, to.ticks, to.slots, work, *last, streams=streams)
    shared = SharedEnds(peers.peers, base.membership)
    to.api.ends.share_with(shared)
    peers.service.on_ends(shared.asked, to.api.ends.heard)
    token = peer_token(base.secret)
    relays = relaying(
        delivery, allocation, peer_links, firing, base.membership, peers.peers, token, hangup, rules.moved
    )
    scheduler.effect_runner.on_gone(relays.gone)
    worked = TickService(token, to.ticks.try_tick)
    ruled = RegulationPeerService(token, regulating, base.engine.ordering, base.now_ms)
    inside = [each.handler() for each in (peers.service, relays.service, to.inspected, worked, ruled)]
    work = WorkService(relays.home, to.api.results, hangup, to.connected)
    server = serve(config, to.api, work, [*to.handlers, *inside])
    clocks = ClockWatch(time, clock, member, peers.peers.read_clock, server.board)
    probe = readiness_probe_of(config, server, base.engine, scheduler, delivery, time, to.activity)
    return Node(*parts, server, hangup, peers, relays, clocks, probe, to.ticks, to.slots, work, *last, streams=streams)


def _opened(scheduler: Scheduler, delivery: Callable[[], Delivery], queues: Collection[QueueKey]) -> None:
    """They may send now, and were looked at in vain before."""
    scheduler.memory.touched.update(queues)
    delivery().wake()


def _webhooks(config: ServerConfig, delivery: Delivery, clock: Clock, api: TimerApi) -> Webhooks | None:
    """Nobody pays for a client of HTTP that has no target."""
    targets = read_targets(config.webhooks)
    if not targets:
        return None
    from timerd.adapters.http_posting import open_poster

    rules = AddressRules(config.webhooks.private_networks)
    way, now_ms = partial(open_poster, rules.objection), lambda: int(clock.wall_ms())
    return Webhooks(targets, delivery, way, now_ms, api.results)


def _streams(config: ServerConfig, delivery: Delivery) -> Streams | None:
    """Nor for one of Redis."""
    targets = read_streams(config.streams)
    if not targets:
        return None
    with _needs(_REDIS):
        from timerd.adapters.redis.stream_writing import open_stream

    return Streams(targets, delivery, partial(open_stream, read_password))


def _place_of(config: ServerConfig, traits: StoreTraits) -> tuple[str, Timing | None]:
    """The name of this instance, and how often it says that it lives where it is one of several."""
    if not traits.is_shared:
        return config.name or f"timerd-{os.getpid()}", None
    return config.name or f"{socket.gethostname()}-{os.getpid()}", Timing(config.heartbeat_ms, config.lease_ttl_ms)


async def _open_sqlite(config: ServerConfig, now_ms: Callable[[], int]) -> Store:
    return SqliteStore(config.data, now_ms, config.synchronous, give_back_spare)


async def _open_cassandra(config: ServerConfig, now_ms: Callable[[], int]) -> Store:
    with _needs(_DRIVER):
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
    with _needs(_REDIS):
        from timerd.adapters.redis.hints import open_hints as open_redis
    return await open_redis(config.redis)


def apply_schema(config: CassandraConfig) -> int:
    """The tables of timerd in Cassandra, made or brought to this version, which is returned. Raises StartupError."""
    with _needs(_DRIVER):
        from timerd.adapters.cassandra import schema
        from timerd.adapters.cassandra.settings import settings_of
    return schema.apply_schema(settings_of(config))


@contextlib.contextmanager
def _needs(missing: str) -> Iterator[None]:
    """Raises StartupError, which says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise StartupError(missing) from error


async def serve(
    config: ServerConfig,
    ready: Callable[[str, str], None],
    before_stop: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Runs until a signal asks it to stop, then drains. `ready` hears where it listens, and where for HTTP;
    `before_stop` ends what calls this server, while that still answers. Raises StartupError with a sentence."""
    kind = STORES[config.store]
    give_back_large_buffers(kind.large_bytes)
    allow_open_files()
    clock = SystemClock()
    hints = await open_hints(config)
    store = await kind.open(config, StoreTime.followed(clock, config.clock_stable_ms).now_ms)
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
    if before_stop is not None:
        await before_stop()
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
    from timerd.web.routes import routes_of

    times = StoreTimes()
    node = await assemble(config, times.watch(store), clock, make_alarm, name, timing, hints=hints)
    peers = node.peering.peers if node.peering is not None else None
    assert node.probe is not None
    api, probe = node.server.api, node.probe
    last = times, probe, peers, node.ticks, node.zone_sweep, node.webhooks, node.regulating, node.streams
    observed = Observed(node.engine, node.scheduler, node.delivery, api, node.time, *last)
    return node, Watch(observed, probe, lambda: store.read([CLUSTER]), routes_of(config, node.server.local))


def back_up_sqlite(directory: Path, target: Path, progress: Callable[[int, int], None]) -> BackupContents:
    """While a server serves or none does. Raises StartupError."""
    from timerd.adapters.sqlite.backup import back_up

    return back_up(directory, target, progress)


def restore_sqlite(backup: Path, directory: Path) -> BackupContents:
    """Into a directory without data. Raises StartupError."""
    from timerd.adapters.sqlite.backup import restore

    return restore(backup, directory)
