"""A caller process: it creates the schedules of the plan, and updates, pauses, resumes, triggers and deletes each of
them again and again, one call of a schedule after the other. It writes down what it was answered.

Told on its standard input: `burst` makes all that wait make their next call at once, `end` pauses what was changed and
ends the process when all is answered. One call in five is made again some time later, with the same request_id: it must
be answered as the first time.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from tests.chaos.lines import Writer
from tests.chaos.recurring.asking import Answer, Asking
from tests.chaos.recurring.plan import Planned, plan, some_seconds
from tests.chaos.recurring.records import OK, Call, Counts
from timerd.v1 import schedule_service_pb2 as pb

_BETWEEN_S = (1.5, 9.0)
_REPEATED_SHARE = 0.2
_REPEAT_WITHIN_S = 6.0
_WHILE_ACTIVE = {"update": 4, "respec": 3, "pause": 4, "trigger": 2, "delete": 1}
_WHILE_PAUSED = {"resume": 4, "catch up": 4, "update": 1, "trigger": 2, "delete": 1}


class Schedule:
    """One of the plan, and all that is asked of it."""

    def __init__(self, planned: Planned, asking: Asking, log: Writer, rng: Random, wake: asyncio.Condition) -> None:
        self._planned, self._asking, self._log, self._rng, self._wake = planned, asking, log, rng, wake
        self._run = f"{rng.getrandbits(48):x}"
        self._calls = self._life = self._version = 0
        self._seconds: tuple[int, ...] = planned.seconds
        self._is_there = self._is_paused = False
        self._repeats: set[asyncio.Task[None]] = set()
        self.is_over = False

    async def live(self) -> None:
        while not self.is_over:
            if not self._is_there:
                await self._create()
            await self._wait()
            if not self.is_over and not self._planned.is_steady:
                await self._change()
        if self._is_there and not self._planned.is_steady:
            await self._pause()
        if self._repeats:
            await asyncio.wait(self._repeats)

    async def _wait(self) -> None:
        """Until its turn, a burst or the end."""
        async with self._wake:
            try:
                await asyncio.wait_for(self._wake.wait(), self._rng.uniform(*_BETWEEN_S))
            except TimeoutError:
                return

    async def _change(self) -> None:
        chances = _WHILE_PAUSED if self._is_paused else _WHILE_ACTIVE
        match self._rng.choices(list(chances), list(chances.values()))[0]:
            case "update":
                await self._update(self._seconds)
            case "respec":
                await self._update(some_seconds(self._rng))
            case "pause":
                await self._pause()
            case "resume":
                await self._resume(catch_up=False)
            case "catch up":
                await self._resume(catch_up=True)
            case "trigger":
                await self._trigger()
            case _:
                await self._delete()

    # -- calls ----------------------------------------------------------------------------------------------------

    async def _create(self) -> None:
        self._life, self._version, self._seconds = self._life + 1, 0, self._planned.seconds
        request = self._planned.message(self._payload(), self._seconds)
        self._is_there, self._is_paused = True, False
        answer = await self._ask("CreateSchedule", request)
        self._note("create", answer, seconds=self._seconds)

    async def _update(self, seconds: tuple[int, ...]) -> None:
        paths = ["payload"] if seconds == self._seconds else ["payload", "spec"]
        self._version, self._seconds = self._version + 1, seconds
        wanted = self._planned.message(self._payload(), seconds)
        request = pb.UpdateScheduleRequest(payload=wanted.payload, spec=wanted.spec)
        request.update_mask.paths.extend(paths)
        self._note("update", await self._ask("UpdateSchedule", request), seconds=seconds)

    async def _pause(self) -> None:
        self._is_paused = True
        self._note("pause", await self._ask("PauseSchedule", pb.PauseScheduleRequest()))

    async def _resume(self, *, catch_up: bool) -> None:
        mode = pb.RESUME_MODE_CATCH_UP if catch_up else pb.RESUME_MODE_SKIP_MISSED
        self._is_paused = False
        self._note("resume", await self._ask("ResumeSchedule", pb.ResumeScheduleRequest(mode=mode)), catch_up=catch_up)

    async def _trigger(self) -> None:
        self._note("trigger", await self._ask("TriggerSchedule", pb.TriggerScheduleRequest()))

    async def _delete(self) -> None:
        self._is_there = False
        self._note("delete", await self._ask("DeleteSchedule", pb.DeleteScheduleRequest()))

    async def _ask(self, method: str, request: Any) -> Answer:  # noqa: ANN401 - each method has its own
        self._calls += 1
        request.schedule_id, request.request_id = self._planned.schedule_id, f"{self._run}-{self._calls}"
        answer = await self._asking(method, request)
        # What was refused may be granted when it is asked for again.
        if answer.outcome == OK and self._rng.random() < _REPEATED_SHARE:
            # As it is now: which life it was of is written down with it.
            said = Call(f"repeat of {method}", self._planned.schedule_id, self._life, 0.0, 0.0)
            task = asyncio.create_task(self._ask_again(method, request, answer, said))
            self._repeats.add(task)
            task.add_done_callback(self._repeats.discard)
        return answer

    async def _ask_again(self, method: str, request: Any, first: Answer, said: Call) -> None:  # noqa: ANN401 - as above
        await asyncio.sleep(self._rng.uniform(0, _REPEAT_WITHIN_S))
        again = await self._asking(method, request)
        if (again.outcome, again.reply) != (OK, first.reply):
            wrong = f"{again.outcome} {again.reply}, not {first.reply}".replace("\n", " ")
            self._log.write(
                Call(said.verb, said.schedule_id, said.life, again.asked_ms, again.answered_ms, said_again=wrong)
            )

    def _payload(self) -> str:
        least_ms, most_ms = self._planned.hold_ms
        return f"{self._life} {self._version} {least_ms} {most_ms}"

    def _note(self, verb: str, answer: Answer, **more: Any) -> None:  # noqa: ANN401 - of a Call
        said = {**_said(answer.reply), **more}
        where = self._planned.schedule_id, self._life, answer.asked_ms, answer.answered_ms
        self._log.write(Call(verb, *where, answer.outcome, answer.tries, self._version, **said))


def _said(reply: Any) -> dict[str, Any]:  # noqa: ANN401 - each method has its own
    """From when on it counts, and what a schedule tells of its instants."""
    if isinstance(reply, pb.TriggerScheduleResponse):
        return {"task_id": reply.task_id}
    if isinstance(reply, pb.DeleteScheduleResponse):
        return {"since_ms": _ms(reply.effective_time), "taken": tuple(map(_ms, reply.taken))}
    if reply is None or isinstance(reply, pb.CreateScheduleResponse):
        return {}
    change: pb.ScheduleChange = reply.change
    shown = change.schedule
    counts = Counts(shown.created, shown.missed, shown.skipped, shown.waiting)
    return {"since_ms": _ms(change.effective_time), "taken": tuple(map(_ms, change.taken)), "counts": counts}


def _ms(at: Timestamp) -> int:
    return at.ToMilliseconds()


async def _main(given: argparse.Namespace) -> None:
    loop, orders = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    rng, wake = Random(given.seed), asyncio.Condition()
    asking, log = Asking(given.addresses.split(","), given.asked, rng), Writer(given.log)
    schedules = [Schedule(each, asking, log, rng, wake) for each in plan(rng, given.of_each)]
    print("ready", flush=True)
    living = asyncio.gather(*(each.live() for each in schedules))
    obeying = asyncio.create_task(_obey(orders, wake, schedules))
    await living
    await obeying
    await asking.close()


async def _obey(orders: asyncio.StreamReader, wake: asyncio.Condition, schedules: Sequence[Schedule]) -> None:
    is_over = False
    while not is_over:
        # Also where nobody is there any more who could say so.
        is_over = (await orders.readline()).decode().strip() != "burst"
        for each in schedules:
            each.is_over = is_over
        async with wake:
            wake.notify_all()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("addresses")
    parser.add_argument("log", type=Path)
    parser.add_argument("asked", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("of_each", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(_main(parsed()))
