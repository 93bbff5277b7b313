"""Wires a server: the only module that names concrete adapters.

config -> store, clock, alarm -> scheduler (partition machines) -> firing -> delivery -> API -> gRPC server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from timerd.adapters import interpreter
from timerd.adapters.alarm import make_alarm
from timerd.adapters.allocator import give_back_large_buffers, give_back_spare
from timerd.adapters.clocks import SystemClock
from timerd.adapters.open_files import allow_open_files
from timerd.adapters.sqlite.store import SqliteStore
from timerd.config import CassandraConfig, ServerConfig
from timerd.core.holding import Settings
from timerd.core.instance_machine import InstanceMachine
from timerd.core.ledger import Ledger
from timerd.core.membership import Timing
from timerd.core.memory import Memory
from timerd.core.tally import LATENESS_BOUNDS_MS
from timerd.model.errors import StartupError
from timerd.ports import Clock, Hints, Store
from timerd.services.api import TimerApi
from timerd.services.calls.patience import LIMIT_S, Patience
from timerd.services.calls.reads import DeliveryFacts
from timerd.services.checkup import Checkup, checkup_of
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
from timerd.services.peers.peering import Peering, peering
from timerd.services.server import ApiServer
from timerd.services.stopping import bounded
from timerd.services.transport.hanging_up import HangingUp
from timerd.services.work.delivery import Alarm, Delivery
from timerd.services.work.moving_away import stop_wait_ms
from timerd.services.work.relaying import Relaying, relaying
from timerd.services.work.work_service import WorkService

if TYPE_CHECKING:
    from timerd.adapters.sqlite.backup import Checked
    from timerd.observability.watch import Watch

log = logging.getLogger(__name__)
DROP_EVERY_S = 60.0
FLUSH_EVERY_S = 10.0
# Of each bucket, where nothing is recorded yet: so that a few instances share a minute that nobody announced.
DEFAULT_SHARDS = {"sqlite": 1, "cassandra": 4}
# On Cassandra each is a row, which whoever takes the partition over has to read.
SETTLE_EVERY_MS = {"sqlite": 5, "cassandra": 20}
# Goes back to the machine when it is freed. SQLite's writer knows moments of rest in which smaller buffers do, and
# fresh pages for those of each commit were a seventh of its time.
LARGE_BYTES = {"sqlite": 16 << 20, "cassandra": 128 << 10}
# For calls that are being answered.
STOP_GRACE_MS = 500
# Of each partition, where a repeated call may write its tasks twice: about 200 bytes each, up to twice as many.
REMEMBERED_ENDINGS = 16_384
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
        self._loops = tuple(asyncio.create_task(each) for each in work)
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


def _settings(config: ServerConfig, name: str, *, is_alone: bool) -> Settings:
    return Settings(
        name,
        config.listen,
        max_mark_lag_ms=config.max_mark_lag_ms,
        settle_every_ms=SETTLE_EVERY_MS[config.store],
        remembered=0 if config.store == "sqlite" and is_alone else REMEMBERED_ENDINGS,
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
) -> Node:
    """With `timing` it is one of several on the same store, and `hints` is a way to those that it cannot call."""
    patience = Patience() if config.store == "sqlite" else Patience(LIMIT_S)
    store = patience.watch(store)
    secret, shard_count = await cluster_settings(store, config.shards, DEFAULT_SHARDS[config.store])
    member = Member(name, store, clock, timing) if timing is not None else None
    membership = member or Alone(name)
    time = EngineTime(clock, membership.trust, config.clock_stable_ms)
    scheduler = Scheduler(
        store,
        time,
        _settings(config, name, is_alone=timing is None),
        InstanceMachine(config.look_ahead_ms),
        Memory(config.memory_budget_bytes),
        config.history_retention_ms,
        membership,
    )
    scheduler.effector.throttle = Throttle(config.catch_up_rows_per_s).wait
    grows = config.store != "sqlite" or shard_count > 1
    now_ms, instances = lambda: int(time.exact_ms()), lambda: len(membership.live())
    shards = Shards(store, shard_count, grows=grows, now_ms=now_ms, instances=instances)
    engine = Engine(store, scheduler, time, secret, config, shards)
    firing = Firing(scheduler, time, store, secret, config.resume_grace_ms)
    delivery = Delivery(firing, make(time.exact_ms), resume_grace_ms=config.resume_grace_ms, server=name)
    scheduler.held.lease_of, scheduler.held.in_flight = delivery.lease_of, delivery.machine.places
    scheduler.held.came_since = delivery.machine.before.came_since
    engine.shows(LATENESS_BOUNDS_MS, delivery.tallies.lateness_counts)
    peers = peering(store, scheduler, secret, time, config, hints) if timing is not None else None

    def delivered() -> DeliveryFacts:
        return DeliveryFacts(delivery.in_flight, delivery.workers)

    reporting = Reporting(store, scheduler, time, delivered)
    colleagues = Colleagues(peers.peers) if peers is not None else None
    operating = Operating(store, scheduler, time, clock, reporting, colleagues, shards, config.max_mark_lag_ms)
    api = TimerApi(engine, config, delivered, operating, patience)
    scaler = Foreseeing(store, lambda: int(time.exact_ms())).handler()
    hanging_up = HangingUp()
    if peers is None or member is None:
        server = serve(config, api, WorkService(delivery, hanging_up), [scaler])
        checkup = checkup_of(config, server, engine, scheduler, delivery, time)
        return Node(config, store, time, scheduler, engine, delivery, server, hanging_up, checkup=checkup)
    relays = relaying(delivery, firing, store, membership, peers.peers, peer_token(secret), hanging_up)
    scheduler.effector.gone = relays.gone
    inspected = InspectService(peer_token(secret), scheduler, reporting)
    inside = [scaler, peers.service.handler(), relays.service.handler(), inspected.handler()]
    server = serve(config, api, WorkService(relays.home, hanging_up), inside)
    clocks = ClockWatch(time, clock, member, peers.peers.read_clock, server.board)
    checkup = checkup_of(config, server, engine, scheduler, delivery, time)
    return Node(config, store, time, scheduler, engine, delivery, server, hanging_up, peers, relays, clocks, checkup)


def _place_of(config: ServerConfig) -> tuple[str, Timing | None]:
    """The name of this instance, and how often it says that it lives where it is one of several."""
    if config.store == "sqlite":
        return config.name or f"timerd-{os.getpid()}", None
    return config.name or f"{socket.gethostname()}-{os.getpid()}", Timing(config.heartbeat_ms, config.lease_ttl_ms)


async def open_store(config: ServerConfig, clock: Clock) -> Store:
    """Raises StartupError where it is not there, or not as it should be."""

    def now_ms() -> int:
        return int(clock.wall_ms())

    if config.store == "sqlite":
        return SqliteStore(config.data, now_ms, config.synchronous, give_back_spare)
    with _needs_driver():
        from timerd.adapters.cassandra.opening import open_store as open_cassandra
    return await open_cassandra(config.cassandra, now_ms)


async def open_hints(config: ServerConfig) -> Hints | None:
    """Raises StartupError where Redis is there and does not let this instance in."""
    if not config.redis.url.get_secret_value():
        return None
    try:
        from timerd.adapters.redis.opening import open_hints as open_redis
    except ModuleNotFoundError as error:
        raise StartupError("Redis's client is not installed: `pip install timerd[redis]`.") from error
    return await open_redis(config.redis)


def apply_schema(config: CassandraConfig) -> int:
    """The tables of timerd in Cassandra, made or brought to this version, which is returned. Raises StartupError."""
    with _needs_driver():
        from timerd.adapters.cassandra.opening import make_tables
    return make_tables(config)


@contextlib.contextmanager
def _needs_driver() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise StartupError(
            "Cassandra's driver is not installed: `pip install timerd[cassandra]`, or timerd[scylla] for ScyllaDB."
        ) from error


async def serve(config: ServerConfig, ready: Callable[[str, str], None]) -> None:
    """Runs until SIGTERM or SIGINT, then drains. `ready` hears where it listens, and where for HTTP. Raises
    StartupError with a sentence."""
    give_back_large_buffers(LARGE_BYTES[config.store])
    allow_open_files()
    clock = SystemClock()
    hints = await open_hints(config)
    store = await open_store(config, clock)
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
    interpreter.tune()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
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
    name, timing = _place_of(config)
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
    observed = Observed(node.engine, node.scheduler, node.delivery, api, node.time, times, checkup, peers)
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
