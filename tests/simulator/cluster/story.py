"""One history of a cluster by seed: what befalls one instance, and what befalls the ways between them."""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, ClassVar, cast

import timerd.core.partition.memory as memory_module
import timerd.services.holding.paging as paging_module
import timerd.services.holding.scheduler as scheduler_module
import timerd.services.readiness as readiness_module
from tests.property.world import OneCommitStore, done
from tests.simulator.chances import GAPS_MS, HABITS, QUEUES
from tests.simulator.cluster.audit import Audit
from tests.simulator.cluster.beginnings import begin
from tests.simulator.cluster.chances import (
    BLOWS,
    CALLS,
    DEEDS,
    DOWN_MS,
    LINGERS_S,
    PATIENCE_S,
    PAUSES_MS,
    REPEATED_AFTER_S,
    SAID_ALL_AGAIN_S,
    STEPS_MS,
    TIMINGS,
    TRAPS,
)
from tests.simulator.cluster.forms import ClusterForm, form_of, shape
from tests.simulator.cluster.instance import Instance
from tests.simulator.cluster.net import Net
from tests.simulator.cluster.pausing import PausingLoop
from tests.simulator.cluster.replicas import Replicas
from tests.simulator.cluster.store import WITH_CURSORS, WITHOUT_CURSORS, RemoteStore, Trap
from tests.simulator.events import Called, Fenced, Refused, Replied, Server, Verb, Wanted
from tests.simulator.forms import Form
from tests.simulator.story import MAX_MOVES, Story
from tests.simulator.virtual_loop import START_MS
from tests.simulator.worker import CREDIT, Worker
from timerd.core.cluster.membership import Timing
from timerd.model.identity import TaskId
from timerd.model.partition import BUCKET_MS
from timerd.model.registers import Control, Table, place_key
from timerd.model.storage import Append, Appended, Cas
from timerd.services.engine.verbs import NewTasks
from timerd.services.holding.cluster_settings import CLUSTER

MOST_INSTANCES = 4
# While nothing can happen any more: how often an instance does what it does again and again.
QUIET, STILL = 20, 1_000
# By then every instance has looked at the catalogue once more, and has taken what is its own.
SEEN_MS = 3_000
# In one of so many histories a scan has more than one page.
CUT, CUT_AT, CUT_ROWS = 8, 2, 2


@dataclass
class ClusterStory(Story):
    """`instances`: those that run, by name."""

    instance_type: ClassVar[type[Instance]] = Instance

    def __post_init__(self) -> None:
        super().__post_init__()
        chance = self.random.choice
        self.loop.close()
        self.loop = self.pausing = PausingLoop()
        self.disk = OneCommitStore()
        self.is_ordered = False
        self.instances: dict[str, Instance] = {}
        # Partition -> its token in the store.
        self.fences: dict[str, int] = {}
        self.net = Net(self.pausing, self.random)
        self.timing = chance(TIMINGS)
        self.traits = chance((WITH_CURSORS, WITHOUT_CURSORS))
        self.flies = False
        self.begun = 0
        self.begun_ms = 0.0
        # The longest that a call between instances takes, where that is seconds.
        self.way_ms = 0.0
        self.net.delays_ms = chance(((0,), (0, 1, 3), (0, 1, 40), (1, 5, 300)))
        self.net.hints_lost = chance((0, 0, 0.5, 1))
        self.net.lost = 0 if self.is_calm else chance((0, 0, 0.05, 0.3))
        self.weather.delays_ms = chance(((0,), (0, 0, 1, 5), (0, 1, 3, 40), (0, 5, 100, 400)))
        self.replicas = Replicas(self.random, self.pausing.later, self.weather.hits)
        if not self.is_calm:
            self.replicas.late, self.replicas.slow_ms = chance((0, 0.5, 1)), chance((0, 0, 0, 30, 700))
        # How far the clocks of instances are off, either way; what is beyond 100 ms is a step, which stops them.
        self.skew_ms = 0 if self.is_calm else chance((0, 0, 0, 40))
        self.audit = Audit(self.disk, self._broken)
        self.broken: list[tuple[int, str]] = []
        self.weather.slow_ms = {name: min(ms, 1_500) for name, ms in self.weather.slow_ms.items()}
        self.record_settings(chance((1, 1, 2)))
        self.begin_ms = START_MS + BUCKET_MS - chance((1_500, 4_000, 12_000, 40_000))
        self.instants = self._instants()
        # What is said again, and when: by chances of its own.
        self.again = Random(f"again {self.seed}")
        self.made_ms: dict[str, int] = {}
        self.shape = form_of(self.seed)
        shape(self)

    def _form(self) -> Form:
        """Those of one instance are not told here, and those of a cluster are in `shape`."""
        return Form.ANY

    def record_settings(self, shards: int) -> None:
        """As the first instance would: the secret must be the same each time."""
        settings = {"bucket_ms": BUCKET_MS, "secret": "00" * 32, "shards": shards}
        before = done(self.disk.read([CLUSTER]))[0]
        done(self.disk.cas([Cas(CLUSTER, before, json.dumps(settings).encode())]))

    # -- instances ------------------------------------------------------------------------------------------------

    def start_instance(self, name: str) -> None:
        if name in self.instances or self.flies:
            return
        self.begun += 1
        self.begun_ms = self.loop.now_ms
        rows = CUT_ROWS if self.seed % CUT == CUT_AT else 0
        store = RemoteStore(self.disk, self.weather, self.pausing, self.replicas, self, self.traits, rows)
        address = f"{name}:{self.begun}"
        self.instances[name] = self.instance_type(
            name, address, self.pausing, self.net, store, self.config, self.settings, self.timing, self._told
        )
        self.instances[name].clock.off_ms = self.random.choice((-self.skew_ms, self.skew_ms))

    def _told(self, instance: Instance, what: str) -> None:
        self.log(Server(self.loop.now_ms, what, instance.name))
        if what.startswith("did not start"):
            self.loop.later(0, partial(self.kill_instance, instance))

    # -- what the store is seen to do -----------------------------------------------------------------------------

    def _broken(self, sentence: str) -> None:
        self.broken.append((len(self.events) - 1, sentence))

    def written(self, messages: Sequence[Append], answers: Sequence[Appended]) -> None:
        self.audit.written(messages, answers)

    def refused(self, change: Cas) -> None:
        """A mark of a holder that was succeeded; it knows now."""
        before = Control.from_bytes(change.expected) if change.key.table is Table.CONTROL and change.expected else None
        if before is not None and before.token == Control.from_bytes(change.value).token:
            self.log(Refused(self.loop.now_ms, change.key.name.decode(), before.token))

    def applied(self, changes: Sequence[Cas]) -> None:
        self.audit.changed(changes)
        for change in changes:
            self.weather.hits["placed by a compare-and-set"] += change.key.name.startswith(place_key(b"").name)
            if change.key.table is not Table.CONTROL:
                continue
            control, scope = Control.from_bytes(change.value), change.key.name.decode()
            if control.token != self.fences.get(scope):
                self.fences[scope] = control.token
                self.log(Fenced(self.loop.now_ms, scope, control.token, control.holder))

    # -- what becomes of instances --------------------------------------------------------------------------------

    def kill_instance(self, instance: Instance) -> None:
        if self.instances.get(instance.name) is instance:
            self._over(instance, "killed")

    def _over(self, instance: Instance, what: str) -> None:
        del self.instances[instance.name]
        instance.kill()
        self.errors += instance.owner.errors
        self.log(Server(self.loop.now_ms, what, instance.name))
        for worker in self.workers:
            if cast(object, worker.run) is instance:
                worker.cut()
        name = instance.name if self.random.random() < 0.7 else f"i{self.begun}"
        down_ms = self.random.choice(DOWN_MS) if instance.has_served and not self.is_running_out else 50
        self.loop.later(down_ms, partial(self.start_instance, name))

    async def stop_instance(self, instance: Instance) -> None:
        if not instance.serves or instance.going_away:
            return
        self.log(Server(self.loop.now_ms, "stopping", instance.name))
        await instance.stop()
        if self.instances.get(instance.name) is instance:
            self._over(instance, "stopped")

    def pause(self, instance: Instance, for_ms: float | None = None) -> None:
        if instance.owner.dead or instance.owner.is_paused:
            return
        self.log(Server(self.loop.now_ms, "paused", instance.name))
        instance.owner.pause()
        self.loop.later(self.random.choice(PAUSES_MS) if for_ms is None else for_ms, partial(self.go_on, instance))

    def go_on(self, instance: Instance) -> None:
        if instance.owner.is_paused and not instance.owner.dead:
            instance.owner.go_on()
            self.log(Server(self.loop.now_ms, "goes on", instance.name))

    def cut_off(self, instance: Instance, for_ms: float | None = None) -> None:
        """From the store."""
        self.log(Server(self.loop.now_ms, "cut off from the store", instance.name))
        instance.store.is_cut = True
        self.loop.later(self.random.choice(PAUSES_MS) if for_ms is None else for_ms, partial(self.reaches, instance))

    def reaches(self, instance: Instance) -> None:
        if instance.store.is_cut:
            instance.store.is_cut = False
            self.log(Server(self.loop.now_ms, "reaches the store", instance.name))

    def cut(self, one: str, other: str) -> None:
        self.log(Server(self.loop.now_ms, "cut off from each other", f"{one} {other}"))
        self.net.cut(one, other)
        self.loop.later(self.random.choice(PAUSES_MS), partial(self.heal, one, other))

    def heal(self, one: str, other: str) -> None:
        if self.net.is_cut(one, other):
            self.net.heal(one, other)
            self.log(Server(self.loop.now_ms, "reach each other", f"{one} {other}"))

    def step_clock(self, instance: Instance) -> None:
        """And back: what lasts is believed after a while, and nothing in the world shows that it is wrong."""
        by_ms = self.random.choice(STEPS_MS)
        self.log(Server(self.loop.now_ms, "clock stepped", instance.name))
        instance.clock.stepped_ms = by_ms
        self.loop.later(self.random.choice((500, 4_000, 20_000)), partial(self.set_clock, instance))

    def set_clock(self, instance: Instance) -> None:
        if instance.clock.stepped_ms:
            instance.clock.stepped_ms = 0
            self.log(Server(self.loop.now_ms, "clock set", instance.name))

    # -- calls that are made again --------------------------------------------------------------------------------

    async def schedule(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> None:
        """Of tasks without keys also once more, much later."""
        await super().schedule(request, names, wanted)
        if _has_keys(wanted) or self.again.random() < 0.6:
            return
        await asyncio.sleep(self.again.choice(REPEATED_AFTER_S))
        if not self.is_running_out:
            await super().schedule(request, names, wanted)

    def repeats_schedules(self, wanted: tuple[Wanted, ...]) -> bool:
        """The others are, in ways of their own."""
        return _has_keys(wanted)

    async def ask(self, called: Called, work: Any) -> Replied | None:
        """Whoever calls may give up, and say it again, while this try goes on."""
        if called.verb is not Verb.SCHEDULE:
            return await super().ask(called, work)
        self.audit.asked(called)
        patience_s = 0 if _has_keys(called.wanted) else self.again.choice(PATIENCE_S)
        if not patience_s:
            return await self._heard(called, work)
        trying = self.loop.create_task(self._heard(called, work), context=self.loop.outside)
        await asyncio.wait([trying], timeout=patience_s)
        return trying.result() if trying.done() else None

    async def _heard(self, called: Called, work: Any) -> Replied | None:
        replied = await super().ask(called, work)
        if replied is not None:
            self.audit.answered(called, replied, self.ids)
        return replied

    def tasks_of(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> NewTasks:
        """In one of two messages the caller says when it was made."""
        tasks = super().tasks_of(request, names, wanted)
        made_ms = self.made_ms.setdefault(request, int(self.loop.now_ms) if self.again.random() < 0.5 else 0)
        return replace(tasks, request_time_ms=made_ms)

    def named(self, name: str, task: TaskId) -> None:
        if self.ids.get(name, task) != task:
            self._broken(f"G2: {name} was told as {self.ids[name]}, and as {task}")
        self.weather.hits["told again"] += name in self.ids
        super().named(name, task)

    async def _say_all_again(self) -> None:
        """When all of it is over, maybe hours after it was said first."""
        rest_s = self.again.choice(SAID_ALL_AGAIN_S)
        if rest_s > STILL:
            self._slow_down(STILL)
        await asyncio.sleep(rest_s)
        self._slow_down(QUIET)
        for request, names, wanted in list(self.asked):
            if not _has_keys(wanted) and self.again.random() < 0.5:
                await super().schedule(request, names, wanted)
        await self._until_finished()

    # -- who calls whom -------------------------------------------------------------------------------------------

    def serving(self) -> list[Instance]:
        return [each for each in self.instances.values() if each.serves and not each.going_away]

    def reached(self) -> Any:
        serving = self.serving()
        return self.random.choice(serving) if serving else None

    def _connect(self, worker: Worker) -> None:
        if (instance := self.reached()) is not None:
            worker.connect(instance)
        elif worker.pipe is None:
            self._reconnect(worker)

    def hire(
        self, habits: tuple[str, ...] | None = None, queues: tuple[str, ...] | None = None, credit: int = CREDIT
    ) -> Worker:
        worker = super().hire(habits, queues, credit)
        worker.sent_at = lambda token: self.net.sent_ms.get(token, self.loop.now_ms)
        self._connect(worker)
        return worker

    def _reconnect(self, worker: Worker) -> None:
        delay_ms = 50 if self.is_running_out else self.random.choice((0, 1, 100, 900, 1_500, 4_000))

        def again() -> None:
            if worker in self.workers:
                self._connect(worker)

        self.loop.later(delay_ms, again)

    # -- what happens ---------------------------------------------------------------------------------------------

    async def tell(self) -> None:
        self.loop.leap(self.begin_ms)
        scheduler_module.TICK_S = self.tick_s
        paging_module.PAGE_BYTES = 250 if self.is_tight else 8 << 20
        memory_module.SMALLEST_SHARE_BYTES = 120 if self.is_tight else 1 << 20
        await self._all_begin("abc"[: self.random.choice((2, 2, 3))])
        for _ in range(self.random.choice((1, 1, 2))):
            self.hire(self.random.choice(HABITS))
        self._schedule_some()
        await begin(self)
        for _ in range(self.random.choice((3, 6, 9, 14, 20) if self.shape is ClusterForm.ANY else (0, 0, 3))):
            await asyncio.sleep(self._gap_ms() / 1000)
            self._do(self.random.choices(tuple(DEEDS), tuple(DEEDS.values()))[0])
        await asyncio.sleep(self.random.choice((0.0, 1.0, 4.0, 15.0)))
        await asyncio.sleep(self.again.choice(LINGERS_S))
        await self._run_out()

    async def _all_begin(self, names: str) -> None:
        """Nothing befalls them before they know each other."""
        weather, net = self.weather, self.net
        faults = weather.unavailable, weather.unknown, net.lost
        weather.unavailable = weather.unknown = net.lost = 0.0
        for name in names:
            self.start_instance(name)
        while len(self.serving()) < len(names):  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.1)
        await asyncio.sleep(self.random.choice((0.0, 0.5, 2.0)))
        weather.unavailable, weather.unknown, net.lost = faults

    def _gap_ms(self) -> float:
        if self.random.random() < 0.2:
            return self.random.choice((*GAPS_MS, self.timing.ttl_ms - 1_000, self.timing.ttl_ms))
        return super()._gap_ms()

    def _do(self, deed: str) -> None:
        serving = self.serving()
        if deed not in ("kill", "stop", "crash soon", *_TO_ONE, "cut", "join", "at once"):
            super()._do(deed)
        elif deed == "join" and len(self.instances) < MOST_INSTANCES:
            self.start_instance(f"i{self.begun}")
        elif deed == "at once":
            self._at_once()
        elif deed == "stop" and serving:
            self.spawn(self.stop_instance(self.random.choice(serving)))
        elif serving and not self.is_calm:
            instance = self.random.choice(serving)
            if deed == "cut" and len(self.instances) > 1:
                self.cut(*self.random.sample(list(self.instances), 2))
            elif deed == "crash soon":
                self._set_trap(instance, partial(self.kill_instance, instance))
            elif deed in _TO_ONE:
                getattr(self, _TO_ONE[deed])(instance)

    def _at_once(self) -> None:
        """A fault with calls just before, under way and just after: what was answered late is late by a lease."""
        for deed in (self.random.choice(BLOWS), *self.random.choices(CALLS, k=3)):
            self.loop.later(self.random.choice((0, 0, 1, 50, 900)), partial(self._soon, deed))

    def _soon(self, deed: str) -> None:
        if not self.is_running_out:
            self._do(deed)

    def pause_soon(self, instance: Instance) -> None:
        self._set_trap(instance, partial(self.pause, instance))

    def _set_trap(self, instance: Instance, spring: Callable[[], None]) -> None:
        """What happens in the midst of a step happens after it."""
        chance = self.random.choice
        instance.store.trap = Trap(chance(TRAPS), chance((1, 2, 3, 4, 5, 9)), lambda: self.loop.later(0, spring))

    # -- the end --------------------------------------------------------------------------------------------------

    async def _run_out(self) -> None:
        """No more faults; every worker acknowledges at once; time goes on until every bucket is finished."""
        self.is_running_out = True
        self.weather.clear_up()
        self.net.clear_up()
        self.replicas.clear_up()
        for instance in list(self.instances.values()):
            instance.store.trap = None
            self.go_on(instance)
            self.reaches(instance)
            self.set_clock(instance)
        while not self.serving():
            await asyncio.sleep(1)
            if not self.instances:
                self.start_instance("a")
        for worker in self.workers:
            worker.give_up_habits()
        self.hire((), QUEUES).credit = 1_000
        known = await self._until_found()
        self.audit.held(known, (each.name for each in self.serving()))
        await self._let_time_fly()
        await self._all_repeated()
        await self._until_finished()
        await self._say_all_again()
        self.log(Server(self.loop.now_ms, "all over"))
        for name in list(self.ids):
            await self.get(name)

    async def _until_finished(self) -> None:
        """A task that failed often waits for up to an hour: what is still to come is not late."""
        moves = MAX_MOVES
        while moves:
            await asyncio.sleep(20)
            entries = done(self.disk.catalogue(None, -(1 << 62), 1 << 62))
            open_ms = [entry.bucket_ms for entry in entries if not entry.finished]
            if not open_ms:
                return
            moves -= max(open_ms) <= self.loop.now_ms
        self.errors.append(AssertionError("the buckets are never finished"))

    async def _until_found(self) -> Sequence[int]:
        """Who has just come takes for living whoever is on the roster, and gives the dead their share until it has seen
        for a lease that they do not move: whoever was dead is succeeded a while after the last one has come. Returns
        the buckets that instances have had the time to see: a call that comes again makes one even now."""
        found_ms = 3_000 + 2 * self.timing.ttl_ms
        left_ms: float = found_ms
        while left_ms > 0:
            await asyncio.sleep(max(0, left_ms - SEEN_MS) / 1000)
            entries = done(self.disk.catalogue(0, -(1 << 62), int(self.loop.now_ms)))
            await asyncio.sleep(min(left_ms, SEEN_MS) / 1000)
            left_ms = self.begun_ms + found_ms - self.loop.now_ms
        return [entry.bucket_ms for entry in entries]

    async def _let_time_fly(self) -> None:
        """Nothing can happen to anybody any more, and nobody comes: signs of life are few, and who is known to be dead
        stays dead."""
        self.flies = True
        while len(self.serving()) < len(self.instances):  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.1)
        self._slow_down(QUIET)

    def _slow_down(self, every_s: int) -> None:
        """Whoever lives is trusted for five signs of life."""
        ttl_ms = 5_000 * every_s
        scheduler_module.TICK_S = every_s / 2
        readiness_module.LOOK_EVERY_S = every_s
        for instance in self.serving():
            member = instance.member
            member.timing = Timing(1_000 * every_s, ttl_ms)
            member.trust.ttl_ms = member.members._ttl_ms = ttl_ms
            for seen in member.members._seen.values():
                seen._since_ms -= ttl_ms if seen.is_dead else 0
                seen.ttl_ms = ttl_ms

    def end(self) -> None:
        for instance in list(self.instances.values()):
            self.errors += instance.owner.errors
            instance.kill()


def _has_keys(wanted: Sequence[Wanted]) -> bool:
    return any(each.key for each in wanted)


_TO_ONE = {
    "kill": "kill_instance",
    "pause": "pause",
    "pause soon": "pause_soon",
    "cut off": "cut_off",
    "step": "step_clock",
}
