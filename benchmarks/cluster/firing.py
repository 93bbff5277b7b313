"""Fire: 50,000 tasks due at one instant, stored on Cassandra before, to one worker process of one instance.

The rate is all tasks over the time from that instant until the user's handler was entered for the last of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.bench import SECOND_MS
from benchmarks.figures import Figure, at_most
from benchmarks.measures.fire import burst

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.cluster.stage import Stage

TITLE = "Fires of one instance on Cassandra"
TASKS = 50_000
# Slower than this, storing is a finding of its own.
STORED_PER_S = 5_000


async def run(bench: Bench, stage: Stage) -> list[Figure]:
    async with stage.keyspace() as settings:
        server = await stage.instance(bench, settings, "one")
        count = bench.count(TASKS)
        lead_ms = bench.slack * (2 * SECOND_MS + count * SECOND_MS // STORED_PER_S)
        got, cpu_s = await burst(bench, server, count, lead_ms, batches=True)
    return [
        Figure("fires of one instance", count / got["max_ms"] * 1e3, "tasks/s", headline=True),
        Figure("first delivery", got["first_ms"], "ms"),
        Figure("early", got["early"], "tasks", at_most(0)),
        Figure("twice", got["received"] - count, "tasks", at_most(0)),
        Figure("instance's CPU", cpu_s / count * 1e6, "us/task"),
    ]
