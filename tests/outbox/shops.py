"""The database of an application, as its writers see it: tables of its own, and an outbox beside them.

`keyed` has a row for each key that a task ever had: its version, and when the task fires, NULL where it was cancelled.
`plain` has the tasks without a key.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import asyncpg

from timerd.outbox.opening import open_outbox

QUEUE = "orders"
Wanted = Counter[tuple[str, int]]


class Shop(ABC):
    """One connection. `failures`: what it raises when the database goes away."""

    failures: ClassVar[tuple[type[Exception], ...]]
    tables: ClassVar[tuple[str, ...]]

    # The database that is always there.
    first: ClassVar[str]

    @classmethod
    async def create(cls, url: str) -> None:
        """An empty database."""
        server, _, name = url.rpartition("/")
        shop = await cls.opened(f"{server}/{cls.first}")
        await shop.run(f"CREATE DATABASE {name}")
        await shop.close()

    @classmethod
    @abstractmethod
    async def opened(cls, url: str) -> Self: ...

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[object]: ...

    @abstractmethod
    async def run(self, statement: str, *values: object) -> list[Any]:
        """`values` in the order of their numbers."""
        ...

    @abstractmethod
    async def plain(self, payload: str, fire_ms: int) -> None: ...

    @abstractmethod
    async def schedule(self, key: str, version: int, fire_ms: int) -> None: ...

    @abstractmethod
    async def move(self, key: str, fire_ms: int) -> None: ...

    @abstractmethod
    async def cancel(self, key: str) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def find(self, key: str) -> tuple[int, bool]:
        """Its version, 0 where there is none, and whether it has a task."""
        ...


class PostgresShop(Shop):
    """By the outbox's functions."""

    first = "postgres"
    failures = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    tables = (
        "CREATE TABLE keyed (key text PRIMARY KEY, version int NOT NULL, fire_ms bigint)",
        "CREATE TABLE plain (payload text PRIMARY KEY, fire_ms bigint NOT NULL)",
    )
    _AT = "to_timestamp($2::bigint / 1000.0)"

    def __init__(self, db: Any) -> None:  # noqa: ANN401 - asyncpg has no types
        self._db = db

    @classmethod
    async def opened(cls, url: str) -> Self:
        return cls(await asyncpg.connect(url, timeout=10))

    def transaction(self) -> AbstractAsyncContextManager[object]:
        started: AbstractAsyncContextManager[object] = self._db.transaction()
        return started

    async def run(self, statement: str, *values: object) -> list[Any]:
        return list(await self._db.fetch(statement, *values))

    async def plain(self, payload: str, fire_ms: int) -> None:
        await self.run("INSERT INTO plain VALUES ($1, $2)", payload, fire_ms)
        await self.run(f"SELECT timerd.schedule('{QUEUE}', convert_to($1, 'UTF8'), {self._AT})", payload, fire_ms)

    async def find(self, key: str) -> tuple[int, bool]:
        found = await self.run("SELECT version, fire_ms IS NOT NULL FROM keyed WHERE key = $1", key)
        return tuple(found[0]) if found else (0, False)

    async def schedule(self, key: str, version: int, fire_ms: int) -> None:
        changed = "ON CONFLICT (key) DO UPDATE SET version = $2, fire_ms = $3"
        await self.run(f"INSERT INTO keyed VALUES ($1, $2, $3) {changed}", key, version, fire_ms)
        asked = f"SELECT timerd.schedule('{QUEUE}', convert_to($1, 'UTF8'), {self._AT}, key => $3)"
        await self.run(asked, f"{key} {version}", fire_ms, key)

    async def move(self, key: str, fire_ms: int) -> None:
        await self.run("UPDATE keyed SET fire_ms = $2 WHERE key = $1", key, fire_ms)
        await self.run(f"SELECT timerd.reschedule($1, {self._AT})", key, fire_ms)

    async def cancel(self, key: str) -> None:
        await self.run("UPDATE keyed SET fire_ms = NULL WHERE key = $1", key)
        await self.run("SELECT timerd.cancel($1)", key)

    async def close(self) -> None:
        self._db.terminate()


class MysqlShop(Shop):
    """By rows of the outbox's table. Each call blocks a thread."""

    first = "mysql"
    tables = (
        "CREATE TABLE keyed (`key` VARCHAR(64) PRIMARY KEY, version INT NOT NULL, fire_ms BIGINT) ENGINE = InnoDB",
        "CREATE TABLE plain (payload VARCHAR(64) PRIMARY KEY, fire_ms BIGINT NOT NULL) ENGINE = InnoDB",
    )

    def __init__(self, db: Any) -> None:  # noqa: ANN401 - PyMySQL has no types
        self._db = db

    @classmethod
    async def opened(cls, url: str) -> Self:
        import pymysql

        cls.failures = (OSError, pymysql.MySQLError)
        parts = urlsplit(url)
        given = {"host": parts.hostname, "port": parts.port, "user": parts.username, "database": parts.path[1:]}
        return cls(await asyncio.to_thread(pymysql.connect, **given, connect_timeout=10))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[object]:
        await asyncio.to_thread(self._db.begin)
        try:
            yield self
        except BaseException:
            await asyncio.to_thread(self._db.rollback)
            raise
        await asyncio.to_thread(self._db.commit)

    async def run(self, statement: str, *values: object) -> list[Any]:
        return await asyncio.to_thread(self._run, statement, values)

    def _run(self, statement: str, values: Iterable[object]) -> list[Any]:
        with self._db.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())

    async def _ask(self, **columns: object) -> None:
        names = ", ".join(f"`{name}`" for name in columns)
        marks = ", ".join(["%s"] * len(columns))
        await self.run(f"INSERT INTO timerd_outbox ({names}) VALUES ({marks})", *columns.values())

    async def plain(self, payload: str, fire_ms: int) -> None:
        await self.run("INSERT INTO plain VALUES (%s, %s)", payload, fire_ms)
        await self._ask(queue=QUEUE, payload=payload.encode(), fire_at_ms=fire_ms)

    async def find(self, key: str) -> tuple[int, bool]:
        found = await self.run("SELECT version, fire_ms IS NOT NULL FROM keyed WHERE `key` = %s", key)
        return (found[0][0], bool(found[0][1])) if found else (0, False)

    async def schedule(self, key: str, version: int, fire_ms: int) -> None:
        changed = "ON DUPLICATE KEY UPDATE version = VALUES(version), fire_ms = VALUES(fire_ms)"
        await self.run(f"INSERT INTO keyed VALUES (%s, %s, %s) {changed}", key, version, fire_ms)
        await self._ask(queue=QUEUE, payload=f"{key} {version}".encode(), fire_at_ms=fire_ms, key=key)

    async def move(self, key: str, fire_ms: int) -> None:
        await self.run("UPDATE keyed SET fire_ms = %s WHERE `key` = %s", fire_ms, key)
        await self._ask(verb=3, key=key, fire_at_ms=fire_ms)

    async def cancel(self, key: str) -> None:
        await self.run("UPDATE keyed SET fire_ms = NULL WHERE `key` = %s", key)
        await self._ask(verb=2, key=key)

    async def close(self) -> None:
        await asyncio.to_thread(self._db.close)


async def made(kind: type[Shop], url: str) -> None:
    """A database with an outbox and the tables."""
    await kind.create(url)
    store = open_outbox(url)
    await store.make()
    await store.close()
    shop = await kind.opened(url)
    for each in kind.tables:
        await shop.run(each)
    await shop.close()


async def wanted(kind: type[Shop], url: str) -> Wanted:
    """(payload, fire_at_ms) of each task that there has to be."""
    shop = await kind.opened(url)
    name = "`key`" if kind is MysqlShop else "key"
    keyed = await shop.run(f"SELECT {name}, version, fire_ms FROM keyed WHERE fire_ms IS NOT NULL")
    plain = await shop.run("SELECT payload, fire_ms FROM plain")
    await shop.close()
    due = [(f"{key} {version}", int(fire_ms)) for key, version, fire_ms in keyed]
    return Counter([*due, *((str(payload), int(fire_ms)) for payload, fire_ms in plain)])
