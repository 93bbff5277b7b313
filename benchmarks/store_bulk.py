"""How fast the SQLite store takes rows in and gives them back, through its async port, without gRPC.

    python -m benchmarks.store_bulk [--rows 400000] [--seed 1] [--synchronous full]

Rates are rows that were durable when the call returned. Making the messages is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import platform
import random
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from timerd.adapters.sqlite.store import SqliteStore
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template
from timerd.ports import Append

PAYLOAD_BYTES = 200
MINUTE_MS = 60_000
DAY_MS = 86_400_000
NOW_MS = time.time_ns() // 1_000_000 // BUCKET_MS * BUCKET_MS
TEMPLATE = Template("default", "mails")


def message(chance: np.random.Generator, number: int, rows: int, span_ms: int) -> Append:
    """Rows due anywhere in `span_ms` from now, cut by partition as the service does it."""
    prefix = chance.bytes(12)
    columns = np.zeros(rows, ROW)
    columns["position_ms"] = columns["fire_at_ms"] = NOW_MS + chance.integers(0, span_ms, rows)
    columns["index"] = np.arange(rows)
    columns["length"] = PAYLOAD_BYTES
    columns["offset"] = np.arange(rows) * PAYLOAD_BYTES
    columns = columns[np.argsort(columns["position_ms"], kind="stable")]
    group = RowGroup(columns, np.frombuffer(prefix, PREFIX), [TEMPLATE], chance.bytes(rows * PAYLOAD_BYTES), [])
    buckets = columns["position_ms"] // BUCKET_MS
    starts = np.flatnonzero(np.diff(buckets, prepend=-1)).tolist()
    parts = [
        (Partition(TIME_SCOPE, int(buckets[a]) * BUCKET_MS, 0), group.select(slice(a, b)))
        for a, b in zip(starts, [*starts[1:], rows], strict=True)
    ]
    return Append(tuple(parts), prefix, b"%060d" % number)


async def drive(store: SqliteStore, messages: Sequence[Append], callers: int) -> tuple[float, list[float]]:
    """Seconds for all, and for each call."""
    waits: list[float] = []
    waiting = iter(messages)

    async def caller() -> None:
        for one in waiting:
            begun = time.perf_counter()
            await store.append([one])
            waits.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return time.perf_counter() - begun, sorted(waits)


async def append_case(name: str, store: SqliteStore, messages: list[Append], callers: int) -> None:
    rows = sum(len(group) for one in messages for _, group in one.groups)
    gc.collect()
    seconds, waits = await drive(store, messages, callers)
    p50, p99 = (waits[int(len(waits) * share)] * 1e3 for share in (0.5, 0.99))
    await store.close()
    print(f"{name:<44} {rows / seconds:>10,.0f} rows/s   p50 {p50:7.2f} ms   p99 {p99:7.2f} ms", end="   ")


async def run(arguments: argparse.Namespace) -> None:
    chance = np.random.default_rng(arguments.seed)
    total = arguments.rows
    spans = {"5 min": 5 * MINUTE_MS, "1 h": 60 * MINUTE_MS, "1 day": DAY_MS, "30 days": 30 * DAY_MS}
    for span, span_ms in spans.items():
        messages = [message(chance, n, 1_000, span_ms) for n in range(total // 1_000)]
        await measured(arguments, f"messages of 1,000 over {span}, 8 callers", messages, 8)
    for span, span_ms in spans.items():
        messages = [message(chance, n, 1, span_ms) for n in range(min(total, 100_000))]
        await measured(arguments, f"messages of 1 over {span}, 256 callers", messages, 256)
    await scans(arguments, chance)


async def measured(arguments: argparse.Namespace, name: str, messages: list[Append], callers: int) -> None:
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        path = Path(folder) / "data"
        await append_case(name, SqliteStore(path, lambda: NOW_MS, arguments.synchronous), messages, callers)
        rows = sum(len(group) for one in messages for _, group in one.groups)
        print(f"{sum(f.stat().st_size for f in path.iterdir()) / rows:6.0f} B/task on disk")


async def scans(arguments: argparse.Namespace, chance: np.random.Generator) -> None:
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        store = SqliteStore(Path(folder) / "data", lambda: NOW_MS, "normal")
        messages = [message(chance, n, 1_000, BUCKET_MS) for n in range(1_000)]
        await drive(store, messages, 8)
        here = messages[0].groups[0][0]
        for keys_only in (False, True):
            begun = time.perf_counter()
            cursor, rows, done = 0, 0, False
            while not done:
                page = await store.scan(here, 0, 1 << 60, cursor, 8 << 20, keys_only=keys_only)
                cursor, done = page.cursor, page.done
                rows += sum(map(len, page.groups))
            seconds = time.perf_counter() - begun
            kind = "keys" if keys_only else "keys and payloads"
            print(f"{f'scan of 1 M rows, {kind}':<44} {rows / seconds:>10,.0f} rows/s")
        begun = time.perf_counter()
        for _ in range(100):
            await store.scan(here, 0, 1 << 60, cursor, 8 << 20)
        print(f"{'scan by cursor with nothing new':<44} {(time.perf_counter() - begun) * 1e4:>10,.0f} us")
        await finds(store, here, messages, arguments.seed)
        await store.close()


async def finds(store: SqliteStore, here: Partition, messages: Sequence[Append], seed: int) -> None:
    pick = random.Random(seed)
    keys = []
    for _ in range(4_000):
        group = pick.choice(messages).groups[0][1]
        row = group.select(slice(at := pick.randrange(len(group)), at + 1))
        keys.append((int(row.columns["position_ms"][0]), row.digests()[0]))
    cases: list[tuple[str, list[list[tuple[int, bytes]]]]] = [
        ("first look into 1 M rows", [keys[:1]]),
        ("one key a call", [[key] for key in keys[:1_000]]),
        ("1,000 keys of 1,000 groups in a call", [keys[:1_000], keys[1_000:2_000]]),
    ]
    columns = messages[0].groups[0][1]
    one_group = list(zip(columns.columns["position_ms"].tolist(), columns.digests(), strict=True))
    cases.append(("1,000 keys of one message in a call", [one_group, one_group]))
    for name, calls in cases:
        begun = time.perf_counter()
        for call in calls:
            found = await store.find(here, call)
            assert all(len(one.rows) == 1 for one in found)
        each = (time.perf_counter() - begun) / sum(map(len, calls))
        print(f"find: {name:<38} {each * 1e6:>10,.1f} us a key")


def machine() -> Iterator[str]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    yield f"{os.cpu_count()} CPUs {platform.machine()}, {platform.system()} {platform.release()}"
    yield f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, numpy {np.__version__}"
    yield f"commit {commit.stdout.strip() or 'unknown'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--synchronous", choices=("full", "normal"), default="full")
    parser.add_argument("--directory", help="where the data is written for the time of the run")
    arguments = parser.parse_args()
    print("; ".join(machine()), f"; seed {arguments.seed}, synchronous={arguments.synchronous}")
    asyncio.run(run(arguments))


if __name__ == "__main__":
    main()
