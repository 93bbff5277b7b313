"""`python -m tests.outbox.rates [--rows 20000] [--relays 2] [--kinds keyed,moves]`: rows a second from the outbox of a
real PostgreSQL into a real server, by kind of row.

The rows of a kind are committed before its relays start, so what is measured is the way from a full outbox to an empty
one. Processor time is given for a row, of the server and of all relays: with PostgreSQL they share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import asyncpg

from tests.outbox.postgres_server import PostgresServer, programs
from tests.outbox.shops import PostgresShop, made
from tests.process.children import Child, Server
from timerd.outbox.opening import open_outbox

# Far enough that nothing fires while it is measured.
_INSERT = "INSERT INTO timerd.outbox"
_MANY = "FROM generate_series(1, $1::int) AS n"
_AT = "now() + interval '30 days' + n * interval '1 ms'"
FEW_KEYS = 100
STATEMENTS: Mapping[str, str] = {
    "plain": f"{_INSERT} (queue, payload, fire_at) SELECT 'mails', '\\x0102'::bytea, {_AT} {_MANY}",
    "keyed": f"{_INSERT} (queue, payload, fire_at, key) SELECT 'mails', '\\x0102'::bytea, {_AT}, 'k' || n {_MANY}",
    "moves": f"{_INSERT} (verb, fire_at, key) SELECT 3, {_AT} + interval '1 day', 'k' || n {_MANY}",
    "cancels": f"{_INSERT} (verb, key) SELECT 2, 'k' || n {_MANY}",
    # Few keys with many rows each: scheduled, moved up to three times as the key says, cancelled, and so on.
    "few keys": f"""{_INSERT} (verb, queue, payload, fire_at, key)
        SELECT CASE turn WHEN 0 THEN 1 WHEN last THEN 2 ELSE 3 END, CASE turn WHEN 0 THEN 'mails' END,
            CASE turn WHEN 0 THEN '\\x0102'::bytea END,
            CASE WHEN turn <> last THEN {_AT} + turn * interval '1 day' END, 'f' || n % {FEW_KEYS}
        FROM (
            SELECT n, n / {FEW_KEYS} % (2 + n % 4) AS turn, 1 + n % 4 AS last FROM generate_series(0, $1::int - 1) AS n
        ) AS numbered ORDER BY n""",
}
PATIENCE_S = 900


class Rate(NamedTuple):
    """`server_ms` and `relays_ms`: processor time of a row, of relays without that of their start."""

    kind: str
    relays: int
    rows: int
    seconds: float
    server_ms: float
    relays_ms: float

    def __str__(self) -> str:
        return (
            f"{self.kind:8} {self.relays} relays {self.rows / self.seconds:8,.0f} rows/s"
            f"  server {self.server_ms:.3f}  relays {self.relays_ms:.3f} ms a row"
        )


async def measure(database: PostgresServer, folder: Path, rows: int, relays: int, kinds: Sequence[str]) -> None:
    """Prints each as it comes, in the order of the kinds: moves and cancels are of what was scheduled before."""
    url, server = database.url("shop"), Server(folder)
    await made(PostgresShop, url)
    await asyncio.to_thread(server.start)
    try:
        for kind in kinds:
            print(await _one(url, server, folder, rows, relays, kind), flush=True)
    finally:
        server.kill()


async def _one(url: str, server: Server, folder: Path, rows: int, relays: int, kind: str) -> Rate:
    connection = await asyncpg.connect(url)
    await connection.execute(STATEMENTS[kind], rows)
    await connection.execute("VACUUM ANALYZE timerd.outbox")
    await connection.close()
    arguments = ["-m", "timerd.cli", "outbox", "run", "--database", url, "--server", server.address]
    children = [Child(arguments, folder / f"relay{number}.err") for number in range(relays)]
    before_s = _cpu_s([server.pid])
    draining = asyncio.create_task(_drained(url, rows, children))
    await asyncio.gather(*(asyncio.to_thread(child.start) for child in children))
    took_s, started_s = await draining
    used_s, relays_s = _cpu_s([server.pid]) - before_s, _cpu_s(_pids(children)) - started_s
    for child in children:
        child.kill()
    return Rate(kind, relays, rows, took_s, used_s / rows * 1e3, relays_s / rows * 1e3)


async def _drained(url: str, rows: int, relays: Sequence[Child]) -> tuple[float, float]:
    """How long it took from the first row that was taken, and the processor time that the relays had used by then: each
    starts for a second or two."""
    store, first_s, started_s, end_s = open_outbox(url), 0.0, 0.0, time.monotonic() + PATIENCE_S
    try:
        while True:
            facts = await store.facts()
            if not first_s and (facts.rows < min(rows, 100_000) or facts.sealed):
                first_s, started_s = time.monotonic(), _cpu_s(_pids(relays))
            if not facts.rows and not facts.sealed:
                return time.monotonic() - first_s, started_s
            assert time.monotonic() < end_s, f"the outbox is not drained: {facts}"
            await asyncio.sleep(0.02)
    finally:
        await store.close()


def _pids(children: Sequence[Child]) -> list[int]:
    return [child.pid for child in children if child.is_running()]


def _cpu_s(pids: Sequence[int]) -> float:
    """User and system time so far."""
    ticks = 0
    for pid in pids:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(after_name[11]) + int(after_name[12])
    return ticks / 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.outbox.rates", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--relays", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(STATEMENTS))
    given = parser.parse_args()
    if (folder := programs()) is None:
        print("There is no PostgreSQL: install Debian's postgresql.", file=sys.stderr)
        return 2
    database = PostgresServer(folder)
    database.make()
    database.start()
    try:
        with tempfile.TemporaryDirectory(prefix="timerd-outbox-", ignore_cleanup_errors=True) as temporary:
            asyncio.run(measure(database, Path(temporary), given.rows, given.relays, given.kinds.split(",")))
    finally:
        database.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
