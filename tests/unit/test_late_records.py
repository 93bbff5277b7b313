"""The record of a holder that was replaced comes after its successor has read the others: by it the task is over, or
lives elsewhere, and the successor would send it once more. Whoever passes the task's key on tells him first, and who
ends the task asks him as well."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.property.world import QUEUES, World, done
from tests.services.fake_scheduler import scheduler_with
from tests.unit.procedure_rig import NAME, Result, delivered, run, scheduled, with_key
from timerd.core.partition.effects import WriteSettled
from timerd.core.partition.holding import Asked, Offered, Phase
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.partition.settled_index import keys_of
from timerd.core.protocol.cancel import Cancelled, end_task
from timerd.core.protocol.keys import Conflict, Reserved, activate, reserve, resolve
from timerd.core.protocol.late_record import tell_end
from timerd.core.protocol.lookup import locate
from timerd.core.protocol.move import Wish, move_task
from timerd.core.protocol.procedures import AskToEnd, AskToMove, HolderAnswer, OfferRows, Procedure
from timerd.core.taken import Again, Ended
from timerd.model.errors import StoreUnknown, Unavailable
from timerd.model.identity import RowKey
from timerd.model.outcomes import MARK_OF_OUTCOME
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.registers import Control
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome, SettleRecord
from timerd.model.storage import DeadLetter
from timerd.services.engine.elsewhere import Elsewhere
from timerd.services.engine.verbs import State
from timerd.services.holding.driving import drive
from timerd.services.holding.procedure_runner import ProcedureRunner

SILENT = HolderAnswer(Asked.SILENT)


class Far:
    """The holders as another instance sees them."""

    side_by_side = 1
    is_single = False

    def __init__(self, world: World) -> None:
        self._own = world.runner.own
        self.silent: set[Partition] = set()

    def is_here(self, partition: Partition) -> bool:
        return False

    async def ask_to_end(self, partition: Partition, asks: Sequence[AskToEnd]) -> list[HolderAnswer]:
        return [SILENT] * len(asks) if partition in self.silent else await self._own.ask_to_end(asks)

    async def ask_to_move(self, partition: Partition, asks: Sequence[AskToMove]) -> list[HolderAnswer]:
        return list(map(self._own.ask_to_move, asks))

    async def offer(self, request: OfferRows) -> Offered | None:
        return self._own.offer(request)

    async def in_hand(self, partition: Partition, rows: Sequence[tuple[RowKey, int]]) -> Sequence[bool]:
        return [False] * len(rows)

    async def may_return(self, partition: Partition, key: RowKey) -> bool:
        return False

    def hint(self, partition: Partition, rows: RowGroup, source: int, control: bytes | None) -> bool:
        """It is found by the next sweep."""
        return True

    def recheck(self, partition: Partition, digests: Sequence[bytes]) -> None:
        self._own.recheck(partition, digests)

    def hand_over(self, address: str, partition: Partition, control: Control | None) -> None:
        """It looks by itself."""


class Story:
    """`old` has the key and has ended with its first holder; `new` is about to take it, with an instance that holds
    nothing."""

    def __init__(self, outcome: Outcome) -> None:
        self.world = World()
        self.old, self.new = scheduled(self.world, 0, 40_000)
        with_key(self.world, self.old)
        delivered(self.world, self.old)
        self.late = self._ended(outcome)
        self.world.crash()
        self.far = Far(self.world)
        world = cast(Any, self.world)
        self.runner = ProcedureRunner(self.world.store, world, lambda *_: None, lambda _: self.far)

    def _ended(self, outcome: Outcome) -> SettleRecord:
        """The record, on its way to the store."""
        partition, key = self.old.partition, self.old.key
        assert partition is not None
        assert key is not None
        machine = self.world.machines[partition]
        if outcome is Outcome.CARRIED:
            machine.again([Again(partition, key, key.position_ms + BUCKET_MS, self.world.now_ms, "no")])
        else:
            machine.end([Ended(partition, key, outcome)])
        self.world.settle_soon(machine)
        [effect] = [effect for effect, _ in self.world.pending if isinstance(effect, WriteSettled)]
        return effect.record

    def lands(self) -> None:
        done(self.world.store.settle([self.late]))

    def succeeded(self) -> PartitionMachine:
        """Another instance has the partition."""
        self.world.reconcile()
        self.world.settle_down()
        return self.holder()

    def holder(self) -> PartitionMachine:
        return self.world.machines[self.late.partition]

    def run(self, procedure: Procedure[Result]) -> Result:
        return done(drive(procedure, self.runner))

    def claimed(self, policy: Conflict = Conflict.REPLACE) -> Reserved:
        return self.run(reserve(NAME, self.new.id, policy))

    def is_replaced(self, claim: Reserved) -> bool:
        return self.run(activate(NAME, self.new.id, claim)) is None and self.run(resolve(NAME)) == self.new.id

    def deliveries(self) -> int:
        """After all that is due has been sent."""
        self.world.settle_down()
        self.world.take(QUEUES[0], 10)
        return self.old.deliveries


@pytest.fixture(params=[Outcome.ACKED, Outcome.DEAD], ids=["acked", "dead"])
def story(request: pytest.FixtureRequest) -> Story:
    return Story(request.param)


@pytest.mark.parametrize("policy", Conflict)
def test_a_key_is_free_by_a_late_record_when_the_present_holder_knows_it(story: Story, policy: Conflict) -> None:
    story.succeeded()
    story.lands()
    claim = story.claimed(policy)
    assert claim == Reserved(stored=claim.stored)
    assert story.is_replaced(claim)
    assert story.deliveries() == 1


def test_a_record_that_comes_when_the_key_is_reserved_is_told_before_the_key_is_passed_on(story: Story) -> None:
    story.succeeded()
    claim = story.claimed()
    assert claim.replaces == (story.old.id,)
    story.lands()
    assert story.is_replaced(claim)
    assert story.deliveries() == 1


def test_a_holder_that_still_reads_its_rows_remembers_it(story: Story) -> None:
    story.world.reconcile()
    while story.holder().phase is not Phase.LOAD:
        story.world.run([0])
    story.lands()
    assert story.is_replaced(story.claimed())
    assert story.deliveries() == 1


def test_what_nobody_holds_is_over_by_its_record(story: Story) -> None:
    story.lands()
    assert story.is_replaced(story.claimed())
    story.succeeded()
    assert story.deliveries() == 1


def test_where_nobody_else_can_be_the_holder_nobody_is_asked(story: Story) -> None:
    story.lands()
    story.world.runner._handlers.pop(AskToEnd)
    assert run(story.world, reserve(NAME, story.new.id, Conflict.KEEP)).taken_by is None


@pytest.mark.parametrize("policy", [Conflict.KEEP, Conflict.REJECT])
def test_a_task_that_is_with_a_worker_again_keeps_its_key(story: Story, policy: Conflict) -> None:
    story.succeeded()
    assert story.deliveries() == 2
    story.lands()
    assert story.claimed(policy).taken_by == story.old.id


def fails(story: Story) -> None:
    story.world.nack(story.old, 1_000)
    story.world.settle_down()
    story.world.advance(2_000)


def test_a_task_that_is_with_a_worker_again_is_replaced_and_not_tried_again(story: Story) -> None:
    story.succeeded()
    assert story.deliveries() == 2
    story.lands()
    assert story.is_replaced(story.claimed())
    fails(story)
    assert story.deliveries() == 2


def test_a_task_that_was_carried_on_by_the_present_holder_lives_there(story: Story) -> None:
    """He sent it again, and that delivery failed."""
    story.succeeded()
    story.lands()
    assert story.deliveries() == 2
    fails(story)
    assert story.claimed(Conflict.KEEP).taken_by == story.old.id
    assert story.is_replaced(story.claimed())
    assert story.deliveries() == 2


@pytest.mark.parametrize("policy", Conflict)
def test_a_key_is_not_passed_on_by_a_late_record_while_the_present_holder_is_silent(
    story: Story, policy: Conflict
) -> None:
    story.succeeded()
    story.lands()
    story.far.silent = {story.late.partition}
    claim = story.claimed(policy)
    assert claim.replaces == (story.old.id,)
    with pytest.raises(StoreUnknown):
        story.is_replaced(claim)
    story.far.silent = set()
    assert story.is_replaced(claim)
    assert story.deliveries() == 1


def test_a_holder_that_was_told_of_a_dead_letter_sends_it_when_it_lives_again() -> None:
    story = Story(Outcome.DEAD)
    story.succeeded()
    story.lands()
    assert story.run(tell_end(story.run(locate(story.old.id)))).asked is Asked.ENDED
    now_ms = story.world.now_ms
    wish = Wish("redrive", now_ms + 1_000, now_ms, 86_400_000, cast(DeadLetter, SimpleNamespace(history="")))
    story.old.fire_at_ms = {story.run(move_task(story.old.id, wish))}
    assert story.deliveries() == 1
    story.world.advance(2_000)
    assert story.deliveries() == 2


def rejected(story: Story) -> bool:
    """What the worker hears that had the delivery of the first holder."""
    [key] = keys_of(story.late.entries)
    scheduler = scheduler_with({}, store=story.world.store, procedures=story.runner)
    return done(Elsewhere(scheduler, story.world.store).end(Ended(story.late.partition, key, Outcome.DEAD)))


def test_a_reject_is_confirmed_by_a_late_record_when_the_present_holder_knows_it() -> None:
    story = Story(Outcome.DEAD)
    story.succeeded()
    story.lands()
    story.far.silent = {story.late.partition}
    with pytest.raises(Unavailable):
        rejected(story)
    story.far.silent = set()
    assert rejected(story)
    assert story.deliveries() == 1


def test_a_reject_is_not_confirmed_by_a_late_record_while_another_worker_has_the_task() -> None:
    """That one acknowledges it, and by then the first one knows."""
    story = Story(Outcome.DEAD)
    story.succeeded()
    assert story.deliveries() == 2
    story.lands()
    with pytest.raises(Unavailable, match="may end it in another way"):
        rejected(story)
    story.world.ack(story.old)
    story.world.settle_down()
    assert not rejected(story)


def ends_too(story: Story, outcome: Outcome) -> None:
    """The present holder has sent the task again, which ends so by the word of that worker: the record is on its way.
    Whoever waits for it sees it come."""
    holder = story.succeeded()
    assert story.deliveries() == 2
    [key] = keys_of(story.late.entries)
    holder.end([Ended(story.late.partition, key, outcome)])
    story.world.settle_soon(holder)

    async def durable(*_: object) -> None:
        story.world.settle_down()

    cast(Any, story.world).durable = durable


@pytest.mark.parametrize(("late", "since"), [(Outcome.ACKED, Outcome.DEAD), (Outcome.DEAD, Outcome.ACKED)])
async def test_a_task_has_ended_as_its_present_holder_has_ended_it_whatever_a_late_record_says(
    late: Outcome, since: Outcome
) -> None:
    """The record of that is the later one, and counts."""
    story = Story(late)
    ends_too(story, since)
    story.lands()
    here = story.run(locate(story.old.id))
    assert here.ending.outcome is late
    assert await drive(tell_end(here), story.runner) == HolderAnswer(Asked.ENDED, since)
    assert story.run(locate(story.old.id)).ending.outcome is since


async def test_a_reject_is_not_confirmed_by_a_late_record_where_the_task_was_acked_since() -> None:
    story = Story(Outcome.DEAD)
    ends_too(story, Outcome.ACKED)
    story.lands()
    [key] = keys_of(story.late.entries)
    elsewhere = Elsewhere(scheduler_with({}, store=story.world.store, procedures=story.runner), story.world.store)
    assert not await elsewhere.end(Ended(story.late.partition, key, Outcome.DEAD))
    assert await elsewhere.ended_as(story.late.partition, key) is State.ACKED


@pytest.mark.parametrize("outcome", [Outcome.DEAD, Outcome.EXPIRED])
async def test_a_late_ack_is_not_counted_by_its_mark_while_another_end_is_on_its_way_to_the_store(
    outcome: Outcome,
) -> None:
    """The mark would count if that end were never written; so who acked is answered when it is."""
    story = Story(Outcome.ACKED)
    ends_too(story, outcome)
    said = await drive(end_task(story.old.id, Outcome.ACKED, b"late ack", 0), story.runner)
    assert said is Cancelled.ALREADY_FIRED
    assert story.run(locate(story.old.id, durable=True)).ending.outcome is outcome


def test_an_ack_that_the_holder_did_not_hear_ends_the_task_before_its_key_is_passed_on() -> None:
    """It has its mark; he sent the task again, and carried it on to where there is none."""
    story = Story(Outcome.ACKED)
    story.succeeded()
    story.far.silent = {story.late.partition}
    assert story.run(end_task(story.old.id, Outcome.ACKED, b"late ack", 0)) is Cancelled.PENDING
    assert story.deliveries() == 2
    fails(story)
    assert story.claimed(Conflict.KEEP).replaces == (story.old.id,)
    story.far.silent = set()
    assert story.is_replaced(story.claimed(Conflict.KEEP))
    assert story.deliveries() == 2


@pytest.fixture
def carried() -> Story:
    """By the late record it goes on in another bucket, where no row is; the present holder has it where it was."""
    return Story(Outcome.CARRIED)


@pytest.mark.parametrize("outcome", MARK_OF_OUTCOME)
def test_who_ends_a_task_reaches_its_row_where_a_late_record_says_that_it_was_carried_on(
    carried: Story, outcome: Outcome
) -> None:
    carried.succeeded()
    carried.lands()
    assert carried.run(end_task(carried.old.id, outcome, b"r")) is Cancelled.CANCELLED
    assert carried.deliveries() == 1


def test_so_does_a_holder_that_comes_later(carried: Story) -> None:
    carried.lands()
    assert carried.run(end_task(carried.old.id, Outcome.CANCELLED, b"r")) is Cancelled.CANCELLED
    carried.succeeded()
    carried.world.advance(BUCKET_MS + 1_000)
    assert carried.deliveries() == 1


def test_what_was_sent_again_from_there_is_in_flight(carried: Story) -> None:
    carried.succeeded()
    assert carried.deliveries() == 2
    carried.lands()
    assert carried.run(end_task(carried.old.id, Outcome.CANCELLED, b"r")) is Cancelled.IN_FLIGHT


def test_a_holder_there_that_is_silent_leaves_a_cancel_pending(carried: Story) -> None:
    carried.succeeded()
    carried.lands()
    carried.far.silent = {carried.late.partition}
    assert carried.run(end_task(carried.old.id, Outcome.CANCELLED, b"r")) is Cancelled.PENDING


def test_a_key_is_not_passed_on_before_the_row_in_the_old_place_is_over(carried: Story) -> None:
    carried.succeeded()
    carried.lands()
    assert carried.claimed(Conflict.KEEP).taken_by == carried.old.id
    assert carried.is_replaced(carried.claimed())
    assert carried.deliveries() == 1


@pytest.mark.parametrize("outcome", MARK_OF_OUTCOME)
def test_what_was_ended_before_a_late_record_carries_it_on_has_ended_where_that_leads(
    carried: Story, outcome: Outcome
) -> None:
    """Its mark is where the row was, which is read by the next holder and not by the holder of the other bucket."""
    assert carried.run(end_task(carried.old.id, outcome, b"r")) is Cancelled.CANCELLED
    carried.lands()
    carried.succeeded()
    carried.world.advance(BUCKET_MS + 1_000)
    assert carried.deliveries() == 1


def test_what_was_moved_before_a_late_record_carries_it_on_lives_where_it_was_moved_to(carried: Story) -> None:
    now_ms = carried.world.now_ms
    carried.old.fire_at_ms = {carried.run(move_task(carried.old.id, Wish("later", now_ms + 1_000, now_ms, 86_400_000)))}
    carried.lands()
    carried.succeeded()
    carried.world.advance(2_000)
    assert carried.deliveries() == 2
    carried.world.advance(BUCKET_MS + 1_000)
    assert carried.deliveries() == 2


def test_what_was_neither_comes_once_more_by_a_late_record(carried: Story) -> None:
    carried.lands()
    carried.succeeded()
    carried.world.advance(BUCKET_MS + 1_000)
    assert carried.deliveries() == 2
