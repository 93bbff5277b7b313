"""Acks of deliveries that are not open any more where they were sent from: their leases have ended, or a restart came
between.

A worker that comes back acks tens of thousands at once. They are looked for together, what is known in memory first,
then what the records say, step by step along the way of their rows; and those that wait end together, by one record for
each partition. What is out of the ordinary is looked for by itself, which takes twenty times as long.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence

from timerd.core.dispatch import RedeliveryGuard
from timerd.core.partition import Asked, PartitionMachine, Phase
from timerd.core.protocol import Cancelled, Ending, FindVacant, Procedure, Vacant, end_task, locate, look_at_many
from timerd.model.ack_token import AckToken
from timerd.model.identity import RowKey, delivery_id_of, generation_of
from timerd.model.partition import Partition
from timerd.model.registers import Place
from timerd.model.settle import Outcome
from timerd.services.engine.elsewhere import Elsewhere, Known, marked_as, silent
from timerd.services.engine.looking import Looking
from timerd.services.engine.verbs import ENDED, Late, State
from timerd.services.holding.driving import drive
from timerd.services.holding.scheduler import Scheduler

log = logging.getLogger(__name__)
# A row is carried once for each lease of its delivery that ends. Beyond it, one by one.
MOST_STEPS = 16
# Of those that are looked for by themselves, so many at a time.
AT_ONCE = 32
# Which of the acks -> the row that stands for it.
Ways = dict[int, Place]


class LateAcks:
    """Of one instance."""

    def __init__(
        self,
        scheduler: Scheduler,
        elsewhere: Elsewhere,
        redelivery_guard: RedeliveryGuard,
        looking: Looking,
    ) -> None:
        self._scheduler = scheduler
        self._elsewhere = elsewhere
        self._redelivery_guard = redelivery_guard
        self._looking = looking

    async def end(self, late: Sequence[AckToken]) -> list[Late]:
        """See Firing.end_late. Their rows do not fire while they are looked for."""
        ids = [delivery_id_of(token.key.digest, token.key.version) for token in late]
        answers: dict[int, Late] = {}
        with self._looking.for_rows_here(ids) as missed:
            ways: Ways = {n: Place(*self._place_of(ids[n], token)) for n, token in enumerate(late)}
            for _ in range(MOST_STEPS):
                answers |= await self._end_known(ways, late)
                if not ways or not (ways := await self._onward(ways, answers)):
                    break
            rest = [n for n in range(len(late)) if n not in answers]
            for at in range(0, len(rest), AT_ONCE):
                part = rest[at : at + AT_ONCE]
                said = await asyncio.gather(*(self.end_one(late[n]) for n in part), return_exceptions=True)
                answers |= {n: _late(each) for n, each in zip(part, said, strict=True)}
            missed.update(ids[n] for n, answer in answers.items() if isinstance(answer, Exception))
        return [answers[n] for n in range(len(late))]

    async def end_one(self, token: AckToken) -> State | None:
        """Of a task that lives elsewhere, or nowhere any more."""
        delivery_id = delivery_id_of(token.key.digest, token.key.version)
        is_elsewhere = self._redelivery_guard.waits_in(delivery_id, token.partition) not in self._scheduler.machines
        with self._looking.for_row_of(delivery_id, is_elsewhere=is_elsewhere):
            if not is_elsewhere and (leaves := self._redelivery_guard.leaves(delivery_id)) is not None:
                await self._elsewhere.until_left(*leaves)
            known = self._elsewhere.in_memory(*self._place_of(delivery_id, token))
            if known is None:
                return await self._end_where_it_lives(token)
            [answer] = (await self._end_all({0: known}, [token])).values()
            if isinstance(answer, Exception):
                raise answer
            return answer

    def _place_of(self, delivery_id: bytes, token: AckToken) -> tuple[Partition, RowKey]:
        return self._redelivery_guard.place_of(delivery_id, (token.partition, token.key))

    def _in_memory(self, place: Place) -> Known | None:
        return self._elsewhere.in_memory(place.partition, place.key)

    # -- together -------------------------------------------------------------------------------------------------

    async def _end_known(self, ways: Ways, late: Sequence[AckToken]) -> dict[int, Late]:
        """Of what is known in memory; that is taken out of `ways`."""
        found = {n: known for n, place in ways.items() if (known := self._in_memory(place)) is not None}
        for n in found:
            del ways[n]
        return await self._end_all(found, late)

    async def _end_all(self, found: dict[int, Known], late: Sequence[AckToken]) -> dict[int, Late]:
        """Those that wait end, by one record for each partition. It is said when that is durable."""
        answers: dict[int, Late] = {}
        machines: dict[PartitionMachine, list[int]] = defaultdict(list)
        for n, known in found.items():
            machines[known.machine].append(n)
        waits: list[tuple[list[int], asyncio.Future[None]]] = []
        for machine, numbers in machines.items():
            waiting = [n for n in numbers if found[n].outcome is None]
            unsent = [found[n].key for n in waiting if late[n].key.version < found[n].key.version]
            lsn = machine.end_waiting([found[n].key for n in waiting], Outcome.ACKED, unsent)
            waits.append((numbers, self._elsewhere.durable(machine, lsn)))
            answers |= {n: _state(found[n].outcome) for n in numbers}
        for numbers, durable in waits:
            try:
                await durable
            except Exception as error:  # noqa: BLE001 - told to who acked them
                answers |= dict.fromkeys(numbers, error)
        return answers

    async def _onward(self, ways: Ways, answers: dict[int, Late]) -> Ways:
        """One step along the ways, by the records: where they were carried to. `answers` gets what has ended for good;
        what goes its own way is in neither."""
        parts: dict[Partition, list[int]] = defaultdict(list)
        for n, place in ways.items():
            parts[place.partition].append(n)
        vacant: Vacant | None = await drive(_vacant(list(parts)), self._scheduler.procedures)
        onward: Ways = {}
        for partition, numbers in parts.items():
            keys = [ways[n].key for n in numbers]
            endings = await drive(look_at_many(partition, keys), self._scheduler.procedures)
            is_vacant = vacant is not None and partition in vacant.partitions
            for n, key, ending in zip(numbers, keys, endings, strict=True):
                if ending is None or not self._is_sure(partition, key, ending, is_vacant=is_vacant):
                    continue
                if ending.carry is not None:
                    carry = ending.carry
                    onward[n] = Place(carry.target, RowKey(carry.position_ms, key.digest, carry.version))
                elif ending.outcome in ENDED:
                    answers[n] = _state(ending.outcome)
        return onward

    def _is_sure(self, partition: Partition, key: RowKey, ending: Ending, *, is_vacant: bool) -> bool:
        """Nothing takes it back, and no other holder has to hear of it: what this one has read is all that ever ended
        below its floor."""
        machine = self._scheduler.machines.get(partition)
        if machine is None:
            return is_vacant
        if machine.phase is not Phase.HOT or key.position_ms >= machine.floor_ms:
            return False
        asked, known = machine.ask(key)
        # What it still remembers of the end of such a row says the same as the record, and is durable.
        agrees = asked is Asked.ENDED and known is ending.outcome and machine.has_left(key)
        return asked is Asked.UNKNOWN or agrees

    # -- by itself ------------------------------------------------------------------------------------------------

    async def _end_where_it_lives(self, token: AckToken) -> State | None:
        task = await self._scheduler.finder.task_of(token.partition, token.key)
        if task is None:
            return State.FINISHED
        here = await drive(locate(task), self._scheduler.procedures)
        generation = generation_of(token.key.version)
        if generation_of(here.place.key.version) != generation:
            # It was moved since: this delivery is over, the one that the move promised is not.
            return State.PENDING
        if (ended := marked_as(here)) is not None and ended is not State.ACKED:
            # The next holder of its row ends it so: the first mark counts.
            return ended
        said = await drive(end_task(task, Outcome.ACKED, b"late ack", generation), self._scheduler.procedures)
        if said is Cancelled.PENDING:
            raise silent()
        if said is Cancelled.IN_FLIGHT:
            log.info("a late ack ended the retries of a task that is with another worker")
        machine = self._scheduler.machines.get(here.place.partition)
        if machine is not None:
            await self._elsewhere.durable(machine, machine.last_lsn)
        if said in (Cancelled.CANCELLED, Cancelled.IN_FLIGHT):
            return None
        state = await self._elsewhere.ended_as(token.partition, token.key)
        if said is Cancelled.ALREADY_CANCELLED and state in (State.ACKED, State.PENDING):
            # By a cancel that came at the same moment: the row has both marks, and no record.
            return State.CANCELLED
        return None if state is State.ACKED else state


def _vacant(partitions: Sequence[Partition]) -> Procedure[Vacant | None]:
    vacant: Vacant | None = yield FindVacant(partitions)
    return vacant


def _state(outcome: Outcome | None) -> State | None:
    """Of a task that has ended so; of one that waited until now: it is acked."""
    return None if outcome is None or outcome is Outcome.ACKED else ENDED[outcome]


def _late(said: State | BaseException | None) -> Late:
    if isinstance(said, BaseException) and not isinstance(said, Exception):
        raise said
    return said
