"""Instances come, go and die while callers cancel and move through any of them: what was said holds."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from timerd.client import CancelOutcome, Client, TimerdError
from timerd.testing import Cluster
from timerd.worker import Delivery

TASKS = 300
ROUNDS = 14
# What is due so soon is cancelled before the holder's next sweep would meet the mark.
SOON = timedelta(milliseconds=600)


@dataclass
class Story:
    """Of one seed. Instance a stays; its worker takes everything."""

    seed: int
    started: list[bytes] = field(default_factory=list)
    # Payload -> how many deliveries had started when CANCELLED was said.
    cancelled: dict[bytes, int] = field(default_factory=dict)
    # Whose cancel had no sure answer: it may end the task all the same.
    unsure: set[bytes] = field(default_factory=set)
    said: list[CancelOutcome] = field(default_factory=list)
    kills: int = 0

    async def run(self) -> None:
        self.chance = random.Random(self.seed)
        async with Cluster("a", "b", "c") as self.cluster:
            worker = self.cluster.worker("a")

            @worker.on("q", concurrency=16)
            async def take(delivery: Delivery) -> None:
                self.started.append(delivery.payload)

            await worker.start()
            client = self.cluster.client("a")
            due = [(str(n).encode(), 5 + 60 * self.chance.random()) for n in range(TASKS)]
            tasks = [await client.schedule("q", payload, delay=delay) for payload, delay in due]
            self.tasks = {payload: task.id for (payload, _), task in zip(due, tasks, strict=True)}
            self.due = {payload: task.fire_time for (payload, _), task in zip(due, tasks, strict=True)}
            for _ in range(ROUNDS):
                await asyncio.gather(self._calls(), self.cluster.advance(seconds=self.chance.uniform(1, 6)))
                await self._weather()
            await self.cluster.advance(seconds=120)

    async def _calls(self) -> None:
        """Through any instance, while time passes."""
        for name in self.chance.sample(sorted(self.cluster.instances), k=1):
            client = self.cluster.client(name)
            now = self.cluster.now
            soon = [payload for payload, at in self.due.items() if now < at < now + SOON][:3]
            for payload in [*soon, *self.chance.sample(sorted(self.tasks), k=2)]:
                await self._cancel(client, payload, self.tasks[payload])

    async def _cancel(self, client: Client, payload: bytes, task: str) -> None:
        before = self.started.count(payload)
        try:
            outcome = await client.cancel(task, request_id=payload.decode())
        except TimerdError:
            self.unsure.add(payload)
            return
        self.said.append(outcome)
        if outcome is CancelOutcome.CANCELLED:
            self.cancelled.setdefault(payload, self.started.count(payload))
            assert self.cancelled[payload] == before or self.kills
        elif outcome is not CancelOutcome.ALREADY_FIRED:
            self.unsure.add(payload)

    async def _weather(self) -> None:
        names = sorted(self.cluster.instances.keys() - {"a"})
        what = self.chance.choice(["kill", "stop", "add", "add", "fair", "fair"])
        if what == "add" and len(names) < 2:
            await self.cluster.add("b" if "b" not in names else "c")
        elif what in ("kill", "stop") and names:
            name = self.chance.choice(names)
            self.kills += what == "kill"
            await (self.cluster.kill(name) if what == "kill" else self.cluster.stop(name))


@pytest.mark.parametrize("seed", [2, 3])
async def test_whatever_happens_to_instances_a_cancel_told_the_truth(seed: int) -> None:
    story = Story(seed)
    await story.run()
    late = {payload for payload, count in story.cancelled.items() if story.started.count(payload) > count}
    assert not late
    lost = story.tasks.keys() - set(story.started) - story.cancelled.keys() - story.unsure
    assert not lost
    assert CancelOutcome.CANCELLED in story.said
    twice = [payload for payload in set(story.started) if story.started.count(payload) > 1]
    assert not twice or story.kills
