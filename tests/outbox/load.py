"""Writers of an application: each transaction changes rows of the application and asks for tasks; some roll back.

What is wanted stands in tables of the application, changed in the same transactions: so the database itself says what
there has to be, also of a commit whose answer was lost.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import asyncpg

QUEUE = "orders"
# Far enough that nothing fires while the test looks.
AHEAD_MS = 86_400_000
TABLES = """
CREATE TABLE keyed (key text PRIMARY KEY, version int NOT NULL, fire_ms bigint);
CREATE TABLE plain (payload text PRIMARY KEY, fire_ms bigint NOT NULL);
"""
_ASK_PLAIN = "SELECT timerd.schedule($1, convert_to($2, 'UTF8'), to_timestamp($3::bigint / 1000.0))"
_ASK_KEYED = "SELECT timerd.schedule($1, convert_to($2, 'UTF8'), to_timestamp($3::bigint / 1000.0), key => $4)"
_MOVE = "SELECT timerd.reschedule($1, to_timestamp($2::bigint / 1000.0))"
_KEYS = 40
_FAILURES = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class RolledBack(Exception):
    """As an application does that changes its mind."""


class Writer:
    """Its keys are its own, so that each has an order; a key is scheduled again after it was cancelled."""

    def __init__(self, url: str, name: str, seed: int, start_ms: int, pause_s: float) -> None:
        self._url = url
        self._name = name
        self._rng = Random(seed)
        self._start_ms = start_ms
        self._pause_s = pause_s
        self._number = 0
        self.counts: Counter[str] = Counter()

    async def run(self, stopped: asyncio.Event) -> None:
        while not stopped.is_set():
            with suppress(*_FAILURES):
                db = await asyncpg.connect(self._url, timeout=10)
                try:
                    await self._write(db, stopped)
                finally:
                    db.terminate()
            await asyncio.sleep(0.1)

    async def _write(self, db: Any, stopped: asyncio.Event) -> None:  # noqa: ANN401 - asyncpg has no types
        while not stopped.is_set():
            try:
                async with db.transaction():
                    await self._change(db)
                    if self._rng.random() < 0.1:
                        raise RolledBack
                self.counts["committed"] += 1
            except RolledBack:
                self.counts["rolled back"] += 1
            await asyncio.sleep(self._pause_s)

    def _instant(self) -> int:
        return self._start_ms + AHEAD_MS + self._rng.randrange(3_600_000)

    async def _change(self, db: Any) -> None:  # noqa: ANN401 - asyncpg has no types
        for _ in range(self._rng.randrange(3)):
            await self._plain(db)
        for key in self._rng.sample(range(_KEYS), 2):
            await self._keyed(db, f"{self._name}-{key}")

    async def _plain(self, db: Any) -> None:  # noqa: ANN401 - asyncpg has no types
        self._number += 1
        payload, fire_ms = f"{self._name} {self._number}", self._instant()
        await db.execute("INSERT INTO plain VALUES ($1, $2)", payload, fire_ms)
        await db.execute(_ASK_PLAIN, QUEUE, payload, fire_ms)

    async def _keyed(self, db: Any, key: str) -> None:  # noqa: ANN401 - asyncpg has no types
        found = await db.fetchrow("SELECT version, fire_ms FROM keyed WHERE key = $1", key)
        fire_ms = self._instant()
        if found is None or found["fire_ms"] is None:
            version = found["version"] + 1 if found else 1
            await db.execute(
                "INSERT INTO keyed VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE SET version = $2, fire_ms = $3",
                *(key, version, fire_ms),
            )
            await db.execute(_ASK_KEYED, QUEUE, f"{key} {version}", fire_ms, key)
        elif self._rng.random() < 0.5:
            await db.execute("UPDATE keyed SET fire_ms = $2 WHERE key = $1", key, fire_ms)
            await db.execute(_MOVE, key, fire_ms)
            self.counts["moved"] += 1
        else:
            await db.execute("UPDATE keyed SET fire_ms = NULL WHERE key = $1", key)
            await db.execute("SELECT timerd.cancel($1)", key)
            self.counts["cancelled"] += 1


async def wanted(url: str) -> Counter[tuple[str, int]]:
    """(payload, fire_at_ms) of each task that there has to be."""
    db = await asyncpg.connect(url, timeout=30)
    try:
        keyed = await db.fetch("SELECT key || ' ' || version, fire_ms FROM keyed WHERE fire_ms IS NOT NULL")
        plain = await db.fetch("SELECT payload, fire_ms FROM plain")
    finally:
        await db.close()
    return Counter((str(payload), int(fire_ms)) for payload, fire_ms in [*keyed, *plain])
