"""The workers that are connected to this instance, for those who watch: who, since when, what for, and what they did.

It is told of each stream and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class ConnectedWorker:
    """One Work stream. `queues`: each that it has given credit for; `settled`: tokens that it has sent back, repeats
    included. `last_settle_ms` is 0 before the first one."""

    name: str
    namespace: str
    connected_ms: int
    queues: dict[str, None] = field(default_factory=dict)
    settled: int = 0
    last_settle_ms: int = 0


class ConnectedWorkers:
    """By the number of the stream."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._workers: dict[int, ConnectedWorker] = {}

    @property
    def streams(self) -> Mapping[int, ConnectedWorker]:
        return self._workers

    def join(self, number: int, name: str, namespace: str) -> None:
        self._workers[number] = ConnectedWorker(name, namespace, self._now_ms())

    def credit(self, number: int, queue: str) -> None:
        if (worker := self._workers.get(number)) is not None:
            worker.queues[queue] = None

    def settle(self, number: int, tokens: int) -> None:
        if tokens and (worker := self._workers.get(number)) is not None:
            worker.settled += tokens
            worker.last_settle_ms = self._now_ms()

    def leave(self, number: int) -> None:
        self._workers.pop(number, None)
