"""What the partition machines of this instance answer: to its own procedures, and to those of other instances.

An answer counts for the token by which the machine holds its partition. Who asks has read the control row after its own
write was durable; a holder with the token named there has not sent anything since that it does not know of, and one
with a greater token reads the rows and marks after it got it. So who is asked need not prove that it still holds the
partition, only that it is the one that was named (protocol section 5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from timerd.core.partition import BY_WORD, UNMARKED, Asked, Offered, PartitionMachine, Phase
from timerd.core.protocol import AskToEnd, AskToEndMany, AskToMove, Ending, HolderAnswer, OfferRows, Vacant
from timerd.model.errors import StoreUnknown
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.settle import Outcome
from timerd.services.holding.held import Held
from timerd.services.holding.log_waits import NoLongerHeld

# So long a call waits until it is durable that a task has left its place.
LEAVING_S = 5.0
LOOK_AGAIN_S = 0.1
# How a caller ends a task.
BY_CALLERS = frozenset({Outcome.CANCELLED, Outcome.PURGED})
HOLDING = frozenset({Phase.RECOVER, Phase.LOAD, Phase.HOT, Phase.HAND_OVER, Phase.RELEASE, Phase.COUNT})


class OwnMachines:
    """Of one instance."""

    def __init__(self, held: Held) -> None:
        self._held = held

    def is_here(self, partition: Partition) -> bool:
        """Whether there is a machine, in whatever phase."""
        return partition in self._held.machines

    def vacant(self, partitions: Iterable[Partition]) -> Vacant:
        """Those that have no machine, in whatever phase."""
        machines = self._held.machines
        return Vacant({partition for partition in partitions if partition not in machines}, machines.changes)

    def token(self, partition: Partition) -> int | None:
        """By which this instance holds the partition; None: it does not, or does not know it yet."""
        machine = self._held.machines.get(partition)
        if machine is None or machine.phase not in HOLDING or machine.control is None:
            return None
        return machine.control.token

    def holds(self, partition: Partition) -> bool:
        """Until this instance itself lets go of it. Whether the change that does so has been made is not known before
        its answer comes; by then the next holder may have begun."""
        machine = self._held.machines.get(partition)
        return self.token(partition) is not None and machine is not None and machine.phase is not Phase.RELEASE

    def is_acquiring(self, partition: Partition) -> bool:
        machine = self._held.machines.get(partition)
        return machine is not None and machine.phase is Phase.ACQUIRE

    def offer(self, request: OfferRows) -> Offered | None:
        machine = self._held.machines.get(request.partition)
        if machine is None:
            return None
        answer = machine.offer(request.rows, request.source, is_repeat=request.is_repeat)
        self._held.wake()
        return answer

    async def ask_to_end(self, requests: Sequence[AskToEnd]) -> list[HolderAnswer]:
        """Where a row went is said when it is durable that it went. So is how it ended, to who asks about another word
        of a worker: that has its mark by now, by which the row ends if a crash takes this end back."""
        unsure = [(machine, request) for request in requests if (machine := self._is_unsure(request)) is not None]
        if unsure:
            await asyncio.gather(*(self._until_left(machine, request) for machine, request in unsure))
        return [self.answer(request) for request in requests]

    def _is_unsure(self, request: AskToEnd) -> PartitionMachine | None:
        """Taken along, because it may be dropped before anything else runs."""
        machine = self._held.machines.get(request.partition)
        if machine is None:
            return None
        return machine if not machine.has_left(request.key) or _contradicts(machine, request) else None

    async def _until_left(self, machine: PartitionMachine, request: AskToEnd) -> None:
        """Or until the machine is gone."""
        if await self._until_durable(machine) and not machine.has_left(request.key):
            # The procedure looks again: not in a circle without a pause.
            await asyncio.sleep(LOOK_AGAIN_S)

    async def until_durable(self, partition: Partition) -> bool:
        """Until a crash takes back nothing of what has ended there. False: it will not be this holder who writes it."""
        machine = self._held.machines.get(partition)
        return machine is not None and await self._until_durable(machine)

    async def _until_durable(self, machine: PartitionMachine) -> bool:
        try:
            async with asyncio.timeout(LEAVING_S):
                await self._held.durable(machine, machine.last_lsn)
        except NoLongerHeld:
            return False
        except TimeoutError as error:
            raise StoreUnknown("A task has just ended or left its place, and the store does not answer.") from error
        return True

    def answer(self, request: AskToEnd) -> HolderAnswer:
        machine = self._held.machines.get(request.partition)
        if machine is None:
            return HolderAnswer(None)
        asked, outcome = machine.ask(request.key)
        in_hand = request.outcome is not Outcome.ACKED and self._is_in_hand(request, asked)
        if not in_hand and asked is Asked.ENDED and outcome is not request.outcome:
            return HolderAnswer(asked, outcome)
        if request.outcome is Outcome.EXPIRED and (in_hand or asked is Asked.OPEN):
            # What a worker has from before that goes on as if nobody had asked.
            return HolderAnswer(Asked.OPEN)
        is_stopped = in_hand or (request.outcome is not Outcome.ACKED and asked is Asked.OPEN)
        given = machine.cancel(request.key, request.outcome, request.request, in_hand=is_stopped)
        if is_stopped and request.outcome in BY_CALLERS:
            self._held.interrupt(request.key)
        if in_hand and asked is not Asked.UNKNOWN and machine.is_stopped(request.key):
            return HolderAnswer(Asked.OPEN, None, given)
        if asked in (Asked.WAITING, Asked.ENDED):
            # Also where an outcome came first, which stands: it was given to a row that the task was carried from.
            machine.end_met(request.key, outcome or request.outcome)
            self._held.settle_soon(machine)
        # Another try of the call has heard that it is open, and perhaps said so.
        was_open = machine.stopped_by(request.key) == request.request
        return HolderAnswer(Asked.OPEN, None, given) if was_open else HolderAnswer(asked, outcome, given)

    def end_waiting(self, request: AskToEndMany) -> list[HolderAnswer] | None:
        """Of rows that nobody has in hand: the answers of all, or None, and nothing is done, where each is to be asked
        by itself."""
        machine = self._held.machines.get(request.partition)
        if machine is None:
            return None
        asked = machine.cancel_all(request.keys, request.outcome, request.request)
        if asked is Asked.WAITING:
            self._held.settle_soon(machine)
        return asked and [HolderAnswer(asked, None, request.request)] * len(request.keys)

    def has_lease(self, key: RowKey, lease_until_ms: int) -> bool:
        return self._held.has_lease(key, lease_until_ms)

    def may_return(self, partition: Partition, key: RowKey) -> bool | None:
        """Whether a worker has a delivery of the row, or may come back with one from before this instance held it.
        None: it does not hold it."""
        return self._held.may_return(partition, key)

    def may_have_in_hand(self, keys: Sequence[RowKey]) -> bool:
        """Whether a worker may have one of the rows, or a delivery that it waits for."""
        return self._held.may_have_in_hand(keys)

    def _is_in_hand(self, request: AskToEnd, asked: Asked) -> bool:
        """Its row was carried on, and waits for the delivery to end; or it has yet to be read."""
        if asked is Asked.OPEN:
            return False
        return self._held.has_in_hand(request.partition, request.key, request.lease_until_ms)

    def or_in_hand(self, asks: Sequence[AskToEnd], said: Sequence[HolderAnswer]) -> list[HolderAnswer]:
        """Between two holders, or while the next one still reads: what was handed over with its deliveries."""
        return [
            replace(answer, in_hand=self._has_in_hand(ask))
            if answer.asked in (None, Asked.UNKNOWN) and ask.outcome is not Outcome.ACKED
            else answer
            for ask, answer in zip(asks, said, strict=True)
        ]

    def _has_in_hand(self, request: AskToEnd) -> bool:
        """Of what nobody holds. Who asks with DEAD has found that record."""
        if request.outcome is Outcome.DEAD:
            return self._held.has_begun_again(request.partition, request.key)
        return self._held.has_in_hand(request.partition, request.key, request.lease_until_ms)

    def ask_to_move(self, request: AskToMove) -> HolderAnswer:
        machine = self._held.machines.get(request.partition)
        if machine is None:
            return self.or_with_worker(request, HolderAnswer(None))
        asked, outcome = machine.ask(request.key)
        said = self.or_with_worker(request, HolderAnswer(asked, outcome))
        if said.asked in (Asked.WAITING, Asked.UNKNOWN):
            machine.suspend(request.key.digest, request.key.position_ms)
        return said

    def or_with_worker(self, request: AskToMove, said: HolderAnswer) -> HolderAnswer:
        """A worker has it, and no machine knows: it came back and nobody holds the place yet, or the row waits for that
        delivery, be it due since the lease that it was carried with, which was extended elsewhere."""
        is_open_elsewhere = said.asked in (None, Asked.WAITING, Asked.UNKNOWN) and self._held.has_lease(request.key)
        return HolderAnswer(Asked.OPEN) if is_open_elsewhere else said

    def recheck(self, partition: Partition, digests: Sequence[bytes]) -> bool:
        """Whether there is a machine to do it."""
        machine = self._held.machines.get(partition)
        if machine is None:
            return False
        self._held.perform(machine, machine.recheck(digests))
        return True

    def is_in_hand(self, partition: Partition, key: RowKey, lease_until_ms: int) -> bool:
        """Whether a worker has the row, or a delivery that it waits for. What a worker has said of it counts for others
        when it is durable: until then they read nothing of it."""
        if self._held.has_in_hand(partition, key, lease_until_ms):
            return True
        machine = self._held.machines.get(partition)
        if machine is None:
            return False
        is_open = machine.ask(key)[0] is Asked.OPEN
        return is_open or (machine.recorded(key) in BY_WORD and machine.last_lsn > machine.done_through)

    def all_wait(self, partition: Partition, keys: Sequence[RowKey]) -> bool:
        """Whether this process knows that none of them has ended."""
        machine = self._held.machines.get(partition)
        return machine is not None and machine.all_wait(keys)

    def ending(self, partition: Partition, key: RowKey, *, is_leaving_over: bool = False) -> Ending | None:
        """None: this process does not know. What goes on elsewhere lives here until that is durable, but for who asks
        whether to write the row again (`is_leaving_over`): it was taken in, and there would be two."""
        machine = self._held.machines.get(partition)
        if machine is None or not machine.phase.answers:
            return None
        asked, outcome = machine.ask(key)
        if asked is Asked.UNKNOWN:
            return None
        if outcome in (Outcome.CARRIED, Outcome.PARKED) and not is_leaving_over and not machine.has_left(key):
            return Ending(None)
        if asked is Asked.ENDED and outcome is Outcome.CARRIED:
            return _carried(machine, key)
        if outcome in (Outcome.CANCELLED, Outcome.PURGED) and self._held.has_in_hand(partition, key, 0):
            # Only its retries have ended.
            return Ending(None)
        return Ending(outcome if asked is Asked.ENDED else None)


def _contradicts(machine: PartitionMachine, request: AskToEnd) -> bool:
    """Whether the row has ended by another word than is asked about, and a crash still takes that back."""
    if request.outcome not in BY_WORD or machine.last_lsn <= machine.done_through:
        return False
    asked, outcome = machine.ask(request.key)
    return asked is Asked.ENDED and outcome in UNMARKED and outcome is not request.outcome


def _carried(machine: PartitionMachine, key: RowKey) -> Ending | None:
    carry = machine.carry_of(key)
    return Ending(Outcome.CARRIED, carry) if carry is not None else None
