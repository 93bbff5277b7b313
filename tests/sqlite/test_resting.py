"""What a store keeps in memory to be fast goes back to the machine when there is nothing to do."""

from __future__ import annotations

import _sqlite3
import asyncio
import ctypes
import sqlite3
import threading
from pathlib import Path

import pytest

from timerd.adapters.sqlite.jobs import Jobs, tell
from timerd.adapters.sqlite.schema import connect, connect_reader, give_back_pages

PATIENCE_S = 60.0


class Serving:
    """A thread that does what it is given, and counts its rests."""

    def __init__(self, error: Exception | None = None) -> None:
        self.rests = 0
        self._error = error
        self.rested = threading.Event()
        self.jobs = Jobs(self._rest, rest_s=0.01)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _rest(self) -> None:
        self.rests += 1
        self.rested.set()
        if self._error is not None:
            raise self._error

    def _serve(self) -> None:
        open_ = True
        while open_:
            batch, open_ = self.jobs.next_batch(10)
            tell([(job, job.work(None), None) for job in batch])

    def wait(self) -> int:
        """How often it has rested, when it has rested anew."""
        assert self.rested.wait(PATIENCE_S)
        self.rested.clear()
        return self.rests

    def end(self) -> None:
        self.jobs.end()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def test_a_thread_rests_once_after_it_has_worked() -> None:
    serving = Serving()
    assert serving.wait() == 1
    assert asyncio.run(_answered(serving)) == "done"
    assert serving.wait() == 2
    # Another wait of the same length would have passed by then, were there one.
    assert not serving.rested.wait(0.2)
    serving.end()
    assert serving.rests == 2


def test_a_thread_that_is_stirred_rests_once_more() -> None:
    serving = Serving()
    assert serving.wait() == 1
    serving.jobs.stir()
    assert serving.wait() == 2
    # In the middle of work it is none.
    serving.jobs.stir()
    assert asyncio.run(_answered(serving)) == "done"
    serving.jobs.stir()
    assert serving.wait() == 3
    serving.end()


def test_a_rest_that_fails_is_logged_and_the_work_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    serving = Serving(OSError("no such library"))
    assert serving.wait() == 1
    assert asyncio.run(_answered(serving)) == "done"
    assert serving.wait() == 2
    serving.end()
    assert "could not be given back" in caplog.text


async def _answered(serving: Serving) -> object:
    return await serving.jobs.hand_over(lambda _: "done")


def test_pages_are_given_back_and_read_again(tmp_path: Path) -> None:
    writing = connect(tmp_path / "a.db", "full")
    writing.execute("CREATE TABLE t (x)")
    writing.executemany("INSERT INTO t VALUES (?)", [(b"x" * 1000,) for _ in range(2000)])
    reading = connect_reader(tmp_path / "a.db")
    for connection in (writing, reading):
        assert _sum(connection) == 2_000_000
        before = _bytes_of_sqlite()
        give_back_pages(connection)
        assert _bytes_of_sqlite() < before - 500_000
        assert _sum(connection) == 2_000_000
    writing.close()
    give_back_pages(writing)


def _sum(connection: sqlite3.Connection) -> int:
    total: int = connection.execute("SELECT sum(length(x)) FROM t").fetchone()[0]
    return total


def _bytes_of_sqlite() -> int:
    """What all connections of the process hold (sqlite3_memory_used)."""
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    used.restype = ctypes.c_int64
    return int(used())
