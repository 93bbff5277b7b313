"""The worker of the ticks of its instance: each instance works those that it holds (core/schedules/chain.py).

A tick is an ordinary task of a queue that no caller can name. Those of one moment are worked together; one that is not
as plain as the others, or failed with them, is worked by itself. One that fails comes again, after a minute at the
most, for ever: after ten times its schedule says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from timerd.core.dispatch import Action, Assignment, InterruptReason
from timerd.core.protocol import NotTakenIn, Procedure, Undecided
from timerd.core.schedules.backfill import BackfillTicked, mark_backfill_broken, run_backfill_tick
from timerd.core.schedules.chain import Ticked, mark_broken
from timerd.core.schedules.changes import tick_or_resume
from timerd.core.schedules.deciding_many import decide_many
from timerd.core.schedules.recording_many import ReadTick
from timerd.core.schedules.ticking_many import run_ticks
from timerd.core.schedules.world import World
from timerd.core.schedules.zones import ZonesDiffer
from timerd.core.taken import BACKFILL_TICKS, TICKS, QueueKey, Taken
from timerd.model.backfills import BackfillTick
from timerd.model.errors import Aborted, HolderBusy, StoreUnknown, TimerdError, Unavailable
from timerd.model.identity import ACK_TOKEN_BYTES, attempt_of
from timerd.model.schedules import Tick
from timerd.services.background import begin, note
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.ports import Confirmation, Sent
from timerd.services.dispatch.tokens import ack_tokens
from timerd.services.holding.driving import Performs, Returned, drive
from timerd.services.schedules.schedule_stats import ScheduleStats
from timerd.services.schedules.tick_parts import HandedTick, TickParts

LEASE_MS = 30_000
# Ticks in hand: of those that are worked together, and of each other kind.
CREDIT_TOGETHER = 1_024
CREDIT = 64
# Ticks that are worked by themselves at a time; and how often one is tried with others before.
MOST_SINGLE = 64
# Decisions that are made together; and such parts at a time. One waits for the holders of what is open.
DECIDED_TOGETHER = 64
DECIDING_AT_ONCE = 8
TRIES_TOGETHER = 3
BROKEN_AFTER = 10
EXTEND_EVERY_S = 8.0
# A row that nobody says it has is asked for again before the tick fails.
DEADLINE_S = 2.0
TICK_PAUSE_S = 0.25
CALL_PAUSE_S = 0.03
# They pass: a tick that meets them is no reason for a traceback.
FORESEEN = (Unavailable, StoreUnknown, Aborted)
_log = logging.getLogger(__name__)
AnyTick = Tick | BackfillTick
# Have another instance work a tick; whether one has.
TickedPart = Sequence[Ticked | ReadTick | None]
Others = Callable[[AnyTick], Awaitable[bool]]


class TickWorker:
    """Implements services.dispatch.ports.Sink."""

    counts_as_worker = False
    takes_backlog = True
    queues: tuple[QueueKey, ...] = (TICKS, BACKFILL_TICKS)

    def __init__(
        self,
        delivery: Delivery,
        world: World,
        runner: Performs,
        stats: ScheduleStats,
        others: Others | None = None,
    ) -> None:
        self.number = delivery.next_number()
        self.namespace = self.queues[0].namespace
        self.closing = False
        self.stats = stats
        self._delivery = delivery
        self._world = world
        self._runner = runner
        self._others = others
        self._in_hand: set[bytes] = set()
        self._parts = TickParts(self._work_together)
        self._single = asyncio.Semaphore(MOST_SINGLE)
        self._deciding = asyncio.Semaphore(DECIDING_AT_ONCE)
        self._sequence = 0
        self._extending: asyncio.Task[None] | None = None

    def join(self) -> None:
        self._delivery.join(self, self.namespace, LEASE_MS)
        for queue in self.queues:
            self._delivery.credit(self, queue.queue, CREDIT_TOGETHER if queue == TICKS else CREDIT)

    def deliver(self, assignment: Assignment) -> Sent:
        """The round of delivery that calls this goes on first."""
        taken = assignment.taken
        asyncio.get_running_loop().call_soon(self._take, taken)
        return Sent(1, sum(map(len, map(taken.rows.payload, range(len(taken))))))

    def block_if_full(self) -> bool:
        return False

    def owe(self, tokens: int) -> None:
        """What is not confirmed comes again."""

    def confirm(self, confirmation: Confirmation) -> None:
        """As above."""

    def interrupt(self, tokens: bytes, reason: InterruptReason) -> None:
        """Nobody can cancel a tick."""

    def go_away(self) -> None:
        """Ticks that are at work go on to their end."""

    def _take(self, taken: Taken) -> None:
        tokens = ack_tokens(taken, self._delivery.secret)
        for row in range(len(taken)):
            token = tokens[row * ACK_TOKEN_BYTES : (row + 1) * ACK_TOKEN_BYTES]
            self._in_hand.add(token)
            attempt = attempt_of(int(taken.rows.columns["version"][row]))
            queue = taken.rows.template_of(row).queue
            handed = HandedTick(token, queue, taken.rows.payload(row), attempt)
            if queue == TICKS.queue:
                self._parts.add(handed)
            else:
                begin(self._work(handed), "ticks")
        if self._extending is None or self._extending.done():
            self._extending = begin(self._extend(), "ticks")

    async def _extend(self) -> None:
        while self._in_hand:
            await asyncio.sleep(EXTEND_EVERY_S)
            self._delivery.extend(self, b"".join(self._in_hand))

    async def _work_together(self, part: Sequence[HandedTick]) -> None:
        """What is to be decided waits for none of the others, and none of them for that."""
        ticks = _of_each_schedule(part) if len(part) > 1 else {}
        said = await self._done_together(part, ticks, run_ticks([*ticks.values()], self._world))
        read = [(handed, each) for handed, each in said.items() if isinstance(each, ReadTick)]
        for at in range(0, len(read), DECIDED_TOGETHER):
            begin(self._decide(dict(read[at : at + DECIDED_TOGETHER])), "ticks")

    async def _decide(self, read: Mapping[HandedTick, ReadTick]) -> None:
        ticks = {handed: each.tick for handed, each in read.items()}
        async with self._deciding:
            await self._done_together([*read], ticks, decide_many([*read.values()], self._world))

    async def _done_together(
        self, part: Sequence[HandedTick], ticks: Mapping[HandedTick, Tick], procedure: Procedure[TickedPart]
    ) -> Mapping[HandedTick, Ticked | ReadTick | None]:
        """Those that are done are acked at once. What is left of the part is worked by itself."""
        said: Mapping[HandedTick, Ticked | ReadTick | None] = {}
        try:
            said = dict(zip(ticks, await self._ticked(procedure, len(ticks)), strict=True))
            done = {handed: each for handed, each in said.items() if isinstance(each, Ticked)}
            for handed, each in done.items():
                self.stats.came_through(ticks[handed], each.value)
            self._settle([*done], Action.ACK)
        finally:
            for handed in part:
                if said.get(handed) is None:
                    begin(self._work(handed), "ticks")
        return said

    async def _ticked(self, procedure: Procedure[TickedPart], count: int) -> TickedPart:
        """An error is that of one of them, which meets it by itself."""
        try:
            return await drive(procedure, self._runner)
        except (*FORESEEN, NotTakenIn, Undecided):
            return [None] * count
        except Exception as failed:  # noqa: BLE001 - noted, and each is tried by itself
            note("ticks", failed, f"{count} ticks are worked one by one")
            return [None] * count

    def _settle(self, some: Sequence[HandedTick], action: Action, error: str = "") -> None:
        """All of one queue."""
        if not some:
            return
        self._in_hand.difference_update(each.token for each in some)
        self._sequence += 1
        tokens = b"".join(each.token for each in some)
        self._delivery.settle(self, self._sequence, action, tokens, None, error)
        self._delivery.credit(self, some[0].queue, len(some))

    async def _work(self, handed: HandedTick) -> None:
        action, error = Action.NACK, ""
        try:
            async with self._single:
                error = await self._carry_out(handed.queue, handed.payload, handed.attempt)
            action = Action.NACK if error else Action.ACK
        finally:
            self._settle([handed], action, error)

    async def _carry_out(self, queue: str, payload: bytes, attempt: int) -> str:
        """What kept it from its end; nothing: it may be acked."""
        tick = BackfillTick.from_bytes(payload) if queue == BACKFILL_TICKS.queue else Tick.from_bytes(payload)
        error = await self.try_tick(tick, self._others)
        if error and attempt >= BROKEN_AFTER:
            self.stats.failed_often(tick)
            with suppress(*FORESEEN):
                await drive(_mark_broken(tick, error), self._runner)
        return error

    async def try_tick(self, tick: AnyTick, others: Others | None = None) -> str:
        """What kept it from its end; nothing: it may be acked. What this instance may not compute is worked by others,
        if there are any."""
        try:
            ticked = await until_decided(lambda: drive(_worked(tick, self._world), self._runner), TICK_PAUSE_S)
            self.stats.came_through(tick, ticked.value)
            return ""
        except ZonesDiffer as failed:
            if others is not None and await others(tick):
                self.stats.ticks["passed on"] += 1
                return ""
            error = str(failed)
        except FORESEEN as failed:
            _log.warning("the tick of the schedule %r comes again: %s", tick.schedule_id, failed)
            error = str(failed)
        except TimerdError as failed:
            _log.error("the schedule %r cannot go on: %s", tick.schedule_id, failed)
            error = str(failed)
        except Exception as failed:  # noqa: BLE001 - noted, and tried again
            note("ticks", failed, f"the tick of the schedule {tick.schedule_id!r} comes again")
            error = f"{type(failed).__name__}: {failed}"
        self.stats.ticks["failed"] += 1
        return error


def _of_each_schedule(part: Sequence[HandedTick]) -> dict[HandedTick, Tick]:
    """Those that may go together: one of each schedule, and none that keeps failing."""
    ticks: dict[tuple[str, str], tuple[HandedTick, Tick]] = {}
    for handed in part:
        if handed.attempt <= TRIES_TOGETHER:
            tick = Tick.from_bytes(handed.payload)
            ticks.setdefault((tick.namespace, tick.schedule_id), (handed, tick))
    return dict(ticks.values())


def _worked(tick: AnyTick, world: World) -> Procedure[Ticked | BackfillTicked]:
    if isinstance(tick, BackfillTick):
        return (yield from run_backfill_tick(tick, world))
    return (yield from tick_or_resume(tick, world))


def _mark_broken(tick: AnyTick, error: str) -> Procedure[None]:
    return mark_backfill_broken(tick, error) if isinstance(tick, BackfillTick) else mark_broken(tick, error)


async def until_decided(work: Callable[[], Awaitable[Returned]], pause_s: float) -> Returned:
    """What was not said to be taken in, or was looked at by two at once, is asked for again, for a while. Two who meet
    pause for different times. Raises HolderBusy after it."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + DEADLINE_S
    while True:
        try:
            return await work()
        except (NotTakenIn, Undecided) as error:
            if loop.time() >= until_s:
                raise HolderBusy(
                    f"The instances are busy, and within {DEADLINE_S:.0f} s none has said what became of a task of the "
                    "schedule."
                ) from error
            await asyncio.sleep(pause_s)
