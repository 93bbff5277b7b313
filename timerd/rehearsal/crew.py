"""The workers of a rehearsal: a worker of the SDK whose handler takes as long as the job would, by the turned clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from timerd.client import RetryPolicy, TaskOptions
from timerd.simulate import Durations, JobOutcome, Settings, SimulatedJobs, durations
from timerd.simulate.population import NO_SOURCE, Population
from timerd.testing import Server
from timerd.worker import Delivery

MEMBERS = "members"
# A job that fails is not tried again by the engine: the strategy says when its member comes again.
ONCE = TaskOptions(retry=RetryPolicy(max_attempts=1, attempt_timeout=timedelta(days=7)))
_DRAWN_AT_ONCE = 1_000


class EnactedJob(NamedTuple):
    """A job as it was worked. Seconds from the beginning; infinite: it did not start, or did not end."""

    member: int
    queued_s: float
    started_s: float
    ended_s: float
    outcome: JobOutcome


OnEnded = Callable[[EnactedJob], Awaitable[None]]


async def nothing_follows(job: EnactedJob) -> None:
    """No job follows from another."""


class Crew:
    """The k-th job that starts takes the k-th time that is drawn."""

    def __init__(self, server: Server, settings: Settings, members: Population, begin: datetime) -> None:
        self._server, self._settings, self._members, self._begin = server, settings, members, begin
        self._times = _drawn(durations(settings.mean_s, settings.p90_s), settings.seed)
        self.jobs: list[EnactedJob] = []

    @property
    def now_s(self) -> float:
        return (self._server.now - self._begin).total_seconds()

    async def start(self, ended: OnEnded) -> None:
        """`ended` is told of each job before it is acknowledged."""
        worker = self._server.worker()

        @worker.on(MEMBERS, concurrency=self._settings.workers)
        async def work(delivery: Delivery) -> None:
            await ended(await self._work(delivery))

        await worker.start()

    async def _work(self, delivery: Delivery) -> EnactedJob:
        if (resumed_s := self._resumed(self.now_s)) > self.now_s:
            await self._server.sleep(seconds=resumed_s - self.now_s)
        member, started_s = int(delivery.payload), self.now_s
        takes_s, outcome = self._course(member, started_s)
        queued_s = (delivery.fire_time - self._begin).total_seconds()
        place = len(self.jobs)
        self.jobs.append(EnactedJob(member, queued_s, started_s, np.inf, JobOutcome.RUNNING))
        await self._server.sleep(seconds=takes_s)
        self.jobs[place] = EnactedJob(member, queued_s, started_s, self.now_s, outcome)
        return self.jobs[place]

    def _course(self, member: int, started_s: float) -> tuple[float, JobOutcome]:
        """How long it takes, and what becomes of it."""
        takes_s = float(np.rint(next(self._times) * self._members.cost[member] * 1_000) / 1_000)
        source = int(self._members.source[member])
        name = self._settings.sources[source].name if source != NO_SOURCE else ""
        for each in self._settings.outages:
            if each.source == name and each.from_s <= started_s < each.to_s:
                return each.attempt_s or takes_s, JobOutcome.FAILED
        return takes_s, JobOutcome.DONE

    def _resumed(self, at_s: float) -> float:
        for each in sorted(self._settings.stops, key=lambda stop: stop.from_s):
            if each.from_s <= at_s < each.to_s:
                at_s = each.to_s
        return at_s


def _drawn(each: Durations, seed: int) -> Iterator[float]:
    chance = np.random.default_rng([seed, 1])
    while True:
        yield from each.draw(chance, _DRAWN_AT_ONCE).tolist()


def columns_of(jobs: Iterable[EnactedJob]) -> SimulatedJobs:
    """In the order in which they came to the queue."""
    ordered = sorted(jobs, key=lambda job: (job.queued_s, job.started_s))
    member, queued_s, started_s, ended_s, outcome = zip(*ordered, strict=True) if ordered else ((),) * 5
    return SimulatedJobs(
        np.array(member, np.int64),
        np.array(queued_s, np.float64),
        np.array(started_s, np.float64),
        np.array(ended_s, np.float64),
        np.array([int(each) for each in outcome], np.int8),
    )
