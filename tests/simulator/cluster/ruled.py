"""Histories of a cluster in which a queue has a limit, which holds for all instances together.

The rules stand in the store from the beginning. Each instance reads them, borrows permits and draws tokens as in
production, by calls that take their time, get lost and meet instances that stand still.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, NamedTuple
from unittest.mock import patch

import timerd.services.regulation.regulating as regulating_module
from tests.property.world import done
from tests.simulator.cluster.instance import Instance
from tests.simulator.cluster.story import ClusterStory
from tests.simulator.events import Replied
from timerd.core.dispatch import Assignment
from timerd.core.taken import QueueKey
from timerd.model.regulations import QueueLimit, Regulation, regulated_entry, regulation_key
from timerd.model.storage import Cas, Entry
from timerd.services.node import Node

QUEUE = QueueKey("default", "a")
SHARDS, CALLS_AT_ONCE = 4, 2
LOOK_S, READ_EVERY_MS = regulating_module.LOOK_S, regulating_module.READ_EVERY_MS


class Start(NamedTuple):
    at_ms: float
    instance: str
    tasks: int
    limit_key: str = ""
    queue: str = QUEUE.queue


class RuledInstance(Instance):
    """`starts`: what was sent of the queue with the limit, in the order of the history."""

    starts: list[Start]

    def _regulate(self, node: Node) -> None:
        """It reads the rules before it sends anything, and every ten seconds."""

    def _starts(self, assignment: Assignment) -> None:
        template = assignment.taken.rows.template_of(0)
        if (template.namespace, template.queue) == QUEUE:
            start = Start(self._loop.now_ms, self.name, len(assignment.taken), template.limit_key)
            self.starts.append(start)


class RuledStory(ClusterStory):
    instance_type: ClassVar[type[Instance]] = RuledInstance

    def __post_init__(self) -> None:
        super().__post_init__()
        self.starts: list[Start] = []
        done(self.disk.write_entries([Entry(regulated_entry(*QUEUE), b"1")]))
        done(self.disk.cas([Cas(regulation_key(*QUEUE), None, self.rules().to_bytes())]))

    def record_settings(self, shards: int) -> None:
        """Of each bucket several instances hold a part."""
        super().record_settings(SHARDS)

    def _schedule_some(self) -> None:
        """More than may be sent at once."""
        for _ in range(CALLS_AT_ONCE):
            super()._schedule_some()

    async def get(self, name: str) -> Replied | None:
        """There are many tasks, and time passes between two of these calls."""
        replied = await super().get(name)
        await asyncio.sleep(0.001)
        return replied

    def rules(self) -> Regulation:
        """Of the queue."""
        return Regulation(1, limit=self.limit())

    def limit(self) -> QueueLimit:
        """Of the queue, or of each of its limit keys, by the seed."""
        raise NotImplementedError

    def start_instance(self, name: str) -> None:
        super().start_instance(name)
        if isinstance(begun := self.instances.get(name), RuledInstance):
            begun.starts = self.starts

    async def tell(self) -> None:
        with (
            patch.object(regulating_module, "LOOK_S", LOOK_S),
            patch.object(regulating_module, "READ_EVERY_MS", READ_EVERY_MS),
        ):
            await super().tell()

    def _slow_down(self, every_s: int) -> None:
        super()._slow_down(every_s)
        regulating_module.LOOK_S, regulating_module.READ_EVERY_MS = LOOK_S * every_s, READ_EVERY_MS * every_s
