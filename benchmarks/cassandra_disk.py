"""How many bytes a task takes on the disk of a Cassandra node, of each replica.

    python -m benchmarks.cassandra_disk [--rows 100000] [--seed 1]

A node is started from jars, takes the rows in, writes its memory to disk as it does at a stop, and the files of the
table of tasks are measured. Payloads are 200 random bytes, which no compression makes smaller.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from pathlib import Path

import numpy as np

from benchmarks.store_bulk import MINUTE_MS, message
from tests.engines.cassandra_node import DATACENTER, CassandraNode
from tests.engines.finding import Found
from tests.engines.keyspace import settings_for
from timerd.adapters.cassandra.schema import apply_schema
from timerd.adapters.cassandra.store import CassandraStore

# Another node may have the first one.
ADDRESS = "127.0.0.9"
KEYSPACE = "timerd_disk"
AT_ONCE = 16
STOP_S = 120


def measure(rows: int, message_rows: int, seed: int) -> float:
    """Bytes of a task."""
    node = CassandraNode(ADDRESS)
    try:
        node.start()
        asyncio.run(fill(Found(ADDRESS, node.port, DATACENTER, "jars"), rows, message_rows, seed))
        return disk_bytes(node) / rows
    finally:
        node.stop()


async def fill(found: Found, rows: int, message_rows: int, seed: int) -> None:
    settings = settings_for(found, keyspace=KEYSPACE)
    await asyncio.to_thread(apply_schema, settings)
    store = await CassandraStore.open(settings, lambda: time.time_ns() // 1_000_000)
    chance = np.random.default_rng(seed)
    messages = iter([message(chance, n, message_rows, 5 * MINUTE_MS) for n in range(rows // message_rows)])

    async def writer() -> None:
        for each in messages:
            await store.append([each])

    await asyncio.gather(*(writer() for _ in range(AT_ONCE * (64 if message_rows == 1 else 1))))
    await store.close()


def disk_bytes(node: CassandraNode) -> int:
    """After a stop that writes all to disk, without the log of writes."""
    process = node._process
    assert process is not None
    process.send_signal(signal.SIGTERM)
    process.wait(STOP_S)
    files = Path(node._home, "data", KEYSPACE).glob("tasks-*/*.db")
    return sum(file.stat().st_size for file in files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for message_rows in (1_000, 1):
        size_bytes = measure(given.rows, message_rows, given.seed)
        print(f"messages of {message_rows:,} tasks of 200 bytes: {size_bytes:.0f} bytes a task", flush=True)


if __name__ == "__main__":
    main()
