"""A change of a register whose outcome is unknown: what a serial read can say of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from timerd.adapters.memory import MemoryStore
from timerd.model.errors import StoreUnknown
from timerd.model.registers import RegisterKey, Table
from timerd.model.storage import Cas, CasResult, CasStatus
from timerd.services.holding import registers
from timerd.services.holding.registers import try_cas

KEY = RegisterKey(Table.MOVES, b"it")
UNKNOWN = CasResult(CasStatus.UNKNOWN)


class Forgetful(MemoryStore):
    """`befalls`: for each change that is asked for, what is written in its place. The answers are lost; after that all
    is well again."""

    def __init__(self, *befalls: Callable[[MemoryStore, Cas], Sequence[bytes]]) -> None:
        super().__init__()
        self.befalls = list(befalls)

    async def cas(self, changes: Sequence[Cas]) -> Sequence[CasResult]:
        if not self.befalls:
            return await super().cas(changes)
        befalls = self.befalls.pop(0)
        for value in befalls(self, changes[0]):
            expected = (await self.read([KEY]))[0]
            await super().cas([Cas(KEY, expected, value)])
        return [UNKNOWN for _ in changes]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "CAS_PAUSE_S", 0)


async def test_what_was_done_and_what_was_not_done_are_found_out() -> None:
    for befalls in (lambda _, change: [change.value], lambda *_: []):
        assert (await try_cas(Forgetful(befalls), Cas(KEY, None, b"mine"))).status is CasStatus.APPLIED


async def test_what_may_have_been_done_and_overwritten_stays_unknown() -> None:
    store = Forgetful(lambda _, change: [change.value, b"another's"])
    assert await try_cas(store, Cas(KEY, None, b"mine")) == CasResult(CasStatus.UNKNOWN, b"another's")


async def test_a_try_that_is_done_late_does_not_refuse_the_next_one() -> None:
    """By the time the register was read it had not arrived."""
    late: list[bytes] = []

    class Slow(Forgetful):
        async def cas(self, changes: Sequence[Cas]) -> Sequence[CasResult]:
            for value in late:
                await MemoryStore.cas(self, [Cas(KEY, None, value)])
            return await super().cas(changes)

    def on_its_way(_: MemoryStore, change: Cas) -> list[bytes]:
        late.append(change.value)
        return []

    assert (await try_cas(Slow(on_its_way), Cas(KEY, None, b"mine"))).status is CasStatus.APPLIED


async def test_a_store_that_takes_nothing_in_is_given_up() -> None:
    store = Forgetful(*(lambda *_: () for _ in range(10)))
    with pytest.raises(StoreUnknown):
        await try_cas(store, Cas(KEY, None, b"mine"))
