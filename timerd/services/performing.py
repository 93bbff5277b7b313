"""Drives the core's procedures: each request they yield is performed against the store or the holder in this
process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from timerd.core.holding import Asked, Offered, Phase
from timerd.core.procedures import (
    AppendRows,
    AskToEnd,
    AskToEndMany,
    AskToMove,
    Ending,
    Find,
    FindSettled,
    FindSettledMany,
    HintRows,
    HolderAnswer,
    OfferRows,
    Procedure,
    ReadRegister,
    ReadRegisters,
    Recheck,
    Request,
    SetMarks,
    TryCas,
)
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.settle import Outcome
from timerd.model.storage import Appended, CasResult, CasStatus, Found
from timerd.ports import Store
from timerd.services.settled_reads import SettledReads

if TYPE_CHECKING:
    from timerd.services.scheduler import Scheduler

Result = TypeVar("Result")
# A register that does not change and does not say why: the store may be full, and somebody waits for an answer.
CAS_TRIES = 4
CAS_PAUSE_S = 0.1
# So long a call waits until it is durable that a task has left its place.
LEAVING_S = 5.0


class Performs(Protocol):
    """Answers one request of a procedure."""

    async def perform(self, request: Request) -> object: ...


WRITES = (SetMarks, AppendRows, TryCas, AskToEnd, AskToEndMany)


async def drive(procedure: Procedure[Result], performer: Performs) -> Result:
    """Runs a procedure to its end; errors of the store are raised inside it, where it waits. What fails after something
    was written has an unknown outcome, though the failing step itself wrote nothing (guarantee G2)."""
    has_written = False
    try:
        request = next(procedure)
        while True:
            try:
                answer = await performer.perform(request)
            except StoreUnavailable as error:
                request = procedure.throw(unknown_of(error) if has_written else error)
            except Exception as error:  # noqa: BLE001 - the procedure decides
                request = procedure.throw(error)
            else:
                has_written |= isinstance(request, WRITES)
                request = procedure.send(answer)
    except StopIteration as done:
        value: Result = done.value
        return value


def unknown_of(error: StoreUnavailable) -> StoreUnknown:
    """Of a step that is not the first one to write."""
    return StoreUnknown(f"Some of it was written, then the store went away: {error}")


class Performer:
    """One instance: its store, and its own partition machines as the holders."""

    def __init__(self, store: Store, scheduler: Scheduler) -> None:
        self._store = store
        self._settled = SettledReads(store)
        self._scheduler = scheduler
        self._handlers: dict[type[Request], Callable[[Any], Awaitable[object]]] = {
            Find: self._find,
            FindSettled: self._find_settled,
            SetMarks: self._set_marks,
            ReadRegister: self._read_register,
            ReadRegisters: self._read_registers,
            FindSettledMany: self._find_settled_many,
            AskToEndMany: self._ask_to_end_many,
            TryCas: self._try_cas,
            AppendRows: self._append,
            HintRows: self._hint,
            OfferRows: self._offer,
            AskToEnd: self._ask_to_end,
            AskToMove: self._ask_to_move,
            Recheck: self._recheck,
        }

    async def perform(self, request: Request) -> object:
        return await self._handlers[type(request)](request)

    async def _find(self, request: Find) -> list[Found]:
        return list(await self._store.find(request.partition, request.keys))

    async def _find_settled(self, request: FindSettled) -> Ending:
        known = self._in_memory(request.partition, request.key)
        return known or (await self._settled.endings(request.partition)).of(request.key)

    async def _set_marks(self, request: SetMarks) -> None:
        await self._store.mark(request.marks)

    async def _read_register(self, request: ReadRegister) -> bytes | None:
        return (await self._store.read([request.key]))[0]

    async def _read_registers(self, request: ReadRegisters) -> list[bytes | None]:
        return list(await self._store.read(request.keys))

    async def _find_settled_many(self, request: FindSettledMany) -> list[Ending]:
        """The records are read once; without any, as for every bucket that is far, nothing has ended."""
        known = [self._in_memory(request.partition, key) for key in request.keys]
        if all(ending is not None for ending in known):
            return [ending for ending in known if ending is not None]
        endings = await self._settled.endings(request.partition)
        return [e or endings.of(k) for e, k in zip(known, request.keys, strict=True)]

    async def _ask_to_end_many(self, request: AskToEndMany) -> list[HolderAnswer]:
        one = [AskToEnd(request.partition, key, request.outcome, request.request) for key in request.keys]
        return [await self._ask_to_end(ask) for ask in one]

    async def _try_cas(self, request: TryCas) -> CasResult:
        """An unknown outcome is settled by a serial read. Raises StoreUnknown where the store takes no changes in:
        what the procedure has written before stays written."""
        change = request.change
        for _ in range(CAS_TRIES):
            result = (await self._store.cas([change]))[0]
            if result.status is not CasStatus.UNKNOWN:
                return result
            current = (await self._store.read([change.key]))[0]
            if current != change.expected:
                return CasResult(CasStatus.APPLIED if current == change.value else CasStatus.REFUSED, current)
            await asyncio.sleep(CAS_PAUSE_S)
        raise StoreUnknown("The store takes no changes in now; look at the disk's free space and health.")

    async def _append(self, request: AppendRows) -> list[Appended]:
        return list(await self._store.append(request.messages))

    async def _hint(self, request: HintRows) -> None:
        for partition, rows, source in request.rows:
            self._scheduler.hint(partition, rows, source)

    async def _offer(self, request: OfferRows) -> Offered | None:
        machine = self._scheduler.machines.get(request.partition)
        if machine is None:
            return None
        answer = machine.offer(request.rows, request.source, is_repeat=request.is_repeat)
        self._scheduler.wake()
        return answer

    async def _ask_to_end(self, request: AskToEnd) -> HolderAnswer:
        """Where the row went is said when it is durable that it went."""
        machine = self._scheduler.machines.get(request.partition)
        if machine is not None and not machine.log.has_left(request.key):
            try:
                async with asyncio.timeout(LEAVING_S):
                    await self._scheduler.durable(machine, machine.log.last_ticket)
            except TimeoutError as error:
                raise StoreUnknown("The task is on its way to another place, and the store does not answer.") from error
            if not machine.log.has_left(request.key):
                # The procedure looks again: not in a circle without a pause.
                await asyncio.sleep(CAS_PAUSE_S)
        return self._answer(request)

    def _answer(self, request: AskToEnd) -> HolderAnswer:
        machine = self._scheduler.machines.get(request.partition)
        if machine is None:
            return HolderAnswer(None)
        asked, outcome = machine.ask(request.key)
        if request.outcome is not Outcome.ACKED and self._is_in_hand(request, asked):
            return HolderAnswer(Asked.OPEN, None, machine.cancel(request.key.digest, request.outcome, request.request))
        if asked is Asked.ENDED and outcome is not request.outcome:
            return HolderAnswer(asked, outcome)
        given = machine.cancel(request.key.digest, request.outcome, request.request)
        if asked in (Asked.WAITING, Asked.ENDED):
            # Also where the verdict came first: it was given to a row that the task was carried from.
            machine.end_waiting(request.key, request.outcome)
            self._scheduler.settle_soon(machine)
        return HolderAnswer(asked, outcome, given)

    def _is_in_hand(self, request: AskToEnd, asked: Asked) -> bool:
        """Its row was carried on, and waits for the delivery to end."""
        if asked not in (Asked.WAITING, Asked.ENDED):
            return False
        return self._scheduler.has_in_hand(request.partition, request.key, request.lease_until_ms)

    async def _ask_to_move(self, request: AskToMove) -> HolderAnswer:
        machine = self._scheduler.machines.get(request.partition)
        if machine is None:
            return HolderAnswer(None)
        asked, outcome = machine.ask(request.key)
        if asked in (Asked.WAITING, Asked.UNKNOWN):
            machine.suspend(request.key.digest)
        return HolderAnswer(asked, outcome)

    async def _recheck(self, request: Recheck) -> None:
        machine = self._scheduler.machines.get(request.partition)
        if machine is not None:
            self._scheduler.perform(machine, machine.recheck(request.digest))

    def _in_memory(self, partition: Partition, key: RowKey) -> Ending | None:
        """None: this process does not know."""
        machine = self._scheduler.machines.get(partition)
        if machine is None or machine.phase is not Phase.HOT:
            return None
        asked, outcome = machine.ask(key)
        if asked is Asked.UNKNOWN:
            return None
        if outcome in (Outcome.CARRIED, Outcome.PARKED) and not machine.log.has_left(key):
            return Ending(None)
        if asked is Asked.ENDED and outcome is Outcome.CARRIED:
            carry = machine.log.carries.get(key)
            return Ending(outcome, carry) if carry is not None else None
        if outcome in (Outcome.CANCELLED, Outcome.PURGED) and self._scheduler.has_in_hand(partition, key, 0):
            # Only its retries have ended.
            return Ending(None)
        return Ending(outcome if asked is Asked.ENDED else None)
