"""The keeper of a key shard at the store: a change that was not heard of is neither lost nor believed."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from timerd.adapters.memory import MemoryStore
from timerd.core.ordering import OrderKeys
from timerd.model.errors import StoreUnavailable
from timerd.model.key_shards import NOBODY, ShardKeeper, keeper_key
from timerd.model.partition import BUCKET_MS, FIRST_KEY_SHARD, TIME_SCOPE, Partition
from timerd.model.storage import Cas, CasResult, CasStatus
from timerd.services.holding.held import Machines
from timerd.services.holding.key_keeping import KeyKeeping

SHARD = FIRST_KEY_SHARD + 3
AT = Partition(TIME_SCOPE, BUCKET_MS, SHARD)


class Deaf(MemoryStore):
    """Of the next change nobody hears whether it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.next: str = ""

    async def cas(self, changes: Sequence[Cas]) -> Sequence[CasResult]:
        how, self.next = self.next, ""
        if how == "lost":
            raise StoreUnavailable("It does not answer.", "STORE")
        said = await super().cas(changes)
        if how == "made":
            raise StoreUnavailable("It does not answer.", "STORE")
        return [CasResult(CasStatus.UNKNOWN, each.current) for each in said] if how == "unknown" else said

    async def keeper(self) -> ShardKeeper:
        [stored] = await self.read([keeper_key(SHARD)])
        return NOBODY if stored is None else ShardKeeper.from_bytes(stored)


class Keeping:
    """Of the instance `a`; `place`: with whom the shard is placed."""

    def __init__(self) -> None:
        self.place = "a"
        self.store, self.keys = Deaf(), OrderKeys()
        membership: Any = SimpleNamespace(name="a", incarnation=7, confirm=self._confirm, may_take=self._may_take)
        hand_over: Any = SimpleNamespace(place_of=lambda _: self.place, is_leaving=False)
        self._keeping = KeyKeeping(self.keys, self.store, membership, hand_over, Machines())

    async def _confirm(self, _: ShardKeeper) -> None:
        """Whoever is named lives."""

    def _may_take(self, known: ShardKeeper) -> bool:
        return known.holder in ("", "a")

    @property
    def keeps(self) -> bool:
        return SHARD in self.keys.kept_shards

    async def step(self, *wanted: Partition) -> None:
        try:
            await self._keeping.step(wanted)
        except StoreUnavailable:
            """As the scheduler does, it goes on with the next step."""


async def test_who_is_placed_takes_the_register_and_leaves_it_in_peace() -> None:
    here = Keeping()
    await here.step(AT)
    assert (here.keeps, (await here.store.keeper()).holder) == (True, "a")
    here.keys.kept_shards.owe(SHARD, 9_000)
    here.place = "b"
    await here.step()
    left = await here.store.keeper()
    assert (here.keeps, left.holder, left.from_ms) == (False, "", 9_000)
    assert here.keys.kept_shards.owed_ms(SHARD) == 0


@pytest.mark.parametrize("how", ["lost", "made", "unknown"])
async def test_a_shard_whose_register_was_left_unheard_is_left_again(how: str) -> None:
    """Else it would name an instance for ever that lives and does not keep it."""
    here = Keeping()
    await here.step(AT)
    here.keys.kept_shards.owe(SHARD, 9_000)
    here.place, here.store.next = "b", how
    await here.step()
    assert not here.keeps
    await here.step()
    left = await here.store.keeper()
    assert (left.holder, left.from_ms) == ("", 9_000)


@pytest.mark.parametrize("how", ["lost", "made", "unknown"])
async def test_a_shard_that_was_taken_unheard_is_left_where_it_is_placed_elsewhere_by_then(how: str) -> None:
    here = Keeping()
    here.store.next = how
    await here.step(AT)
    here.place = "b"
    await here.step()
    assert (here.keeps, (await here.store.keeper()).holder) == (False, "")


async def test_a_shard_that_was_taken_unheard_is_taken_again() -> None:
    here = Keeping()
    here.store.next = "made"
    await here.step(AT)
    assert not here.keeps
    await here.step(AT)
    assert (here.keeps, (await here.store.keeper()).token) == (True, 2)


async def test_what_workers_have_of_tasks_that_are_over_keeps_a_shard_back_that_comes_again() -> None:
    here = Keeping()
    await here.step(AT)
    kept = here.keys.kept_shards
    kept.owe(SHARD, 9_000)
    for now_ms, known_ms in ((8_999, False), (9_000, True)):
        kept.begin_look(now_ms)
        kept.looked()
        assert (kept.known_ms(SHARD) == now_ms) is known_ms
