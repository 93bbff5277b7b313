"""One history by seed: callers, workers and an operator do what chance says, then everything is let run out.

Short histories of few tasks at few instants, for what goes wrong goes wrong where things meet: calls come a millisecond
before, at and after the instants at which tasks are due, and at the border of a bucket.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from random import Random
from typing import Any, ClassVar, TypeVar

import timerd.core.partition.memory as memory_module
import timerd.services.holding.paging as paging_module
import timerd.services.holding.scheduler as scheduler_module
import timerd.services.readiness as readiness_module
import timerd.services.stopping as stopping_module
from tests.property.world import OneCommitStore, done
from tests.simulator.answers import refusal
from tests.simulator.asking import new_tasks
from tests.simulator.chances import (
    CRASHES_IN,
    CRASHES_IN_STREAMS,
    DEEDS,
    DEEDS_OF_STREAMS,
    DOWN_MS,
    DOWN_OF_STREAMS_MS,
    GAPS_MS,
    HABITS,
    HABITS_OF_STREAMS,
    QUEUES,
    SLOW,
)
from tests.simulator.events import Called, Event, Replied, Said, Server, Settled, Verb, Wanted
from tests.simulator.faults import FaultyStore, Weather
from tests.simulator.forms import Form, begin, form_of, shape
from tests.simulator.repeats import MEMORY_MS, PATIENCE_MS, Repeats
from tests.simulator.server import Gone, Run
from tests.simulator.virtual_loop import OWNER, START_MS, Livelock, Owner, VirtualLoop
from tests.simulator.worker import CREDIT, Worker
from timerd.config import ServerConfig
from timerd.core.partition.holding import HoldingSettings
from timerd.model.errors import NotFound, NotStored, StoreUnknown, TimerdError
from timerd.model.identity import TaskId
from timerd.model.partition import BUCKET_MS
from timerd.services.engine.verbs import AskedMove, NewTasks

MAX_MOVES = 60
ENDS_WITHIN_S = 600
# Another call was faster, and stands.
LOST_TO_OTHERS = {"KEY_LOST", "OVERTAKEN"}
AnyStory = TypeVar("AnyStory", bound="Story")
# The answers, and the ids, of one call.
Told = tuple[Sequence[str], Sequence[str]]


@dataclass
class Story:
    """What is seen of it is in `events`; `errors` are what production would only have logged."""

    seed: int
    events: list[Event] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    # None: nothing is repeated at any distance, and nothing is held up.
    repeats: Repeats | None = None
    worker_type: ClassVar[type[Worker]] = Worker

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.loop = VirtualLoop()
        self.disk = OneCommitStore()
        chance = self.random.choice
        self.weather = Weather(self.random, crash=self.kill)
        self.is_calm = self.random.random() < 0.25
        self.weather.delays_ms = chance(((0,), (0, 0, 1, 5), (0, 1, 3, 40), (0, 5, 200, 1_500)))
        slow = self.random.sample(SLOW, chance((0, 1, 2, 2)))
        self.weather.slow_ms = {name: chance((30, 300, 2_500, 6_000)) for name in slow}
        if not self.is_calm:
            self.weather.unavailable, self.weather.unknown = chance((0, 0, 0.02, 0.1)), chance((0, 0, 0.03, 0.1))
        # A stream of tasks that are due at once: the marks move all the time, and slow writes come too late for them.
        self.is_stream = not self.is_calm and self.random.random() < 0.4
        self.is_tight = not self.is_calm and self.random.random() < 0.3
        self.config = ServerConfig(
            max_mark_lag_ms=chance((600_000, 600_000, 8_000, 2_000, 2_000)),
            memory_budget_bytes=120 if self.is_tight else 1 << 30,
        )
        self.settings = HoldingSettings(
            "me",
            max_mark_lag_ms=self.config.max_mark_lag_ms,
            mark_every_ms=chance((100, 1_000)),
            max_settled=chance((2, 200_000)),
            traits=OneCommitStore.traits,
        )
        self.tick_s = chance((0.1, 0.4, 1.0))
        if self.is_stream:
            self._stream()
        self.form = self._form()
        shape(self)
        self.begin_ms = START_MS + BUCKET_MS - chance((1_500, 4_000, 12_000, 40_000))
        self.instants = self._instants()
        # The order is promised of what is loaded (G9), which takes long where the store is slow.
        is_quick = not self.weather.slow_ms and max(self.weather.delays_ms) < 100
        # What nobody took for so long comes from the backlog, whose order is its own.
        is_parked = self.config.max_mark_lag_ms < 600_000
        self.is_ordered = self.is_calm and not self.is_tight and is_quick and not is_parked
        self.run: Run | None = None
        self.workers: list[Worker] = []
        self.ids: dict[str, TaskId] = {}
        self.asked: list[tuple[str, tuple[str, ...], tuple[Wanted, ...]]] = []
        self.calls = self.messages = self.hired = 0
        # When each call was made, by request; repeats that are still to come, and tries that nobody waits for.
        self.made: dict[str, int] = {}
        self.to_come: list[asyncio.Task[None]] = []
        self.given_up: list[asyncio.Future[Any]] = []
        self.is_running_out = False
        # Of workers, one of them by chance.
        self.leases_ms: Sequence[int] = (1_000, 1_000, 3_000, 6_000)

    def _form(self) -> Form:
        return form_of(self.seed)

    def _stream(self) -> None:
        chance = self.random.choice
        self.settings = replace(self.settings, mark_every_ms=100, max_settled=200_000)
        self.tick_s = 0.1
        self.weather.delays_ms = chance(((0,), (0, 1, 3)))
        self.weather.crash_after_cas = chance((0.0, 0.1))
        append_ms = chance((400, 400, 1_500))
        # Half as slow as rows: of those that come while the marks are moved, some are older than the new marks.
        also = chance(("cas", "cas", "cas", "cas", "cas", "scan", "settle", "mark"))
        self.weather.slow_ms = {
            "append": append_ms,
            also: append_ms / 2 if also == "cas" else chance((100, 300)),
            **chance(({}, {"catalogue": 2_500})),
        }

    def _instants(self) -> list[int]:
        """The few at which tasks are due."""
        border_ms = START_MS + BUCKET_MS
        near = [self.begin_ms + ms for ms in (-3_000, 500, 1_000, 2_000, 2_001, 5_000, 9_000)]
        edges = [border_ms - 1, border_ms, border_ms + 1, border_ms + 1_500]
        far = [border_ms + BUCKET_MS - 1, border_ms + BUCKET_MS, self.begin_ms - 2 * BUCKET_MS]
        pick = self.random.sample
        return [*pick(near, 2), *pick(edges, self.random.randint(0, 2)), *pick(far, self.random.randint(0, 1))]

    # -- the server -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.run is not None:
            return
        owner = Owner(self.loop)
        store = FaultyStore(self.disk, self.weather, owner)
        self.run = self.run_on(owner, store)
        self.log(Server(self.loop.now_ms, "started"))
        for worker in self.workers:
            self._reconnect(worker)

    def run_on(self, owner: Owner, store: FaultyStore) -> Run:
        return Run(self.loop, owner, store, self.config, self.settings)

    def kill(self) -> None:
        if self.run is None:
            return
        self.weather.crash_at = 0
        run, self.run = self.run, None
        run.kill()
        self.errors += run.owner.errors
        self.log(Server(self.loop.now_ms, "killed"))
        for worker in self.workers:
            worker.cut()
        self.loop.later(self._down_ms(), self.start)

    async def stop(self) -> None:
        """Gracefully. A crash may come on the way."""
        run = self.run
        if run is None or run.going_away:
            return
        self.log(Server(self.loop.now_ms, "stopping"))
        await run.stop()
        if self.run is run:
            self.run = None
            run.kill()
            self.errors += run.owner.errors
            self.log(Server(self.loop.now_ms, "stopped"))
            self.loop.later(self._down_ms(), self.start)

    def _down_ms(self) -> float:
        return 50 if self.is_running_out else self.random.choice(DOWN_OF_STREAMS_MS if self.is_stream else DOWN_MS)

    def log(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Settled) and event.action == "reject" and self.random.random() < 0.8:
            self._redrive_soon(event.name)

    def _redrive_soon(self, name: str) -> None:
        """The operator sees that it was rejected, and lets it live again."""
        if not self.is_running_out and name in self.ids:
            self.messages += 1
            again = f"r{self.messages}"
            self.loop.later(
                self.random.choice((5, 1_000, 3_000, 20_000)), lambda: self.spawn(self.redrive(again, name))
            )

    # -- workers --------------------------------------------------------------------------------------------------

    def hire(
        self, habits: tuple[str, ...] | None = None, queues: tuple[str, ...] | None = None, credit: int = CREDIT
    ) -> Worker:
        chance = self.random.choice
        self.hired += 1
        worker = self.worker_type(
            f"w{self.hired}",
            self.loop,
            self.random,
            self.log,
            queues or chance((("a",), ("b",), QUEUES, QUEUES)),
            chance(self.leases_ms),
            chance(HABITS) if habits is None else habits,
            credit,
            deafens=self.hired % 2 == 0,
        )
        worker.broke = self._reconnect
        self.workers.append(worker)
        if self.run is not None:
            worker.connect(self.run)
        return worker

    def _reconnect(self, worker: Worker) -> None:
        delay_ms = 50 if self.is_running_out else self.random.choice((0, 1, 100, 900, 1_500, 4_000))

        def again() -> None:
            if self.run is not None and worker in self.workers:
                worker.connect(self.run)

        self.loop.later(delay_ms, again)

    # -- callers --------------------------------------------------------------------------------------------------

    def reached(self) -> Run | None:
        """Who answers the next call."""
        return None if self.run is None or self.run.going_away else self.run

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self.loop.create_task(work, context=self.loop.outside)

    async def ask(self, called: Called, work: Callable[[Run], Coroutine[Any, Any, Told]]) -> Replied | None:
        """One call and its reply."""
        run = self.reached()
        if run is None:
            return None
        self.log(called)
        asked = work(run)
        try:
            answers, ids = await self._answer(run, called, asked)
            replied = Replied(0, called.call, Said.OK, tuple(answers), tuple(ids))
        except Gone:
            replied = Replied(0, called.call, Said.UNKNOWN, ("gone",))
            if getcoroutinestate(asked) == CORO_CREATED:
                # Of a server that was killed before: nothing is said of it wherever it is let go of.
                asked.close()
        except TimeoutError:
            replied = Replied(0, called.call, Said.UNKNOWN, ("given up",))
        except NotStored as error:
            replied = Replied(0, called.call, Said.NOT_DONE, (error.reason,))
        except TimerdError as error:
            replied = Replied(0, called.call, Said.UNKNOWN, (type(error).__name__,))
        except Exception as error:  # noqa: BLE001 - judged with everything else
            self.errors.append(error)
            replied = Replied(0, called.call, Said.UNKNOWN, (type(error).__name__,))
        replied = replace(replied, at_ms=self.loop.now_ms)
        self.log(replied)
        return replied

    async def _answer(self, run: Run, called: Called, work: Coroutine[Any, Any, Told]) -> Told:
        """Raises TimeoutError where the caller has given up waiting: the work goes on."""
        is_watched = called.verb is Verb.GET or self.is_running_out or self.is_ordered
        if self.repeats is None or is_watched or not self.repeats.is_held():
            return await run.call(work)
        answer = asyncio.ensure_future(run.call(self.repeats.held(work)))
        if not (await asyncio.wait([answer], timeout=PATIENCE_MS / 1000))[0]:
            # Nobody hears what becomes of it.
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.given_up.append(answer)
            raise TimeoutError
        return answer.result()

    def _called(self, verb: Verb, request: str, names: tuple[str, ...], **more: Any) -> Called:
        self.calls += 1
        return Called(self.loop.now_ms, self.calls, verb, request, names, asked_ms=self._asked_ms(request), **more)

    def _asked_ms(self, request: str) -> int:
        made_ms = self.made.setdefault(request, int(self.loop.now_ms))
        return made_ms if self.repeats is not None and self.repeats.says_when else 0

    def _repeat_later(self, request: str, again: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """From when the call is made, once for each request."""
        if self.repeats is None or request in self.made:
            return
        self.made[request] = int(self.loop.now_ms)
        for delay_ms in self.repeats.delays_ms():
            self.to_come.append(self.spawn(self._again(request, delay_ms, again)))

    async def _again(self, request: str, delay_ms: int, again: Callable[[], Coroutine[Any, Any, object]]) -> None:
        await asyncio.sleep(delay_ms / 1000)
        if self.loop.now_ms - self.made[request] < MEMORY_MS:
            await again()

    async def schedule(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> None:
        """Says it again with the same request where the outcome was unknown, as callers should."""
        once = partial(self._schedule, request, names, wanted)
        if self.repeats_schedules(wanted):
            self._repeat_later(request, once)
        for _ in range(4):
            replied = await once()
            is_answered = replied is not None and (replied.said is Said.OK or bool({*replied.answers} & LOST_TO_OTHERS))
            if is_answered:
                return
            await asyncio.sleep(self.random.choice((0, 0.001, 0.3, 3)))
            if not self.is_running_out and self.random.random() < 0.3:
                return

    def tasks_of(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> NewTasks:
        """The same each time."""
        return new_tasks(request, names, wanted)

    def named(self, name: str, task: TaskId) -> None:
        """A call was answered with that id."""
        self.ids[name] = task

    def repeats_schedules(self, wanted: tuple[Wanted, ...]) -> bool:
        return True

    async def _schedule(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> Replied | None:
        called = self._called(Verb.SCHEDULE, request, names, wanted=wanted)

        async def work(run: Run) -> Told:
            stored = await run.node.engine.schedule(
                replace(self.tasks_of(request, names, wanted), asked_ms=called.asked_ms)
            )
            kept = {row: "kept " + self._name_of(task) for row, task in stored.kept.items()}
            refused = {row: refusal(error) for row, error in stored.refused.items()}
            rest = [row for row in range(len(names)) if row not in kept and row not in refused]
            for row in rest:
                self.named(names[row], stored.task_ids[row])
            answers = [kept.get(row) or refused.get(row) or "stored" for row in range(len(names))]
            return answers, [stored.task_ids[row].digest.hex() for row in rest]

        return await self.ask(called, work)

    def _name_of(self, task: TaskId) -> str:
        """Also of a task whose own call has not been answered yet."""
        for request, names, wanted in self.asked:
            if self.tasks_of(request, names, wanted).prefix == task.prefix:
                return names[task.item]
        return next((name for name, known in self.ids.items() if known.digest == task.digest), "?")

    async def cancel(self, request: str, names: tuple[str, ...]) -> None:
        async def once() -> None:
            ids = [self.ids[name] for name in names]

            async def work(run: Run) -> Told:
                return [a.name for a in await run.node.engine.cancel("default", request, ids)], ()

            await self.ask(self._called(Verb.CANCEL, request, names), work)

        self._repeat_later(request, once)
        await once()

    async def cancel_by_key(self, request: str, key: str) -> None:
        async def work(run: Run) -> Told:
            """As services/calls/mutations.py."""
            try:
                task = await run.node.engine.resolve_key("default", key, f"by key {request}".encode())
            except NotFound:
                return (), ()
            return [a.name for a in await run.node.engine.cancel("default", request, [task])], [self._name_of(task)]

        async def once() -> None:
            await self.ask(self._called(Verb.CANCEL, request, (), key=key), work)

        self._repeat_later(request, once)
        await once()

    async def move(self, request: str, name: str, fire_at_ms: int, *, is_now: bool = False) -> None:
        """`is_now`: each repeat is of its own now."""

        async def once(*, again: bool) -> None:
            asked_for_ms = int(self.loop.now_ms) if again and is_now else fire_at_ms
            called = self._called(Verb.MOVE, request, (name,), fire_at_ms=asked_for_ms)

            async def work(run: Run) -> Told:
                asked = AskedMove(request, self.ids[name], asked_for_ms, called.asked_ms)
                (said,) = await run.node.engine.reschedule("default", [asked])
                if not isinstance(said, int):
                    raise said
                return [str(said)], ()

            await self.ask(called, work)

        self._repeat_later(request, partial(once, again=True))
        for _ in range(self.random.choice((1, 1, 2))):
            await once(again=False)

    async def redrive(self, request: str, name: str) -> None:
        async def once() -> None:
            called = self._called(Verb.REDRIVE, request, (name,))

            async def work(run: Run) -> Told:
                said = await run.node.engine.redrive("default", request, [self.ids[name]], called.asked_ms)
                return [each.reason if isinstance(each, NotStored) else str(each) for each in said], ()

            await self.ask(called, work)

        self._repeat_later(request, once)
        await once()

    async def get(self, name: str) -> Replied | None:
        async def work(run: Run) -> Told:
            return [(await run.node.engine.get("default", self.ids[name])).state.name], ()

        return await self.ask(self._called(Verb.GET, "", (name,)), work)

    # -- what happens ---------------------------------------------------------------------------------------------

    async def pile_up(self) -> None:
        """Of one key more than memory holds: only stories with keys have that."""

    async def tell(self) -> None:
        self.loop.leap(self.begin_ms)
        scheduler_module.TICK_S = self.tick_s
        paging_module.PAGE_BYTES = 250 if self.is_tight else 8 << 20
        memory_module.SMALLEST_SHARE_BYTES = 120 if self.is_tight else 1 << 20
        self.start()
        if self.form is not Form.ANY:
            await begin(self)
        elif self.is_stream:
            self.hire(self.random.choice(HABITS_OF_STREAMS), self.random.choice((("a",), ("a",), QUEUES)))
        elif self.random.random() < 0.8:
            self.hire()
        self._schedule_some()
        deeds = DEEDS_OF_STREAMS if self.is_stream else DEEDS
        for _ in range(self.random.choice((14, 20, 30) if self.is_stream else (3, 6, 6, 9, 14))):
            await asyncio.sleep(self._gap_ms() / 1000)
            self._do(self.random.choices(tuple(deeds), tuple(deeds.values()))[0])
        await asyncio.sleep(self.random.choice((0.0, 1.0, 4.0)))
        await self._run_out()

    def _gap_ms(self) -> float:
        """Often until just before, at or after an instant at which something is due."""
        if self.is_stream:
            return self.random.choice((0, 50, 100, 130, 250))
        if self.random.random() < 0.3:
            ahead = [ms - self.loop.now_ms + edge for ms in self.instants for edge in (-1, 0, 1)]
            near = [ms for ms in ahead if 0 < ms <= 20_000]
            if near:
                return min(near) if self.random.random() < 0.5 else self.random.choice(near)
        return self.random.choice(GAPS_MS)

    def _do(self, deed: str) -> None:
        chance = self.random.choice
        known = list(self.ids)
        self.messages += 1
        request = f"r{self.messages}"
        if deed == "schedule":
            self._schedule_some()
        elif deed == "fire now" and known:
            self.spawn(self.move(request, chance(known), int(self.loop.now_ms), is_now=True))
        elif deed == "repeat" and self.asked:
            self._repeat()
        elif deed == "kill" and not self.is_calm:
            self.kill()
        elif deed == "crash soon" and not self.is_calm:
            self._crash_soon()
        elif deed == "stop":
            self.spawn(self.stop())
        elif deed == "hang up" and self.workers:
            chance(self.workers).hang_up()
        elif deed == "leave":
            self._change_staff()
        elif deed == "cancel" and known:
            self._cancel_some(request, known)
        elif deed == "move" and known:
            self._move_some(request, chance(known))
        elif deed == "redrive" and known:
            rejects = (e.name for e in self.events if isinstance(e, Settled) and e.action == "reject")
            self.spawn(self.redrive(request, chance([name for name in rejects if name in known] or known)))
        elif deed == "get" and known:
            self.spawn(self._look(chance(known)))

    def _move_some(self, request: str, name: str) -> None:
        """Two calls at once: one of them loses."""
        for n in range(self.random.choice((1, 1, 2))):
            instant = self.random.choice((*self.instants, int(self.loop.now_ms)))
            self.spawn(self.move(f"{request}.{n}", name, instant))

    def _cancel_some(self, request: str, known: list[str]) -> None:
        if self.repeats is not None and self.repeats.is_by_key():
            self.spawn(self.cancel_by_key(request, "k"))
        else:
            many = self.random.choice((1, 1, 1, 3))
            self.spawn(self.cancel(request, tuple(self.random.sample(known, min(len(known), many)))))

    def _crash_soon(self) -> None:
        chance = self.random.choice
        if self.is_stream:
            self.weather.crash_in, self.weather.crash_at = chance(CRASHES_IN_STREAMS), chance((2, 2, 4))
        else:
            self.weather.crash_in, self.weather.crash_at = chance(CRASHES_IN), chance((1, 2, 3, 4, 5, 9))

    def _repeat(self) -> None:
        """Also while the first call is under way."""
        request, names, wanted = self.random.choice(self.asked[-3:] if self.is_stream else self.asked)
        if self.repeats is not None or not any(each.key for each in wanted):
            self.spawn(self.schedule(request, names, wanted))

    async def _look(self, name: str) -> None:
        await self.get(name)

    def _change_staff(self) -> None:
        if self.workers and self.random.random() < 0.4:
            worker = self.random.choice(self.workers)
            self.workers.remove(worker)
            worker.lose()
        else:
            self.hire()

    def _schedule_some(self) -> None:
        self.messages += 1
        chance = self.random.choice
        names = tuple(f"m{self.messages}.{n}" for n in range(chance((1, 1, 2) if self.is_stream else (1, 1, 2, 3, 5))))
        instants = (
            (int(self.loop.now_ms),)
            if self.is_stream
            else (*self.instants, int(self.loop.now_ms) + chance((0, 1, 700)))
        )
        key = "k" if len(names) == 1 and self.random.random() < 0.3 else ""
        if self.repeats is not None and self.repeats.is_keyed():
            names, key = names[:1], "k"
        due = [chance(instants) for _ in names]
        wanted = tuple(
            Wanted(
                due[n],
                chance(("a",) * 9 + ("b",) if self.is_stream else QUEUES),
                chance((0, 0, 0, 1, 3)),
                chance((20, 20, 20, 2)),
                due[n] + chance((1, 500, 3_000)) if self.random.random() < 0.1 else 0,
                key=key if n == 0 else "",
                policy=chance(("KEEP", "REPLACE", "REJECT")) if key and n == 0 else "",
            )
            for n in range(len(names))
        )
        self.asked.append((f"r{self.messages}", names, wanted))
        self.spawn(self.schedule(*self.asked[-1]))

    # -- the end --------------------------------------------------------------------------------------------------

    async def _run_out(self) -> None:
        """No more faults; every worker acknowledges at once; time goes on until every bucket is finished."""
        self.is_running_out = True
        self.weather.clear_up()
        while self.run is None or self.run.going_away:
            await asyncio.sleep(1)
            if self.run is None:
                self.start()
        for worker in self.workers:
            worker.give_up_habits()
        self.hire((), QUEUES, 1_000)
        await asyncio.sleep(3)
        scheduler_module.TICK_S = 10.0
        await self._all_repeated()
        await self._until_finished()
        self.log(Server(self.loop.now_ms, "all over"))
        for name in list(self.ids):
            await self.get(name)

    async def _all_repeated(self) -> None:
        """No call is to come, and none goes on."""
        while self.to_come or self.given_up:
            rest: list[asyncio.Future[Any]] = [*self.to_come, *self.given_up]
            self.to_come, self.given_up = [], []
            await asyncio.wait(rest)

    async def _until_finished(self) -> None:
        for _ in range(MAX_MOVES):
            await asyncio.sleep(20)
            if self._is_finished():
                break
        else:
            self.errors.append(AssertionError("the buckets are never finished"))

    def end(self) -> None:
        if self.run is not None:
            self.errors += self.run.owner.errors
            self.run.kill()

    def _is_finished(self) -> bool:
        return all(entry.finished for entry in done(self.disk.catalogue(None, -(1 << 62), 1 << 62)))


class Errors(logging.Handler):
    """What production would only have logged; that a store did not say is no error."""

    def __init__(self, story: Story) -> None:
        super().__init__(logging.ERROR)
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        owner = OWNER.get()
        # Of a step of its stop that took so long while it was paused.
        is_excused = record.name == stopping_module.log.name and not (
            owner and owner.has_run_for(stopping_module.STEP_S * 1_000)
        )
        if not (is_excused or isinstance(error, StoreUnknown)):
            self._story.errors.append(error or AssertionError(record.getMessage()))


def told(story: AnyStory) -> AnyStory:
    """Until all has run out."""
    loop, logger, handler = story.loop, logging.getLogger("timerd"), Errors(story)
    # Of what was about to begin when the server was killed.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    before = logger.propagate, scheduler_module.TICK_S, paging_module.PAGE_BYTES, memory_module.SMALLEST_SHARE_BYTES
    looks_every_s = readiness_module.LOOK_EVERY_S
    logger.addHandler(handler)
    logger.propagate = False
    try:
        loop.run_until_complete(story.spawn(story.tell()))
        story.end()
        story.errors += [AssertionError(f"goes on after it was cancelled: {task}") for task in _cancel_rest(loop)]
    except Livelock as livelock:
        story.errors.append(livelock)
        story.end()
        _cancel_rest(loop)
    finally:
        loop.close()
        logger.removeHandler(handler)
        logger.propagate = before[0]
        scheduler_module.TICK_S, paging_module.PAGE_BYTES, memory_module.SMALLEST_SHARE_BYTES = before[1:]
        readiness_module.LOOK_EVERY_S = looks_every_s
    return story


def _cancel_rest(loop: VirtualLoop) -> set[asyncio.Task[Any]]:
    """Those that do not end with it."""
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    return loop.run_until_complete(asyncio.wait(rest, timeout=ENDS_WITHIN_S))[1] if rest else set()
