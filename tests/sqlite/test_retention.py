"""What is over is forgotten in small steps, and its space is used again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.sqlite.conftest import DAY_MS, Bench
from timerd.adapters.sqlite import days, registers, retention
from timerd.adapters.sqlite.requests import KEEP_MS
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.registers import name_key
from timerd.ports import Cas, Mark, MarkKind
from timerd.testing.contracts.build import HERE, START_MS, batch, key, message, scan

MINUTE_MS = 60_000


async def test_the_space_of_a_dropped_partition_is_used_again(bench: Bench) -> None:
    store = bench.open()
    pages: list[int] = []
    for n in range(6):
        partition = Partition(0, START_MS + n * BUCKET_MS, 0)
        await store.append([batch(f"m{n}", [partition.bucket_ms] * 3_000, b"x" * 200)])
        await store.drop(partition)
        pages.append(int(str(bench.query("PRAGMA page_count")[0][0])))
    assert pages[-1] <= pages[1] * 1.1


async def test_a_drop_goes_in_slices(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SLICE_ROWS", 2)
    store = bench.open()
    for n in range(7):
        await store.append([message(f"m{n}", key(f"k{n}", n))])
    await store.mark([Mark(HERE, key(f"k{n}", n), MarkKind.PURGED, b"") for n in range(5)])
    assert await store._write(lambda commit: commit.drop(HERE, retention.drop_slice))
    assert (bench.count("groups"), bench.count("marks")) == (5, 3)
    await store.drop(HERE)
    assert (bench.count("groups"), bench.count("marks")) == (0, 0)
    assert (await scan(store)).marks == []


async def test_a_repeat_is_known_for_a_day_and_its_record_then_forgotten(bench: Bench) -> None:
    store = bench.open()
    await store.append([message("a", key("a"))])
    bench.now_ms += KEEP_MS - 1
    (again,) = await store.append([message("a", key("a"))])
    assert again.repeated == b"stored"
    bench.now_ms += 2
    for n in range(5):
        await store.append([message(f"b{n}", key(f"b{n}"))])
    assert bench.count("requests") == bench.count("replies") == 5


async def test_a_repeat_is_known_until_its_task_is_due_also_in_the_hour_before(bench: Bench) -> None:
    """One look an hour says whether there are such messages: the others cost no read."""
    store = bench.open()
    due_ms = START_MS + 3 * DAY_MS
    far = message("a", key("a", 3 * DAY_MS), partition=Partition(TIME_SCOPE, due_ms, 0))
    await store.append([far])
    for before_ms in (2 * DAY_MS, 61 * MINUTE_MS, 59 * MINUTE_MS, MINUTE_MS):
        bench.now_ms = due_ms - before_ms
        for n in range(5):
            name = f"{n} {before_ms}"
            await store.append([message(name, key(name, bench.now_ms - START_MS))])
        (again,) = await store.append([far])
        assert again.repeated == b"stored", f"{before_ms} ms before"


async def test_a_repeat_beside_new_messages_leaves_one_record_of_each(bench: Bench) -> None:
    store = bench.open()
    await store.append([message("a", key("a"))])
    again, *fresh = await store.append([message(name, key(name)) for name in "abcb"])
    assert (again.repeated, [one.repeated for one in fresh]) == (b"stored", [None, None, b"stored"])
    assert (bench.count("requests"), bench.count("replies"), bench.count("groups")) == (3, 2, 2)
    assert [one.repeated for one in await store.append([message(name, key(name)) for name in "abc"])] == [b"stored"] * 3
    assert (bench.count("requests"), bench.count("replies"), bench.count("groups")) == (3, 2, 2)


async def test_as_many_old_requests_go_as_new_ones_come(bench: Bench) -> None:
    store = bench.open()
    for n in range(20):
        await store.append([message(f"a{n}", key(f"a{n}"))])
    bench.now_ms += KEEP_MS + 1
    store = await bench.reopen()
    for n in range(10):
        await store.append([message(f"b{n}", key(f"b{n}"))])
    assert bench.count("requests") == 10


async def test_registers_and_estimates_end_with_their_time(bench: Bench) -> None:
    store = bench.open()
    brief, lasting, forever = (name_key("d", name) for name in "abc")
    await store.cas([Cas(brief, None, b"1", START_MS + 1), Cas(lasting, None, b"2", START_MS + DAY_MS)])
    await store.cas([Cas(forever, None, b"3")])
    await store.save_estimates({("d", "q", START_MS): 1, ("d", "q", START_MS + 2 * DAY_MS): 1})
    assert list(await store.read([brief])) == [b"1"]
    bench.now_ms += MINUTE_MS
    await store.mark([])
    assert list(await store.read([brief, lasting, forever])) == [None, b"2", b"3"]
    bench.now_ms += DAY_MS + MINUTE_MS
    await store.mark([])
    assert list(await store.read([brief, lasting, forever])) == [None, None, b"3"]
    assert await store.estimates("d", "q", 0, 1 << 60) == {START_MS + 2 * DAY_MS: 1}


async def test_more_keys_may_expire_in_a_minute_than_one_commit_forgets(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registers, "_MOST_EXPIRED", 10)
    store = bench.open()
    await store.cas([Cas(name_key("d", f"{n}"), None, b"1", START_MS + 1) for n in range(45)])
    bench.now_ms += MINUTE_MS
    for left in (35, 25, 15, 5, 0):
        await store.mark([])
        assert bench.count("registers") == left


async def test_the_writer_keeps_few_days_of_queues_in_mind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(days, "_MOST_REMEMBERED", 10)
    store = bench.open()
    for n in range(35):
        await store.append([message(f"m{n}", key(f"k{n}"), partition=HERE._replace(scope=n))])
        assert len(store._writer._transaction.days._known) <= 10
    assert {entry.scope for entry in await store.catalogue(None, 0, 1 << 60)} == set(range(35))


async def test_days_that_are_over_are_not_gone_through_by_who_reads_the_catalogue(bench: Bench) -> None:
    """Their flags stay: of a year of thousands of queues a million rows, and it is read each second."""
    store = bench.open()
    await store.append([message("a", key("a"))])
    await store.finish_bucket(0, START_MS - BUCKET_MS, finished=True)
    with closing(sqlite3.connect(bench.path / "timerd.db")) as connection:
        over = [(day, scope, bytes(36), b"\xff" * 36, b"\xff" * 36) for day in range(300) for scope in range(20)]
        connection.executemany("INSERT INTO days VALUES (?,?,?,?,?)", over)
        assert max(thousands_of_steps(connection, read) for read in READS) <= 1


async def test_the_oldest_open_bucket_is_found_whichever_queue_of_its_day_has_it(bench: Bench) -> None:
    store = bench.open()
    for scope, bucket in ((5, 3), (9, 1), (0, 4), (7, 300)):
        await store.finish_bucket(scope, START_MS + bucket * BUCKET_MS, finished=False)
    with closing(sqlite3.connect(bench.path / "timerd.db")) as connection:
        assert days.oldest_open_ms(connection, START_MS + DAY_MS) == START_MS + BUCKET_MS
        assert days.oldest_open_ms(connection, START_MS - DAY_MS) == START_MS - DAY_MS


READS: tuple[Callable[[sqlite3.Connection], object], ...] = (
    lambda connection: days.read_catalogue(connection, 0, -(1 << 62), 1 << 62),
    lambda connection: days.read_catalogue(connection, None, -(1 << 62), 1 << 62),
    lambda connection: days.oldest_open_ms(connection, 1 << 62),
)


def thousands_of_steps(connection: sqlite3.Connection, read: Callable[[sqlite3.Connection], object]) -> int:
    """How many thousand instructions of SQLite it takes."""
    made = [0]

    def count() -> None:
        made[0] += 1

    connection.set_progress_handler(count, 1_000)
    read(connection)
    connection.set_progress_handler(None, 0)
    return made[0]
