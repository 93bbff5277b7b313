"""What the metrics cost: counting one delivery and its ack, one call of the store, and a scrape where a hundred queues
are told apart.

Counting is done by the server in any case; the watch on the store and scrapes are only there where `http.listen` is
set. Of a scrape the copy is made in the event loop, between two rounds of firing, and the text in a thread. All figures
are processor time.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import numpy as np

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from timerd.core.dispatch.queue_stats import MOST_QUEUES, QueueStats
from timerd.core.taken import QueueKey
from timerd.observability.collector import exposition
from timerd.observability.figures import Observed
from timerd.observability.store_timing import StoreTimes
from timerd.testing import Server

TITLE = "Cost of the metrics"
ROUNDS = 100_000
BATCH = 1_000
SCRAPES = 50


async def run(bench: Bench) -> list[Figure]:
    rounds = bench.count(ROUNDS)
    return [*_counting(rounds), await _storing(rounds), *await _scraping(bench.count(SCRAPES, least=3))]


def _ns_each(rounds: int, work: Callable[[], None]) -> float:
    began = time.process_time_ns()
    for _ in range(rounds):
        work()
    return (time.process_time_ns() - began) / rounds


def _counting(rounds: int) -> list[Figure]:
    stats, one, many = QueueStats(), np.ones(1, np.int64), np.arange(BATCH)
    none, retries = np.zeros(BATCH, np.int64), np.ones(1, np.int64)
    single = _ns_each(rounds, lambda: stats.sent(one, none[:1]))
    batch = _ns_each(max(1, rounds // BATCH), lambda: stats.sent(many, none))
    return [
        Figure("a delivery that is sent alone", single, "ns/task"),
        Figure("a retry that is sent alone", _ns_each(rounds, lambda: stats.sent(one, retries)), "ns/task"),
        Figure("deliveries that are sent by the thousand", batch / BATCH, "ns/task"),
        Figure("an ack that comes alone", _ns_each(rounds, lambda: stats.settled("acked", 5.0)), "ns/task"),
    ]


async def _storing(rounds: int) -> Figure:
    async def call() -> None:
        """Takes no time of its own."""

    times = StoreTimes()
    watched = await _awaited_ns(rounds, times.timed("append", call))
    return Figure("the watch on a call of the store", watched - await _awaited_ns(rounds, call), "ns/call")


async def _awaited_ns(rounds: int, call: Callable[[], Awaitable[object]]) -> float:
    began = time.process_time_ns()
    for _ in range(rounds):
        await call()
    return (time.process_time_ns() - began) / rounds


async def _scraping(scrapes: int) -> list[Figure]:
    async with Server() as server:
        node = server.node
        assert node.probe is not None
        observed = Observed(
            node.engine, node.scheduler, node.delivery, node.server.api, node.time, StoreTimes(), node.probe
        )
        for number in range(MOST_QUEUES):
            stats = node.delivery.queue_stats.of(QueueKey("default", f"queue-{number}"))
            stats.sent(np.arange(BATCH), np.arange(BATCH) % 3)
            stats.settled("acked", 5.0, BATCH)
        copying, writing, text_bytes = 0, 0, 0
        for _ in range(scrapes):
            began = time.process_time_ns()
            figures = await observed.figures()
            copied = time.process_time_ns()
            text_bytes = len(exposition(figures))
            copying, writing = copying + copied - began, writing + time.process_time_ns() - copied
    return [
        Figure("a scrape, in the event loop", copying / scrapes / 1e6, "ms"),
        Figure("a scrape, in a thread", writing / scrapes / 1e6, "ms"),
        Figure("a scrape, its text", text_bytes / 1024, "KiB"),
    ]
