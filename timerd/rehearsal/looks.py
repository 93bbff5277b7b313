"""The loop of `central`: a task that looks for members that are due, queues them, and schedules the next look."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from timerd.client import Client
from timerd.rehearsal.crew import MEMBERS, ONCE, EnactedJob
from timerd.simulate import JobOutcome, Settings
from timerd.simulate.durations import Floats
from timerd.simulate.jobs import Ints
from timerd.simulate.population import Population
from timerd.testing import Server
from timerd.worker import Delivery

LOOKS = "looks"


class Looks:
    """A member that is queued is not due until its job has ended; one whose job failed is due at once."""

    def __init__(
        self, server: Server, client: Client, settings: Settings, members: Population, begin: datetime
    ) -> None:
        self._server, self._client, self._settings, self._begin = server, client, settings, begin
        self._due_s = members.moment_ms / 1_000
        self._succeeded_s = self._due_s - settings.cycle_s

    async def start(self) -> None:
        worker = self._server.worker()
        worker.on(LOOKS, concurrency=1)(self._look)
        await worker.start()
        await self._client.schedule(LOOKS, "", at=self._begin)

    async def ended(self, job: EnactedJob) -> None:
        """A failure leaves it at the head."""
        if job.outcome is JobOutcome.DONE:
            self._succeeded_s[job.member] = job.ended_s
        self._due_s[job.member] = job.ended_s + (self._settings.cycle_s if job.outcome is JobOutcome.DONE else 0.0)

    async def _look(self, delivery: Delivery) -> None:
        now_s = (self._server.now - self._begin).total_seconds()
        due = np.flatnonzero(self._due_s <= now_s)
        taken = longest_ago(due, self._succeeded_s, self._settings.batch_size)
        if len(taken):
            self._due_s[taken] = np.inf
            await self._queue(taken.tolist())
        next_look = self._server.now + timedelta(milliseconds=round(self._settings.poll_s * 1_000))
        await self._client.schedule(LOOKS, "", at=next_look)

    async def _queue(self, taken: list[int]) -> None:
        now_ms = round(self._server.now.timestamp() * 1_000)
        payloads = [str(member) for member in taken]
        await self._client.schedule_columns(MEMBERS, payloads, [now_ms] * len(taken), options=ONCE)


def longest_ago(due: Ints, succeeded_s: Floats, count: int) -> Ints:
    """In order, and by their number where they are equal."""
    if len(due) > count:
        last = np.partition(succeeded_s[due], count - 1)[count - 1]
        due = due[succeeded_s[due] <= last]
    return due[np.argsort(succeeded_s[due], kind="stable")][:count]
