"""Durable insert through timerd, beside what the driver by itself reaches on the same node in the same run.

The driver writes the same rows with the same statement, one by one or a hundred in an unlogged batch, at the best of
three numbers of requests in flight; it reads nothing afterwards, and nobody calls it. timerd is called over gRPC by a
process of its own, at the best of three numbers of callers, or of messages of a thousand. Client, instance and node
share this machine: the ratio says what all of timerd costs beside a node, not how much a node of its own could take in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.bench import HOUR_MS, MINUTE_MS, Span, now_ms
from benchmarks.figures import Figure, at_least
from benchmarks.store_bulk import message
from benchmarks.store_cassandra import BATCH, IN_FLIGHT, Bare, driven, rows_of
from timerd.adapters.cassandra.driver import Driver
from timerd.adapters.cassandra.schema import check_schema

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.cluster.stage import Stage

TITLE = "Durable insert through timerd on one Cassandra node, and by the bare driver"
SINGLES, BULK = 8_000, 40_000
SECONDS = 4.0
CALLERS = (16, 64, 256)
START_IN_MS = 300
QUEUE = "insert"
FLOOR = at_least(0.8)


async def run(bench: Bench, stage: Stage) -> list[Figure]:
    bare_singles, bare_bulk = await _bare(bench, stage)
    singles, bulk = await _timerd(bench, stage)
    return [
        Figure("bare driver, one by one", bare_singles, "tasks/s"),
        Figure("timerd, one by one", singles, "tasks/s"),
        Figure("timerd : bare driver, one by one", singles / bare_singles, "", FLOOR, headline=True),
        Figure("bare driver, batches of 100", bare_bulk, "tasks/s"),
        Figure("timerd, messages of 1,000", bulk, "tasks/s"),
        Figure("timerd : bare driver, in batches", bulk / bare_bulk, "", FLOOR, headline=True),
    ]


async def _bare(bench: Bench, stage: Stage) -> tuple[float, float]:
    """The best of one by one, and of batches."""
    async with stage.keyspace() as settings:
        driver = await asyncio.to_thread(Driver.connect, replace(settings, most_in_flight=max(IN_FLIGHT)))
        try:
            check_schema(driver)
            driver.attach(asyncio.get_running_loop())
            bare, chance, numbers = Bare(driver), np.random.default_rng(bench.seed), count(1)
            singles, bulk = bench.count(SINGLES), bench.count(BULK, 2_000)
            best_single = best_bulk = 0.0
            for in_flight in IN_FLIGHT:
                one = [message(chance, n, 1, 5 * MINUTE_MS) for n in range(singles)]
                seconds = await driven(list(rows_of(one, numbers)), bare.one, in_flight)
                best_single = max(best_single, singles / seconds)
                many = [message(chance, n, 1_000, 5 * MINUTE_MS) for n in range(bulk // 1_000)]
                parts = _batches(list(rows_of(many, numbers)))
                seconds = await driven(parts, bare.batch, max(1, in_flight // 4))
                best_bulk = max(best_bulk, sum(map(len, parts)) / seconds)
            return best_single, best_bulk
        finally:
            await driver.close()


def _batches(rows: Sequence[tuple[object, ...]]) -> list[Sequence[tuple[object, ...]]]:
    """Each of one partition."""
    parts = [rows[at : at + BATCH] for at in range(0, len(rows), BATCH)]
    return [part for part in parts if len({row[:3] for row in part}) == 1]


async def _timerd(bench: Bench, stage: Stage) -> tuple[float, float]:
    async with stage.keyspace() as settings:
        server = await stage.instance(bench, settings, "one")
        loader = await bench.loader(server)
        span = Span(now_ms() + HOUR_MS, 5 * MINUTE_MS)
        best_single = best_bulk = 0.0
        stored = 0
        for callers in CALLERS:
            start_ms = now_ms() + START_IN_MS
            answer = await loader.single(QUEUE, callers, start_ms, bench.seconds(SECONDS), span)
            best_single = max(best_single, answer["stored"] / (answer["ended_ms"] - start_ms) * 1e3)
            stored += answer["stored"]
            answer = await loader.schedule(QUEUE, bench.count(BULK, 2_000), span, first=stored)
            best_bulk = max(best_bulk, answer["stored"] / answer["seconds"])
            stored += answer["stored"]
        await loader.verify_stored(QUEUE, stored, span)
        await bench.stack.aclose()
        return best_single, best_bulk
