"""Lateness at 2,000 tasks a second for ten seconds: an instance on Cassandra, and one on SQLite beside the same running
node, one after the other in the same run; the handler is called for each task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure, at_most
from benchmarks.measures.punctuality import RATE_PER_S, steady

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.cluster.stage import Stage
    from benchmarks.processes import Server

TITLE = "Lateness on Cassandra, and on SQLite beside the same node"
SECONDS = 10
QUEUE = "steady"
# All must be stored before the first is due, on Cassandra too.
SLACK = 8


async def run(bench: Bench, stage: Stage) -> list[Figure]:
    sqlite = await _one(bench, await bench.server())
    async with stage.keyspace() as settings:
        cassandra = await _one(bench, await stage.instance(bench, settings, "one"))
    arms = {"SQLite": sqlite, "Cassandra": cassandra}
    return [
        *(figure for name, got in arms.items() for figure in _figures(bench, name, got)),
        Figure("Cassandra : SQLite, p99", cassandra["p99_ms"] / sqlite["p99_ms"], "", at_most(1.5), headline=True),
    ]


def _figures(bench: Bench, name: str, got: dict[str, Any]) -> list[Figure]:
    return [
        Figure(f"{name}, p50", got["p50_ms"], "ms"),
        Figure(f"{name}, p99", got["p99_ms"], "ms"),
        Figure(f"{name}, max", got["max_ms"], "ms"),
        Figure(f"{name}, early", got["early"], "tasks", at_most(0)),
        Figure(f"{name}, twice", got["received"] - bench.count(RATE_PER_S * SECONDS), "tasks", at_most(0)),
        Figure(f"{name}, instance's CPU from schedule to delivery", got["cpu_s"] / got["received"] * 1e6, "us/task"),
    ]


async def _one(bench: Bench, server: Server) -> dict[str, Any]:
    loader = await bench.loader(server)
    receiver = await bench.receiver(server, loader, QUEUE, batches=False, compact=True)
    patient = replace(bench, slack=max(bench.slack, SLACK))
    cpu_s = server.cpu_s()
    got = await steady(patient, loader, receiver, QUEUE, SECONDS)
    cpu_s = server.cpu_s() - cpu_s
    await receiver.stop()
    await bench.stack.aclose()
    return {**got, "cpu_s": cpu_s}
