"""Registers: compare-and-set is the only way to change one, and a read sees every change that was applied."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set

import pytest

from timerd.model.registers import RegisterKey, Table, control_key, move_key, name_key
from timerd.ports import Cas, CasResult, CasStatus, Look, Store
from timerd.testing.contracts.build import HERE, NEXT

KEY = control_key(HERE)


async def _moved(store: Store, digests: Sequence[bytes]) -> Set[bytes]:
    return (await store.look(Look((), digests))).moved


@pytest.mark.asyncio
class RegistersContract:
    async def test_what_was_never_set_is_absent(self, store: Store) -> None:
        assert list(await store.read([KEY, move_key(b"d" * 16)])) == [None, None]

    async def test_who_was_moved_is_told_for_many_at_once(self, store: Store) -> None:
        """Of one message, and of many."""
        siblings, others = [b"m" * 12 + bytes((0, 0, 0, n)) for n in range(40)], [bytes((n,)) * 16 for n in range(40)]
        moved = {siblings[3], siblings[39], others[7]}
        await store.cas([Cas(move_key(each), None, b"1") for each in (*moved, b"m" * 12 + b"\xff" * 4)])
        assert await _moved(store, siblings) == moved & {*siblings}
        assert await _moved(store, [*others, *siblings[:4]]) == {siblings[3], others[7]}
        assert await _moved(store, others[:5]) == set()

    async def test_cas_applies_only_to_the_expected_value(self, store: Store) -> None:
        assert list(await store.cas([Cas(KEY, None, b"1")])) == [CasResult(CasStatus.APPLIED)]
        assert list(await store.cas([Cas(KEY, None, b"2")])) == [CasResult(CasStatus.REFUSED, b"1")]
        assert list(await store.cas([Cas(KEY, b"0", b"2")])) == [CasResult(CasStatus.REFUSED, b"1")]
        assert list(await store.cas([Cas(KEY, b"1", b"")])) == [CasResult(CasStatus.APPLIED)]
        assert list(await store.read([KEY])) == [b""]

    async def test_absent_is_not_what_an_empty_value_is(self, store: Store) -> None:
        (refused,) = await store.cas([Cas(KEY, b"", b"1")])
        assert refused == CasResult(CasStatus.REFUSED, None)
        await store.cas([Cas(KEY, None, b"")])
        (refused,) = await store.cas([Cas(KEY, None, b"1")])
        assert refused == CasResult(CasStatus.REFUSED, b"")

    async def test_each_change_of_a_call_is_on_its_own(self, store: Store) -> None:
        changes = [Cas(KEY, None, b"1"), Cas(KEY, None, b"2"), Cas(control_key(NEXT), None, b"3")]
        assert [r.status for r in await store.cas(changes)] == [
            CasStatus.APPLIED,
            CasStatus.REFUSED,
            CasStatus.APPLIED,
        ]
        assert list(await store.read([control_key(NEXT), KEY])) == [b"3", b"1"]

    async def test_of_many_changes_of_a_call_each_is_on_its_own(self, store: Store) -> None:
        """More than one statement takes: all as expected, then two not, of one that is there and one that is not."""
        keys = [name_key("default", f"k{n}") for n in range(300)]
        said = await store.cas([Cas(key, None, b"1") for key in keys])
        assert [r.status for r in said] == [CasStatus.APPLIED] * 300
        changes = [Cas(key, b"1", b"2") for key in keys]
        changes[200], changes[7] = Cas(keys[200], b"0", b"2"), Cas(name_key("default", "none"), b"1", b"2")
        refused = {n: r for n, r in enumerate(await store.cas(changes)) if r.status is not CasStatus.APPLIED}
        assert refused == {7: CasResult(CasStatus.REFUSED, None), 200: CasResult(CasStatus.REFUSED, b"1")}
        now = [b"1" if n in (7, 200) else b"2" for n in range(300)]
        assert list(await store.read(keys)) == now

    async def test_a_change_of_a_call_finds_what_an_earlier_one_has_written(self, store: Store) -> None:
        changes = [Cas(KEY, None, b"1"), Cas(KEY, b"1", b"2"), Cas(KEY, b"2", b"3")]
        assert [r.status for r in await store.cas(changes)] == [CasStatus.APPLIED] * 3
        assert list(await store.read([KEY])) == [b"3"]

    async def test_of_those_who_expect_the_same_one_wins(self, store: Store) -> None:
        results = await asyncio.gather(*(store.cas([Cas(KEY, None, b"%d" % n)]) for n in range(10)))
        applied = [n for n, (result,) in enumerate(results) if result.status == CasStatus.APPLIED]
        assert len(applied) == 1
        winner = b"%d" % applied[0]
        assert list(await store.read([KEY])) == [winner]
        assert {r.current for (r,) in results if r.status == CasStatus.REFUSED} == {winner}

    async def test_equal_names_of_different_tables_are_different(self, store: Store) -> None:
        one, other = RegisterKey(Table.MOVES, b"n"), RegisterKey(Table.KEYS, b"n")
        await store.cas([Cas(one, None, b"1")])
        assert list(await store.read([one, other])) == [b"1", None]

    @pytest.mark.parametrize("table", Table)
    async def test_there_are_registers_of_every_kind(self, store: Store, table: Table) -> None:
        key = RegisterKey(table, b"any")
        assert list(await store.cas([Cas(key, None, b"1")])) == [CasResult(CasStatus.APPLIED)]
        assert list(await store.cas([Cas(key, b"1", b"2")])) == [CasResult(CasStatus.APPLIED)]
        assert list(await store.read([key])) == [b"2"]

    async def test_a_register_that_may_expire_later_is_there(self, store: Store) -> None:
        name = name_key("default", "k")
        await store.cas([Cas(name, None, b"1", expires_at_ms=1 << 50)])
        assert list(await store.read([name])) == [b"1"]

    async def test_drop_of_a_partition_leaves_its_register(self, store: Store) -> None:
        await store.cas([Cas(KEY, None, b"1")])
        await store.drop(HERE)
        assert list(await store.read([KEY])) == [b"1"]
