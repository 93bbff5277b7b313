"""One running instance: its parts, and in which order they begin and end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from timerd.config import ServerConfig
from timerd.ports import Store
from timerd.services.background import begin
from timerd.services.dispatch.delivery import Delivery
from timerd.services.engine.engine import Engine
from timerd.services.health.clock_watch import ClockWatch
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.membership import Membership
from timerd.services.holding.scheduler import Scheduler
from timerd.services.housekeeping import every
from timerd.services.peers.peering import Peering
from timerd.services.readiness import ReadinessProbe
from timerd.services.regulation.regulating import Regulating
from timerd.services.schedules.slot_work import SlotWorker
from timerd.services.schedules.ticking import TickWorker
from timerd.services.schedules.zone_sweep import ZoneSweep
from timerd.services.server import ApiServer
from timerd.services.stopping import bounded
from timerd.services.streams.streams import Streams
from timerd.services.transport.audit_records import AuditRecords
from timerd.services.transport.hanging_up import HangingUp
from timerd.services.webhooks.webhooks import Webhooks
from timerd.services.work.moving_away import stop_wait_ms
from timerd.services.work.relaying import Relaying
from timerd.services.work.work_service import WorkService

DROP_EVERY_S = 60.0
FLUSH_EVERY_S = 10.0
# How often files of secrets are looked at.
SECRETS_EVERY_S = 5.0
# For calls that are being answered.
STOP_GRACE_MS = 500


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
    probe: ReadinessProbe | None = None
    # Of recurring schedules, and of cycles whose members timerd keeps.
    ticks: TickWorker | None = None
    slots: SlotWorker | None = None
    work: WorkService | None = None
    zone_sweep: ZoneSweep | None = None
    webhooks: Webhooks | None = None
    # None: queues have no rules.
    regulating: Regulating | None = None
    # What operators did, where it is written down.
    audited: AuditRecords | None = None
    streams: Streams | None = None
    address: str = ""
    _loops: tuple[asyncio.Task[None], ...] = ()

    async def start(self) -> str:
        """Listening and serving; returns HOST:PORT. Raises StartupError."""
        await self.listen()
        work = [
            self.membership.run(),
            self.scheduler.run(),
            every(DROP_EVERY_S, self._drop_expired),
            every(FLUSH_EVERY_S, self._flush),
        ]
        if self.clocks is not None:
            work.append(self.clocks.run())
        if self.regulating is not None:
            work.append(self.regulating.run())
        if self.webhooks is not None:
            work.append(every(SECRETS_EVERY_S, self.webhooks.refresh))
        self._loops = tuple(begin(each, "loops") for each in work)
        if self.probe is not None:
            self.probe.watch(self._loops)
        return self.address

    async def listen(self) -> str:
        """As `start`, without the loops: a test that turns the clock by hand calls `step`."""
        self.address = str(await self.server.start())
        try:
            if self.clocks is not None:
                await self.clocks.before_joining()
            await self.membership.join(self.config.advertise or self.address)
        except BaseException:
            await self.server.kill()
            raise
        if self.regulating is not None:
            await self.regulating.begin()
        await self.server.set_serving(serving=True)
        if self.probe is not None:
            self.probe.join()
        if self.zone_sweep is not None:
            await self.zone_sweep.begin()
        for worker in (self.ticks, self.slots, self.webhooks, self.streams):
            if worker is not None:
                worker.join()
        return self.address

    @property
    def membership(self) -> Membership:
        return self.scheduler.membership

    async def step(self) -> None:
        """What the loops do, once and to its end."""
        await self.membership.step()
        if self.clocks is not None:
            await self.clocks.step()
        if self.regulating is not None:
            await self.regulating.step()
        await self.scheduler.step(int(self.time.exact_ms()))
        if self.probe is not None:
            self.probe.look()

    async def keep_house(self) -> None:
        await self._drop_expired()
        await self.engine.flush_estimates()
        await self._sweep_zones()

    async def stop(self, drain_ms: int) -> None:
        """Takes nothing new, lets workers finish, carries what they still have, settles, closes. Where others take
        over they do so first, for what is due meanwhile is not to wait for the workers of this instance. Nor are its
        callers: they stay connected until it hangs up, and what they ask others may fire at once."""
        await self.server.set_serving(serving=False)
        if self.probe is not None:
            self.probe.stop()
        if not self.membership.present():
            self.engine.drain()
        self.scheduler.hand_over.keep()
        await self.membership.leaving()
        if self.membership.incarnation:
            await self.scheduler.leave(int(self.time.exact_ms()))
        await self.delivery.drain(stop_wait_ms(drain_ms, set(self.membership.live()) - {self.membership.name}))
        self.engine.drain()
        if self.regulating is not None:
            await bounded(self.regulating.leave())
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
        for sinks in (self.webhooks, self.streams):
            if sinks is not None:
                yield sinks.close()
        yield self.scheduler.leave(int(self.time.exact_ms()))
        yield self.membership.left()
        yield self.engine.flush_estimates()
        yield self.engine.shards.close()
        self.delivery.close()
        if self.peering is not None:
            yield self.peering.peers.close()
        yield self.store.close()

    async def _flush(self) -> None:
        """A sweep takes its time, and holds up nothing else."""
        await self.engine.flush_estimates()
        if self.zone_sweep is not None and self.zone_sweep.is_due:
            begin(self.zone_sweep.step(), "zones")

    async def _sweep_zones(self) -> None:
        if self.zone_sweep is not None:
            await self.zone_sweep.step()

    async def _drop_expired(self) -> None:
        await self.scheduler.drop_expired(int(self.time.exact_ms()))
        if self.audited is not None:
            await self.audited.drop_expired()
