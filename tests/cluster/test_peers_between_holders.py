"""A partition that changes hands while it is looked for: who is asked, and what stands for "nobody holds it"."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from timerd.adapters.memory import MemoryStore
from timerd.core.cluster.placement import holder_of
from timerd.core.partition.holding import Asked, Offered
from timerd.core.protocol.procedures import AskToEnd, AskToMove, HolderAnswer, OfferRows
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import Control, RegisterKey, control_key
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome
from timerd.model.storage import Cas
from timerd.services.holding.own_machines import OwnMachines
from timerd.services.peers.peer_wire import HintedRows, Holder
from timerd.services.peers.peers import Peers, Silent
from timerd.services.peers.remote_holders import LOOKS, RemoteHolders
from timerd.testing.contracts.build import HERE, digest, tasks

ASK = AskToEnd(HERE, RowKey(HERE.bucket_ms, digest("m"), 0), Outcome.CANCELLED, b"request")
WAITING, NOBODY, SILENT = HolderAnswer(Asked.WAITING), HolderAnswer(None), HolderAnswer(Asked.SILENT)
Answer = Callable[[Holder], HolderAnswer | None]


@dataclass
class Town:
    """Implements Members: this is instance a."""

    name: str = "a"
    names: tuple[str, ...] = ("a", "b", "c")
    over: set[str] = field(default_factory=set)
    # Known to be back as soon as one looks.
    back: set[str] = field(default_factory=set)

    def live(self) -> tuple[str, ...]:
        return self.names

    def address_of(self, name: str) -> str:
        return f"{name}:1" if name in self.names else ""

    def may_take(self, control: Control) -> bool:
        return control.holder in ("", self.name) or control.holder in self.over

    async def confirm(self, control: Control) -> None:
        self.over -= self.back


class Own:
    """The machines of this instance: none, but for what a test sets."""

    def __init__(self) -> None:
        self.held: int | None = None
        self.acquires = self.releases = False
        self.offered: list[RowGroup] = []

    def token(self, partition: Partition) -> int | None:
        return self.held

    def holds(self, partition: Partition) -> bool:
        return self.held is not None and not self.releases

    def is_acquiring(self, partition: Partition) -> bool:
        return self.acquires

    def offer(self, request: OfferRows) -> Offered:
        self.offered.append(request.rows)
        return Offered.BELOW_FLOOR

    async def ask_to_end(self, requests: Sequence[AskToEnd]) -> list[HolderAnswer]:
        return [WAITING for _ in requests]

    def ask_to_move(self, request: AskToMove) -> HolderAnswer:
        return WAITING


class Mail:
    """The calls to the others, and what they answer."""

    def __init__(self) -> None:
        self.asked: list[Holder] = []
        self.hinted: list[str] = []
        self.answer: Answer = lambda _: WAITING
        self.offers: dict[Holder, Offered] = {}

    async def ask_to_end(
        self, holder: Holder, partition: Partition, asks: Sequence[AskToEnd]
    ) -> list[HolderAnswer] | None:
        self.asked.append(holder)
        said = self.answer(holder)
        return [said] * len(asks) if said is not None else None

    async def ask_to_move(
        self, holder: Holder, partition: Partition, asks: Sequence[AskToMove]
    ) -> list[HolderAnswer] | None:
        self.asked.append(holder)
        said = self.answer(holder)
        return [said] * len(asks) if said is not None else None

    async def offer(self, holder: Holder, request: OfferRows) -> Offered | None:
        self.asked.append(holder)
        if (said := self.offers.get(holder)) is Offered.SILENT:
            raise Silent("no answer")
        return said

    def hint(self, address: str, hinted: HintedRows) -> None:
        self.hinted.append(address)


class Counting(MemoryStore):
    reads = 0

    async def read(self, keys: Sequence[RegisterKey]) -> Sequence[bytes | None]:
        self.reads += 1
        return await super().read(keys)


class Story:
    """`near`: whether rows of the partition are due soon."""

    def __init__(self) -> None:
        self.store, self.own, self.town, self.mail = Counting(), Own(), Town(), Mail()
        self.is_sure = self.is_near = True
        self.holders = RemoteHolders(
            self.store,
            cast(OwnMachines, self.own),
            self.town,
            cast(Peers, self.mail),
            lambda: self.is_sure,
            lambda _: self.is_near,
        )

    def control(self, holder: str, token: int, successor: str = "", finished_at_ms: int = 0) -> Control:
        return Control(token, holder, f"{holder}:old", HERE.end_ms, HERE.bucket_ms, finished_at_ms, successor=successor)

    async def held_by(self, holder: str, token: int, successor: str = "", finished_at_ms: int = 0) -> bytes:
        stored = (await self.store.read([control_key(HERE)]))[0]
        value = self.control(holder, token, successor, finished_at_ms).to_bytes()
        await self.store.cas([Cas(control_key(HERE), stored, value)])
        self.store.reads = 0
        return value

    async def ask(self) -> HolderAnswer:
        said = await self.holders.ask_to_end(HERE, [ASK])
        moved = await self.holders.ask_to_move(HERE, [AskToMove(HERE, ASK.key)])
        assert said == moved
        return moved[0]

    async def offer(self, control: bytes | None = None) -> Offered | None:
        return await self.holders.offer(OfferRows(HERE, tasks("m", [HERE.bucket_ms]), 0, control=control))


@pytest.fixture
def story() -> Story:
    return Story()


# -- who is asked ---------------------------------------------------------------------------------------------------


async def test_the_holder_is_asked_at_the_address_where_it_lives_now(story: Story) -> None:
    await story.held_by("b", 5)
    assert await story.ask() == WAITING
    story.town.names = ("a", "c")
    assert await story.ask() == WAITING
    assert story.mail.asked == [Holder("b", "b:1", 5)] * 2 + [Holder("b", "b:old", 5)] * 2


async def test_who_has_it_in_hand_reads_nothing(story: Story) -> None:
    story.own.held = 5
    assert story.holders.is_here(HERE)
    story.is_sure = False
    assert not story.holders.is_here(HERE)


async def test_what_this_instance_held_for_sure_it_still_answers_when_the_row_names_it(story: Story) -> None:
    """Its lease may be over; by its token it has sent nothing that it does not know of."""
    story.is_sure, story.own.held = False, 5
    await story.held_by("a", 5)
    assert await story.ask() == WAITING
    await story.held_by("a", 6)
    assert await story.ask() == NOBODY
    await story.held_by("b", 7)
    assert await story.ask() == WAITING
    assert {holder.name for holder in story.mail.asked} == {"b"}


async def test_who_is_letting_go_looks_whether_he_still_holds_it(story: Story) -> None:
    """The answer to his change may take longer than the next holder needs to load the partition."""
    story.own.held, story.own.releases = 5, True
    assert not story.holders.is_here(HERE)
    await story.held_by("a", 5)
    assert await story.ask() == WAITING
    assert story.mail.asked == []
    await story.held_by("b", 6)
    story.mail.answer = lambda _: HolderAnswer(Asked.OPEN)
    assert await story.ask() == HolderAnswer(Asked.OPEN)


@pytest.mark.parametrize(("holder", "finished_at_ms"), [("", 0), ("b", 1)])
async def test_what_is_free_or_finished_nobody_holds(story: Story, holder: str, finished_at_ms: int) -> None:
    assert await story.ask() == NOBODY
    await story.held_by(holder, 5, finished_at_ms=finished_at_ms)
    assert await story.ask() == NOBODY
    assert story.mail.asked == []


async def test_a_holder_whose_lease_is_over_is_not_asked(story: Story) -> None:
    await story.held_by("b", 5)
    story.town.over.add("b")
    assert await story.ask() == NOBODY
    assert story.mail.asked == []


async def test_a_holder_that_was_started_anew_is_not_taken_for_its_former_life(story: Story) -> None:
    """It holds by an incarnation that this instance has not seen yet: only a look tells that it lives."""
    await story.held_by("b", 7)
    story.town.over, story.town.back = {"b"}, {"b"}
    assert await story.ask() == WAITING
    assert {holder.name for holder in story.mail.asked} == {"b"}


async def test_many_who_ask_at_once_share_the_reads(story: Story) -> None:
    await story.held_by("b", 5)
    said = await asyncio.gather(*(story.holders.ask_to_end(HERE, [ASK]) for _ in range(100)))
    assert said == [[WAITING]] * 100
    assert story.store.reads <= 2


# -- not held -------------------------------------------------------------------------------------------------------


async def test_not_held_by_the_one_that_is_still_named_means_nobody(story: Story) -> None:
    """Whoever takes it next reads what is durable now."""
    await story.held_by("b", 5)
    story.mail.answer = lambda _: None
    assert await story.holders.ask_to_end(HERE, [ASK]) == [NOBODY]
    assert story.mail.asked == [Holder("b", "b:1", 5)]
    assert story.store.reads == 2


async def test_after_a_change_of_hands_the_next_holder_is_asked(story: Story) -> None:
    """Also a stale address leads there."""
    await story.held_by("b", 5)

    def handed_over(holder: Holder) -> HolderAnswer | None:
        if holder.name == "c":
            return WAITING
        story.store._registers[control_key(HERE)] = story.control("c", 6).to_bytes()
        return None

    story.mail.answer = handed_over
    assert await story.holders.ask_to_end(HERE, [ASK]) == [WAITING]
    assert [holder.name for holder in story.mail.asked] == ["b", "c"]


async def test_a_partition_that_goes_round_and_round_is_given_up(story: Story) -> None:
    await story.held_by("b", 5)

    def moves_on(holder: Holder) -> None:
        control = story.control("c" if holder.name == "b" else "b", holder.token + 1)
        story.store._registers[control_key(HERE)] = control.to_bytes()

    story.mail.answer = moves_on
    assert await story.holders.ask_to_end(HERE, [ASK]) == [SILENT]
    assert len(story.mail.asked) == LOOKS


async def test_no_answer_is_not_nobody(story: Story) -> None:
    await story.held_by("b", 5)

    def silent(_: Holder) -> HolderAnswer:
        raise Silent("no answer")

    story.mail.answer = silent
    assert await story.ask() == SILENT


# -- offers ---------------------------------------------------------------------------------------------------------


async def test_an_offer_goes_by_the_control_row_that_came_with_the_write(story: Story) -> None:
    control = await story.held_by("b", 5)
    story.mail.offers[Holder("b", "b:1", 5)] = Offered.ADOPTED
    assert await story.offer(control) is Offered.ADOPTED
    assert story.store.reads == 0


async def test_an_offer_follows_the_partition_to_its_next_holder(story: Story) -> None:
    """Else both the row and its second form would be sent."""
    control = await story.held_by("b", 5)
    await story.held_by("c", 6)
    story.mail.offers[Holder("c", "c:1", 6)] = Offered.ALREADY_HAVE
    assert await story.offer(control) is Offered.ALREADY_HAVE
    assert [holder.name for holder in story.mail.asked] == ["b", "c"]


async def test_a_holder_who_does_not_answer_an_offer_is_not_nobody(story: Story) -> None:
    """He may have taken the row in."""
    control = await story.held_by("b", 5)
    story.mail.offers[Holder("b", "b:1", 5)] = Offered.SILENT
    assert await story.offer(control) is Offered.SILENT


async def test_between_two_holders_the_successor_is_told(story: Story) -> None:
    control = await story.held_by("", 5, successor="c")
    story.mail.offers[Holder("c", "c:1", 0)] = Offered.BELOW_FLOOR
    assert await story.offer(control) is Offered.BELOW_FLOOR
    await story.held_by("", 5, successor="z")
    assert await story.offer() is None


async def test_who_is_about_to_hold_it_remembers_what_is_written_elsewhere(story: Story) -> None:
    story.own.acquires = True
    assert await story.offer() is Offered.BELOW_FLOOR
    assert len(story.own.offered) == 1
    story.own.acquires = False
    assert await story.offer() is None


async def test_who_hears_that_it_holds_it_while_it_looks_is_asked(story: Story) -> None:
    """It is about to read its rows, this one among them, and would send it beside what is written elsewhere."""
    control = await story.held_by("a", 5)

    async def read(keys: Sequence[RegisterKey]) -> Sequence[bytes | None]:
        story.own.held = 5
        return [control for _ in keys]

    story.store.read = read  # type: ignore[method-assign]
    assert await story.offer(control) is Offered.BELOW_FLOOR
    assert len(story.own.offered) == 1


# -- hints ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("control", "is_near", "heard"),
    [
        (("b", ""), True, "b:1"),
        (("b", ""), False, "b:1"),
        (("d", ""), True, "d:old"),
        (("a", ""), True, "placed"),
        (("", "c"), True, "c:1"),
        (("", "c"), False, "nobody"),
        (("", "z"), True, "placed"),
        (None, True, "placed"),
        (None, False, "nobody"),
    ],
)
def test_a_hint_goes_to_the_holder_or_to_who_should_be_it(
    story: Story, control: tuple[str, str] | None, is_near: bool, heard: str
) -> None:
    story.is_near, story.town.names = is_near, ("b", "c")
    row = story.control(control[0], 5, successor=control[1]).to_bytes() if control is not None else None
    is_taken = story.holders.hint(HERE, tasks("m", [HERE.bucket_ms]), 0, row)
    assert is_taken == (heard != "here")
    placed = f"{holder_of(HERE, ('b', 'c'))}:1"
    expected = {"here": [], "nobody": [], "placed": [placed]}.get(heard, [heard])
    assert story.mail.hinted == expected
    assert story.store.reads == 0


def test_a_hint_for_what_is_held_here_stays_here(story: Story) -> None:
    story.own.held = 5
    row = story.control("b", 4).to_bytes()
    assert not story.holders.hint(HERE, tasks("m", [HERE.bucket_ms]), 0, row)


def test_who_leaves_alone_keeps_its_hints(story: Story) -> None:
    story.town.names = ()
    assert story.holders.hint(HERE, tasks("m", [HERE.bucket_ms]), 0, None)
    assert story.mail.hinted == []
