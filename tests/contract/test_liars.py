"""A store that declares a trait which it does not have fails the contract of traits: one liar for each trait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace

import pytest

from tests.property.rereading import RereadingStore
from timerd.adapters.memory import MemoryStore
from timerd.model.store_traits import StoreTraits
from timerd.ports import Append, Appended, Mark, Store
from timerd.testing.contracts import TraitsContract

CONTRACT = TraitsContract()


class ForgetfulStore(MemoryStore):
    async def append(self, messages: Sequence[Append]) -> Sequence[Appended]:
        return await super().append([replace(message, prefix=b"") for message in messages])


class StoreWithoutCursors(RereadingStore):
    traits = replace(RereadingStore.traits, has_cursors=True)


class UnorderedStore(MemoryStore):
    traits = replace(MemoryStore.traits, pages_in_order=True)


class UncountingStore(MemoryStore):
    async def mark(self, marks: Sequence[Mark]) -> int:
        await super().mark(marks)
        return len(marks)


class PrivateStore(MemoryStore):
    traits = replace(MemoryStore.traits, is_shared=True)


class BlindStore(MemoryStore):
    traits = replace(MemoryStore.traits, sees_disk=True)


async def beside_another(store: Store) -> None:
    await CONTRACT.test_what_one_has_written_the_other_reads(store, PrivateStore())


LIARS: Sequence[tuple[str, Store, Callable[[Store], Awaitable[None]]]] = [
    ("knows_repeats", ForgetfulStore(), CONTRACT.test_a_repeated_message_stores_nothing_and_gets_the_first_reply),
    ("has_cursors", StoreWithoutCursors(), CONTRACT.test_a_scan_by_cursor_brings_what_is_new_and_nothing_else),
    ("pages_in_order", UnorderedStore(), CONTRACT.test_pages_come_in_order_and_say_how_far_they_go),
    ("counts_marks", UncountingStore(), CONTRACT.test_a_store_counts_no_mark_that_is_not_the_first),
    ("is_shared", PrivateStore(), beside_another),
    ("sees_disk", BlindStore(), CONTRACT.test_the_facts_tell_what_is_used_and_what_is_free),
]


@pytest.mark.parametrize(("trait", "liar", "proof"), LIARS)
async def test_a_store_that_claims_what_it_lacks_is_found_out(
    trait: str, liar: Store, proof: Callable[[Store], Awaitable[None]]
) -> None:
    assert getattr(liar.traits, trait)
    with pytest.raises(AssertionError):
        await proof(liar)


def test_each_trait_has_a_liar() -> None:
    """But the one that is a figure."""
    traits = [trait.name for trait in fields(StoreTraits)]
    assert [trait for trait, _, _ in LIARS] == [name for name in traits if name != "commit_is_cheap"]
