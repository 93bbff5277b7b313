"""The outbox's tables keep the rules whatever the engine: PostgreSQL, MariaDB and SQLite in turn."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests.outbox.made import FIRE_MS, cancel, move, schedule
from tests.outbox.mysql_server import MysqlServer
from tests.outbox.shops import MysqlShop
from timerd.outbox.messages import links_in, rows_in
from timerd.outbox.opening import open_outbox
from timerd.outbox.outcomes import Next, SendOutcome
from timerd.outbox.ports import DatabaseAway, DatabaseWrong, OutboxStore
from timerd.outbox.rows import OutboxRow, RefusedRow, SealedBatch
from timerd.outbox.sealing import MOST_OF_KEY, MOST_ROWS, LeftOut

LEASE_S = 60.0


async def sealed(outbox: OutboxStore, owner: str = "one", lease_s: float = LEASE_S) -> SealedBatch:
    """The first, where there are several."""
    batches, _ = await outbox.seal(owner, lease_s)
    return batches[0]


async def numbers(outbox: OutboxStore) -> list[int]:
    return [each.no for each in (await outbox.facts()).sealed]


async def test_what_is_sealed_is_out_of_the_outbox(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1"), schedule(b"2")])
    assert (await outbox.facts()).rows == 2
    batch = await sealed(outbox)
    facts = await outbox.facts()
    assert (facts.rows, [each.no for each in facts.sealed]) == (0, [batch.no])
    assert [row.payload for row in rows_in(batch)] == [b"1", b"2"]
    assert await outbox.seal("one", LEASE_S) == ([], 0)


async def test_numbers_and_times_follow_the_rows(outbox: OutboxStore) -> None:
    batches = list[SealedBatch]()
    for row in (schedule(b"1", "a"), move("a", FIRE_MS), cancel("a")):
        await outbox.put([row])
        batches.append(await sealed(outbox))
        await outbox.done(batches[-1], [])
    assert [batch.verb for batch in batches] == [1, 3, 2]
    assert sorted(batch.no for batch in batches) == [batch.no for batch in batches]
    assert len({batch.made_ms for batch in batches}) == 3


async def test_a_row_waits_for_a_sealed_batch_with_its_key_of_any_relay(url: str, outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1", "a")])
    first = await sealed(outbox)
    await outbox.put([cancel("a"), schedule(b"2", "a", namespace="billing"), schedule(b"3")])
    other = open_outbox(url)
    try:
        batches, _ = await other.seal("two", LEASE_S)
        assert [(each.namespace, each.verb) for each in batches] == [("billing", 1), ("default", 1)]
        assert await other.seal("two", LEASE_S) == ([], 0)
        await outbox.done(first, [])
        assert (await sealed(other, "two")).verb == 2
    finally:
        await other.close()


async def test_several_batches_are_sealed_at_once(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1"), schedule(b"2", queue="post"), cancel("a"), schedule(b"3", namespace="billing")])
    batches, taken = await outbox.seal("one", LEASE_S)
    assert ([each.tasks for each in batches], taken) == ([1, 1, 1, 1], 4)
    assert await numbers(outbox) == [each.no for each in batches]
    await outbox.put([schedule(b"4")])
    assert (await sealed(outbox)).no > batches[-1].no


async def test_rows_of_a_namespace_can_be_left_where_they_are(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1", namespace="billing"), schedule(b"2"), cancel("a")])
    [batch, _], _ = await outbox.seal("one", LEASE_S, LeftOut(frozenset({"billing", "another"})))
    assert [row.payload for row in rows_in(batch)] == [b"2"]
    assert await outbox.seal("one", LEASE_S, LeftOut(frozenset({"billing", "default"}))) == ([], 0)
    assert (await sealed(outbox)).namespace == "billing"


async def test_rows_of_a_queue_are_left_with_what_comes_behind_them(outbox: OutboxStore) -> None:
    """Of the same key in any queue, and with no others: also what comes before them."""
    await outbox.put([schedule(b"0", "b", queue="post"), cancel("b"), schedule(b"1", "a"), cancel("a"), schedule(b"2")])
    await outbox.put([schedule(b"3", "a", queue="post"), cancel("a", namespace="billing"), schedule(b"4", "b")])
    await outbox.put([schedule(b"5", queue="post"), cancel("c")])
    shut = LeftOut(queues=frozenset({("default", "mails")}))
    taken = list[tuple[str, int, bytes | str]]()
    while True:
        batches, _ = await outbox.seal("one", LEASE_S, shut)
        if not batches:
            break
        for each in batches:
            taken += [(row.queue, row.verb, row.key or row.payload) for row in rows_in(each)]
            await outbox.done(each, [])
    assert sorted(taken, key=str) == sorted(
        [("post", 1, "b"), ("", 2, "b"), ("", 2, "a"), ("post", 1, b"5"), ("", 2, "c")], key=str
    )
    batches, _ = await outbox.seal("one", LEASE_S)
    assert [[row.payload for row in rows_in(each)] for each in batches] == [[b"1", b""], [b"2", b"4"]]


async def test_many_rows_that_wait_are_looked_past(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1", "a")])
    first = await sealed(outbox)
    await outbox.put([*(move("a", FIRE_MS + n) for n in range(MOST_ROWS + 5)), schedule(b"2", "b")])
    assert [row.key for row in rows_in(await sealed(outbox))] == ["b"]
    await outbox.done(first, [])
    assert [row.fire_at_ms for row in rows_in(await sealed(outbox))] == [FIRE_MS + n for n in range(MOST_OF_KEY)]


async def test_what_holds_a_batch_up_is_noted(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1")])
    await outbox.note(await sealed(outbox), "The queue 'mails' takes no tasks in.")
    assert [each.why for each in (await outbox.facts()).sealed] == ["The queue 'mails' takes no tasks in."]


async def test_the_rest_of_a_batch_stands_in_its_place(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"%d" % number, f"k{number}") for number in range(3)])
    batch = await sealed(outbox)
    rows = rows_in(batch)
    refused = RefusedRow(rows[0], "The key 'k0' is taken.", "KEY_TAKEN")
    outcome = SendOutcome(Next.REST, [refused], left=rows[2:])
    [rest] = await outbox.rest(batch, outcome, "one", LEASE_S)
    assert await outbox.rest(batch, outcome, "two", LEASE_S) == []
    assert (await numbers(outbox), rows_in(rest)) == ([batch.no + 1], rows[2:])
    assert [each.refused for each in await outbox.refused(10)] == [refused]
    await outbox.put([cancel("k0"), cancel("k2")])
    assert [row.key for row in rows_in(await sealed(outbox))] == ["k0"]


async def test_the_rest_of_chains_goes_on_by_the_same_bytes(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1", "a"), move("a", FIRE_MS), cancel("b"), cancel("a"), schedule(b"2", "b")])
    chains = await sealed(outbox)
    links = links_in(chains)
    outcome = SendOutcome(Next.REST, left=[row for link in links[1:] for row in rows_in(link)], links=[*links[1:]])
    [rest] = await outbox.rest(chains, outcome, "one", LEASE_S)
    assert (rest.no, rest.tasks, rest.is_ordered) == (chains.no + 1, 4, True)
    assert [each.request for each in links_in(rest)] == [each.request for each in links[1:]]
    assert rest in await outbox.take_over("one", LEASE_S, [])


async def test_a_batch_is_found_when_its_lease_is_over(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1")])
    batch = await sealed(outbox)
    assert await outbox.take_over("two", LEASE_S, []) == []
    # Its relay has left.
    await outbox.keep("one", 0.0)
    await asyncio.sleep(0.002)
    assert await outbox.take_over("two", LEASE_S, []) == [batch]
    assert await outbox.take_over("one", LEASE_S, []) == []


async def test_a_batch_of_its_own_that_a_relay_does_not_know_of_is_found_at_once(outbox: OutboxStore) -> None:
    """The answer to its commit was lost."""
    await outbox.put([schedule(b"1")])
    batch = await sealed(outbox)
    assert await outbox.take_over("one", LEASE_S, [batch.no]) == []
    assert await outbox.take_over("one", LEASE_S, []) == [batch]


async def test_what_is_done_goes_with_what_was_refused_of_it(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1", "a", options='{"priority": 3}'), schedule(b"2")])
    batch = await sealed(outbox)
    refused = RefusedRow(rows_in(batch)[0], "The key 'a' is taken.", "KEY_TAKEN")
    await outbox.done(batch, [refused])
    await outbox.done(batch, [refused])
    assert await numbers(outbox) == []
    assert [each.refused for each in await outbox.refused(10)] == [refused]
    assert (await outbox.facts()).refused == 1


async def test_a_refused_row_gets_another_chance_or_is_forgotten(outbox: OutboxStore) -> None:
    rows = [schedule(b"1", "a"), schedule(b"2"), move("b", FIRE_MS)]
    await outbox.put([schedule(b"0")])
    await outbox.done(await sealed(outbox), [RefusedRow(row, "No.", "INVALID") for row in rows])
    first, second, third = [each.number for each in await outbox.refused(10)]
    assert await outbox.settle_refused([first, 99], again=True) == 1
    assert await outbox.settle_refused([second, third], again=False) == 2
    assert await outbox.refused(10) == []
    assert rows_in(await sealed(outbox)) == rows[:1]


async def test_a_batch_that_is_made_anew_keeps_its_number_and_ends_the_old_one(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1", "a")])
    old = await sealed(outbox)
    new = await outbox.anew(old)
    assert new is not None
    assert (new.no, rows_in(new)) == (old.no, rows_in(old))
    assert new.made_ms > old.made_ms
    assert new.request != old.request
    assert await outbox.anew(old) is None
    await outbox.done(old, [])
    assert await numbers(outbox) == [old.no]
    await outbox.done(new, [])
    assert await numbers(outbox) == []


async def test_halves_stand_in_the_place_of_their_batch(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"%d" % number, f"k{number}") for number in range(5)])
    batch = await sealed(outbox)
    await outbox.put([cancel("other")])
    later = await sealed(outbox)
    both = await outbox.halve(batch, "one", LEASE_S)
    assert await outbox.halve(batch, "two", LEASE_S) == []
    assert await numbers(outbox) == [both[0].no, both[1].no, later.no]
    assert [row for half in both for row in rows_in(half)] == rows_in(batch)
    await outbox.put([cancel("k0"), cancel("k4")])
    assert await outbox.seal("one", LEASE_S) == ([], 0)


async def test_reset_gives_it_another_identity(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1"), schedule(b"2")])
    await sealed(outbox)
    await outbox.put([schedule(b"3")])
    before = (await outbox.facts()).outbox
    assert await outbox.reset(discard=False) == 0
    assert (await outbox.facts()).outbox != before
    assert await outbox.reset(discard=True) == 3
    facts = await outbox.facts()
    assert (facts.rows, facts.sealed) == (0, [])


async def test_much_is_taken_by_its_bytes(outbox: OutboxStore) -> None:
    await outbox.put([schedule(bytes(1 << 20)) for _ in range(6)] + [cancel("a")])
    batch = await sealed(outbox)
    assert batch.tasks == 4
    assert (await sealed(outbox)).tasks == 2


async def test_making_it_again_changes_nothing(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1")])
    before = await outbox.facts()
    await outbox.make()
    assert (await outbox.facts()).outbox == before.outbox
    assert (await outbox.facts()).rows == 1


BAD_ROWS = [
    (schedule(b"1", queue="two words"), "queue has 1 to 128"),
    (schedule(b"1", key="k" * 257), "key has 1 to 256"),
    (schedule(bytes((1 << 20) + 1)), "1 MiB at most"),
    (schedule(b"1")._replace(namespace=""), "namespace has 1 to 64"),
    (schedule(b"1", queue=""), "to schedule takes queue, payload and fire_at"),
    (cancel(""), "to cancel takes a key"),
    (move("a", 0), "to reschedule takes key and fire_at"),
    (schedule(b"1")._replace(verb=4), "verb is 1 schedule, 2 cancel or 3 reschedule"),
]


@pytest.mark.parametrize(("row", "says"), BAD_ROWS, ids=[says for _, says in BAD_ROWS])
async def test_a_mistake_is_told_in_the_application_s_own_transaction(
    outbox: OutboxStore, row: OutboxRow, says: str
) -> None:
    with pytest.raises(DatabaseAway, match=says):
        await outbox.put([row])
    assert (await outbox.facts()).rows == 0


async def test_without_tables_it_is_said_how_to_make_them(url: str) -> None:
    store = open_outbox(url)
    with pytest.raises(DatabaseWrong, match="timerd outbox init"):
        await store.seal("one", LEASE_S)
    await store.close()


@pytest.mark.parametrize("wrong", ["oracle://127.0.0.1/shop", "shop.db", "sqlite://shop.db", "sqlite://"])
def test_an_address_that_means_no_database_is_told(wrong: str) -> None:
    with pytest.raises(DatabaseWrong, match="sqlite:///"):
        open_outbox(wrong)


async def test_a_row_that_was_committed_late_comes_before_what_saw_it(postgres_url: str) -> None:
    """Ids are given out before commits: a lower one may come after a higher one was sealed."""
    outbox = open_outbox(postgres_url)
    await outbox.make()
    slow, quick = [await asyncpg.connect(postgres_url) for _ in range(2)]
    async with slow.transaction():
        await slow.execute("SELECT timerd.schedule('mails', 'first', now(), key => 'a')")
        await quick.execute("SELECT timerd.schedule('mails', 'other', now())")
        assert [row.payload for row in rows_in(await sealed(outbox))] == [b"other"]
    await quick.execute("SELECT timerd.cancel('a')")
    first = await sealed(outbox)
    assert [(row.verb, row.payload) for row in rows_in(first)] == [(1, b"first"), (2, b"")]
    for each in (slow, quick):
        await each.close()
    await outbox.close()


async def test_an_application_needs_to_insert_only(postgres_url: str) -> None:
    outbox = open_outbox(postgres_url)
    await outbox.make()
    owner = await asyncpg.connect(postgres_url)
    name = postgres_url.rpartition("/")[2]
    await owner.execute(f"CREATE ROLE app_{name} LOGIN; GRANT USAGE ON SCHEMA timerd TO app_{name}")
    await owner.execute(f"GRANT INSERT ON timerd.outbox TO app_{name}; SET ROLE app_{name}")
    await owner.execute("SELECT timerd.schedule('mails', 'x', now() + interval '30 days', key => 'bill-42')")
    await owner.execute("SELECT timerd.reschedule('bill-42', now()); SELECT timerd.cancel('bill-42')")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await owner.execute("SELECT * FROM timerd.outbox")
    await owner.close()
    assert (await outbox.facts()).rows == 3
    await outbox.close()


async def test_a_row_that_mysql_commits_late_comes_before_what_saw_it(mysql_url: str) -> None:
    """As in PostgreSQL: ids are given out before commits."""
    outbox = open_outbox(mysql_url)
    await outbox.make()
    slow, quick = [await MysqlShop.opened(mysql_url) for _ in range(2)]
    scheduled = "INSERT INTO timerd_outbox (queue, payload, fire_at_ms, `key`) VALUES ('mails', %s, 1, %s)"
    async with slow.transaction():
        await slow.run(scheduled, b"first", "a")
        async with quick.transaction():
            await quick.run(scheduled, b"other", None)
        assert [row.payload for row in rows_in(await sealed(outbox))] == [b"other"]
    async with quick.transaction():
        await quick.run("INSERT INTO timerd_outbox (verb, `key`) VALUES (2, 'a')")
    first = await sealed(outbox)
    assert [(row.verb, row.payload) for row in rows_in(first)] == [(1, b"first"), (2, b"")]
    for each in (slow, quick):
        await each.close()
    await outbox.close()


async def test_a_mysql_whose_commits_a_crash_undoes_is_not_used(mysql: MysqlServer, mysql_url: str) -> None:
    shop = await MysqlShop.opened(mysql_url)
    outbox = open_outbox(mysql_url)
    await shop.run("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
    try:
        with pytest.raises(DatabaseWrong, match="set innodb_flush_log_at_trx_commit to 1"):
            await outbox.make()
    finally:
        await shop.run("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    await outbox.make()
    await shop.close()
    await outbox.close()


async def test_an_application_of_mysql_needs_to_insert_only(mysql_url: str) -> None:
    outbox = open_outbox(mysql_url)
    await outbox.make()
    owner, name = await MysqlShop.opened(mysql_url), mysql_url.rpartition("/")[2]
    await owner.run(f"CREATE USER {name}@'127.0.0.1'")
    await owner.run(f"GRANT INSERT ON {name}.timerd_outbox TO {name}@'127.0.0.1'")
    shop = await MysqlShop.opened(mysql_url.replace("//app@", f"//{name}@"))
    async with shop.transaction():
        await shop.run("INSERT INTO timerd_outbox (verb, `key`) VALUES (2, 'bill-42')")
    with pytest.raises(shop.failures, match="SELECT command denied"):
        await shop.run("SELECT * FROM timerd_outbox")
    for each in (shop, owner):
        await each.close()
    assert (await outbox.facts()).rows == 1
    await outbox.close()
