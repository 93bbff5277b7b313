"""Group commit: one commit for all who wait; what fails is told truthfully (guarantee G2), and the next one works."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sqlite.conftest import Bench
from timerd.adapters.sqlite import reader, writer
from timerd.adapters.sqlite.commit import Commit
from timerd.adapters.sqlite.store import SqliteStore
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.registers import control_key
from timerd.ports import Cas, CasStatus
from timerd.testing.contracts.build import HERE, START_MS, key, message, scan

Arm = Callable[..., None]


async def test_all_who_wait_share_a_commit_and_a_row_group(bench: Bench) -> None:
    store = bench.open("full")
    await asyncio.gather(*(store.append([message(f"m{n}", key(f"k{n}", n))]) for n in range(500)))
    assert len((await scan(store)).keys) == 500
    assert bench.count("groups") < 100


async def test_writes_happen_in_the_order_of_the_calls(bench: Bench) -> None:
    store = bench.open()
    values = [b"%d" % n for n in range(100)]
    changes = [Cas(control_key(HERE), before, value) for before, value in zip([None, *values], values, strict=False)]
    results = await asyncio.gather(*(store.cas([change]) for change in changes))
    assert {r.status for (r,) in results} == {CasStatus.APPLIED}


async def limit_pages(store: SqliteStore, extra: int | None) -> None:
    """The file may grow by so many pages only; None: by any number."""

    def work(commit: Commit) -> None:
        (now,) = commit.connection.execute("PRAGMA page_count").fetchone()
        commit.connection.execute(f"PRAGMA max_page_count = {1 << 30 if extra is None else now + extra}")

    await store._write(work)


async def test_a_full_disk_stores_nothing_and_the_next_write_with_space_succeeds(bench: Bench) -> None:
    store = bench.open()
    await store.append([message("a", key("a"))])
    await limit_pages(store, 2)
    big = [message(f"b{n}", *(key(f"b{n}.{m}", n) for m in range(2_000))) for n in range(3)]
    results = await asyncio.gather(*(store.append([one]) for one in big), return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailable] * 3
    assert (await scan(store)).keys == [key("a")]
    await limit_pages(store, None)
    (stored,) = await store.append([big[0]])
    assert stored.repeated is None
    assert len((await scan(store)).keys) == 2_001


@pytest.mark.parametrize(
    ("code", "error"),
    [(sqlite3.SQLITE_FULL, StoreUnavailable), (sqlite3.SQLITE_IOERR_FSYNC, StoreUnknown)],
)
async def test_a_commit_that_fails_is_unknown_unless_the_disk_was_full(
    bench: Bench, failing_commits: Arm, code: int, error: type[Exception]
) -> None:
    store = bench.open()
    await store.append([message("a", key("a"))])
    failing_commits("COMMIT", code)
    results = await asyncio.gather(
        store.append([message("b", key("b"))]), store.finish_bucket(0, 0, finished=False), return_exceptions=True
    )
    assert [type(result) for result in results] == [error, error]
    failing_commits(None)
    (again,) = await store.append([message("b", key("b"))])
    assert again.repeated is None
    assert (await scan(store)).keys == sorted([key("a"), key("b")])
    assert len(await store.catalogue(None, 0, 1 << 50)) == 1


async def test_an_error_before_the_commit_stored_nothing_and_cas_says_unknown(
    bench: Bench, failing_commits: Arm
) -> None:
    store = bench.open()
    failing_commits("BEGIN IMMEDIATE", sqlite3.SQLITE_IOERR)
    with pytest.raises(StoreUnavailable, match="nothing was stored"):
        await store.append([message("a", key("a"))])
    (result,) = await store.cas([Cas(control_key(HERE), None, b"1")])
    assert result.status == CasStatus.UNKNOWN
    failing_commits(None)
    assert list(await store.read([control_key(HERE)])) == [None]
    (result,) = await store.cas([Cas(control_key(HERE), None, b"1")])
    assert result.status == CasStatus.APPLIED


async def test_a_rollback_that_fails_opens_the_database_again(bench: Bench, failing_commits: Arm) -> None:
    store = bench.open()
    await store.append([message("a", key("a"))])
    failing_commits("ROLLBACK", sqlite3.SQLITE_IOERR)

    def spoil(commit: Commit) -> None:
        commit.connection.execute("INSERT INTO nowhere VALUES (1)")

    with pytest.raises(StoreUnavailable):
        await store._write(spoil)
    failing_commits(None)
    await store.append([message("b", key("b"))])
    assert (await scan(store)).keys == sorted([key("a"), key("b")])


async def test_work_that_is_wrong_fails_alone(bench: Bench) -> None:
    store = bench.open()

    def wrong(commit: Commit) -> None:
        commit.connection.execute("UPDATE days SET day = NULL")
        raise ValueError("wrong")

    results = await asyncio.gather(
        *(store.append([message(f"a{n}", key(f"a{n}"))]) for n in range(3)),
        store._write(wrong),
        *(store.append([message(f"b{n}", key(f"b{n}"))]) for n in range(3)),
        return_exceptions=True,
    )
    failed = [result for result in results if isinstance(result, BaseException)]
    assert [str(error) for error in failed] == ["wrong"] or "NOT NULL" in str(failed)
    assert len(failed) == 1
    assert len((await scan(store)).keys) == 6


async def test_a_caller_that_gave_up_disturbs_nobody(bench: Bench) -> None:
    store = bench.open()
    given_up = asyncio.ensure_future(store.append([message("a", key("a"))]))
    other = asyncio.ensure_future(store.append([message("b", key("b"))]))
    await asyncio.sleep(0)
    given_up.cancel()
    await other
    await store.append([message("c", key("c"))])
    assert {key("b"), key("c")} <= set((await scan(store)).keys)


async def test_close_finishes_what_was_submitted_and_refuses_what_comes_after(bench: Bench) -> None:
    store = bench.open()
    pending = [asyncio.ensure_future(store.append([message(f"m{n}", key(f"k{n}"))])) for n in range(50)]
    await asyncio.sleep(0)
    await bench.close()
    assert all(task.done() and not task.exception() for task in pending)
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.append([message("late", key("late"))])
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.scan(HERE, 0, 1, 0, 1)
    assert len((await scan(await bench.reopen())).keys) == 50


async def test_while_the_disk_is_frozen_newcomers_are_refused_and_those_who_wait_get_their_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bench.open()
    monkeypatch.setattr(writer, "STALLED_S", 0.0)
    frozen, thaw = threading.Event(), threading.Event()

    def freeze(_: Commit) -> None:
        frozen.set()
        assert thaw.wait(60)

    stuck = asyncio.create_task(store._write(freeze))
    await asyncio.to_thread(frozen.wait)
    with pytest.raises(StoreUnavailable, match="nothing was stored") as refused:
        await store.append([message("late", key("late"))])
    assert refused.value.retry_after_ms
    assert not stuck.done()
    thaw.set()
    await stuck
    await store.append([message("after", key("after"))])
    assert (await scan(store)).keys == [key("after")]


async def test_when_nothing_is_written_after_much_was_others_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "REST_S", 0.05)
    monkeypatch.setattr(writer, "COMMITS_BEFORE_REST", 3)
    rested = threading.Event()
    store = SqliteStore(tmp_path, lambda: START_MS, "normal", rested.set)
    for _ in range(2):
        for n in range(3):
            await store.append([message(f"m{n}", key(f"k{n}", n))])
        assert await asyncio.to_thread(rested.wait, 60)
        rested.clear()
    await store.close()


async def test_when_nothing_is_read_after_much_was_others_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "REST_S", 0.05)
    monkeypatch.setattr(reader, "READS_BEFORE_REST", 3)
    rested = threading.Event()
    store = SqliteStore(tmp_path, lambda: START_MS, "normal", rested.set)
    await store.append([message("m", key("k"))])
    for _ in range(2):
        for _ in range(3):
            assert (await scan(store)).keys == [key("k")]
        assert await asyncio.to_thread(rested.wait, 60)
        rested.clear()
    await store.close()
