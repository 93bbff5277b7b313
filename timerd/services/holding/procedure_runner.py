"""What the core's procedures ask for is performed here: by the store, or by the holder, which is a machine of this
instance or another instance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from timerd.core.partition import UNMARKED, Offered
from timerd.core.protocol import (
    NOT_ENDED,
    AppendRows,
    AskInHand,
    AskMayReturn,
    AskToEnd,
    AskToEndEach,
    AskToEndMany,
    AskToMove,
    AskToMoveMany,
    Ending,
    Find,
    FindEntries,
    FindSettled,
    FindSettledEach,
    FindSettledMany,
    FindVacant,
    HintRows,
    HolderAnswer,
    ListEntries,
    LookAt,
    MarkAndLook,
    OfferRows,
    ReadBucket,
    ReadRegister,
    ReadRegisters,
    Recheck,
    RemoveEntries,
    Request,
    SetMarks,
    Together,
    TryCas,
    TryCasMany,
    Vacant,
    WriteEntries,
)
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import Place
from timerd.model.rows import RowGroup
from timerd.model.storage import Appended, BucketEntry, CasResult, Entry, Found, Looked
from timerd.ports import Store
from timerd.services.holding.held import Held
from timerd.services.holding.own_machines import OwnMachines
from timerd.services.holding.peer_view import NoPeers, PeerView
from timerd.services.holding.registers import try_cas, try_cas_many
from timerd.services.holding.settled_reads import SettledReads

# Makes the view of the other instances, which see the machines of this one.
PeersOf = Callable[[OwnMachines], PeerView]
# So many requests of a call are under way at a time.
TOGETHER = 32


class ProcedureRunner:
    """One instance: its store, its own partition machines as holders, and the other instances, if there are any."""

    def __init__(
        self,
        store: Store,
        held: Held,
        hint: Callable[[Partition, RowGroup, int, bool], None],
        peers: PeersOf | None = None,
    ) -> None:
        self._store = store
        self.settled = SettledReads(store)
        self.own = OwnMachines(held)
        self.others: PeerView = peers(self.own) if peers is not None else NoPeers()
        self._hint_own = hint
        self._handlers: dict[type[Request], Callable[[Any], Awaitable[object]]] = {
            Find: self._find,
            LookAt: self._look_at,
            MarkAndLook: self._mark_and_look,
            FindVacant: self._find_vacant,
            Together: self._together,
            FindSettled: self._find_settled,
            SetMarks: self._set_marks,
            ReadRegister: self._read_register,
            ReadRegisters: self._read_registers,
            ReadBucket: self._read_bucket,
            FindSettledEach: self._find_settled_each,
            FindSettledMany: self._find_settled_many,
            AskToEndMany: self._ask_to_end_many,
            AskToEndEach: self._ask_to_end_each,
            TryCas: self._try_cas,
            TryCasMany: self._try_cas_many,
            AppendRows: self._append,
            HintRows: self._hint,
            OfferRows: self._offer,
            AskToEnd: self._ask_to_end,
            AskToMove: self._ask_to_move,
            AskToMoveMany: self._ask_to_move_many,
            AskInHand: self._ask_in_hand,
            AskMayReturn: self._ask_may_return,
            Recheck: self._recheck,
            WriteEntries: self._write_entries,
            FindEntries: self._find_entries,
            ListEntries: self._list_entries,
            RemoveEntries: self._remove_entries,
        }

    async def perform(self, request: Request) -> object:
        return await self._handlers[type(request)](request)

    async def _find(self, request: Find) -> list[Found]:
        return list(await self._store.find(request.partition, request.keys))

    async def _look_at(self, request: LookAt) -> Looked:
        return await self._store.look(request.look)

    async def _mark_and_look(self, request: MarkAndLook) -> tuple[int, Looked]:
        return await self._store.mark_and_look(request.marks, request.look)

    async def _find_vacant(self, request: FindVacant) -> Vacant | None:
        return self.own.vacant(request.partitions) if self.others.is_single else None

    async def _together(self, request: Together) -> list[object]:
        """Some at a time: a call may name tasks of a thousand partitions."""
        at_once = max(1, TOGETHER // self.others.side_by_side)
        answers: list[object] = []
        for at in range(0, len(request.requests), at_once):
            part = request.requests[at : at + at_once]
            # What needs no store needs no turn of the loop either.
            known = {n: said for n, each in enumerate(part) if (said := self._known_now(each)) is not None}
            waiting = [self.perform(each) for n, each in enumerate(part) if n not in known]
            found = iter([await waiting[0]] if len(waiting) == 1 else await asyncio.gather(*waiting))
            answers += [known[n] if n in known else next(found) for n in range(len(part))]
        return answers

    def _known_now(self, request: Request) -> list[Ending] | None:
        """None: it is to be asked."""
        if not isinstance(request, FindSettledMany) or not self.others.is_here(request.partition):
            return None
        return [NOT_ENDED] * len(request.keys) if self.own.all_wait(request.partition, request.keys) else None

    async def _find_settled(self, request: FindSettled) -> Ending:
        each = FindSettledEach(request.partition, [request.key], request.durable)
        return (await self._find_settled_each(each))[0]

    async def _find_settled_each(self, request: FindSettledEach) -> list[Ending]:
        """The records are read once, and only for what this process does not know."""
        partition, keys = request.partition, request.keys
        known = [self._in_memory(partition, key) for key in keys]
        if request.durable:
            known = await self._known_for_good(partition, known)
        if all(ending is not None for ending in known):
            return [ending for ending in known if ending is not None]
        endings, is_known = await self.settled.endings(partition), request.durable and self.others.is_single
        said = [ending or endings.of(key) for ending, key in zip(known, keys, strict=True)]
        return [replace(ending, is_known=True) for ending in said] if is_known else said

    async def _known_for_good(self, partition: Partition, known: Sequence[Ending | None]) -> list[Ending | None]:
        """Without its record a crash takes an end back. A cancel has its mark."""
        is_unmarked = [ending is not None and ending.outcome in UNMARKED for ending in known]
        if any(is_unmarked) and not await self.own.until_durable(partition):
            known = [None if unmarked else ending for ending, unmarked in zip(known, is_unmarked, strict=True)]
        return [replace(ending, is_known=True) if ending is not None else None for ending in known]

    async def _set_marks(self, request: SetMarks) -> int:
        return await self._store.mark(request.marks)

    async def _read_register(self, request: ReadRegister) -> bytes | None:
        return (await self._store.read([request.key]))[0]

    async def _read_registers(self, request: ReadRegisters) -> list[bytes | None]:
        return list(await self._store.read(request.keys))

    async def _read_bucket(self, request: ReadBucket) -> BucketEntry | None:
        scope, bucket_ms, _ = request.partition
        return next(iter(await self._store.catalogue(scope, bucket_ms, bucket_ms + 1)), None)

    async def _find_settled_many(self, request: FindSettledMany) -> list[Ending]:
        """The records are read once; without any, as for every bucket that is far, nothing has ended."""
        partition, keys = request.partition, request.keys
        if (waiting := self._known_now(request)) is not None:
            return waiting
        known: list[Ending | None] = [None] * len(keys)
        if self.others.is_here(partition) and self.own.is_here(partition):
            known = [self.own.ending(partition, key, is_leaving_over=True) for key in keys]
        if all(ending is not None for ending in known):
            return [ending for ending in known if ending is not None]
        endings = await self.settled.endings(partition)
        if not endings.names:
            return [ending or NOT_ENDED for ending in known]
        return [e or endings.of(k) for e, k in zip(known, keys, strict=True)]

    async def _try_cas(self, request: TryCas) -> CasResult:
        return await try_cas(self._store, request.change)

    async def _try_cas_many(self, request: TryCasMany) -> list[CasResult]:
        return await try_cas_many(self._store, request.changes)

    async def _append(self, request: AppendRows) -> list[Appended]:
        return list(await self._store.append(request.messages))

    async def is_in_hand(self, place: Place, lease_until_ms: int, now_ms: int) -> bool | None:
        """Whether a worker has the row that lives there, or a delivery that it waits for; None: its holder does not
        answer. No other instance is asked about what is not due and waits for nothing."""
        if place.key.position_ms > now_ms and not lease_until_ms and not self.others.is_here(place.partition):
            return False
        said = await self.in_hand(place.partition, [(place.key, lease_until_ms)])
        return said[0] if said is not None else None

    async def in_hand(self, partition: Partition, rows: Sequence[tuple[RowKey, int]]) -> Sequence[bool] | None:
        """As `is_in_hand`, of many rows of one partition, each with the end of the lease that it waits for."""
        if self.others.is_here(partition):
            return [self.own.is_in_hand(partition, *row) for row in rows]
        return await self.others.in_hand(partition, rows)

    async def _hint(self, request: HintRows) -> None:
        for partition, rows, source in request.rows:
            if not self.others.hint(partition, rows, source, request.controls.get(partition)):
                self._hint_own(partition, rows, source, request.may_repeat)

    async def _offer(self, request: OfferRows) -> Offered | None:
        if self.others.is_here(request.partition):
            return self.own.offer(request)
        return await self.others.offer(request)

    async def _ask_to_end(self, request: AskToEnd) -> HolderAnswer:
        return (await self._ask_all_to_end(request.partition, [request]))[0]

    async def _ask_to_end_many(self, request: AskToEndMany) -> list[HolderAnswer]:
        if self.others.is_here(request.partition) and not self.own.may_have_in_hand(request.keys):
            if self.others.is_single and not self.own.is_here(request.partition):
                return [HolderAnswer(None)] * len(request.keys)
            said = self.own.end_waiting(request)
            if said is not None:
                return said
        asks = [AskToEnd(request.partition, key, request.outcome, request.request) for key in request.keys]
        return await self._ask_all_to_end(request.partition, asks)

    async def _ask_to_end_each(self, request: AskToEndEach) -> list[HolderAnswer]:
        asks: dict[Partition, list[AskToEnd]] = {}
        for ask in request.requests:
            asks.setdefault(ask.partition, []).append(ask)
        said = await asyncio.gather(*(self._ask_all_to_end(*each) for each in asks.items()))
        answers = {partition: iter(each) for partition, each in zip(asks, said, strict=True)}
        return [next(answers[ask.partition]) for ask in request.requests]

    async def _ask_all_to_end(self, partition: Partition, asks: Sequence[AskToEnd]) -> list[HolderAnswer]:
        """The partition may be lost while a row's way from there is waited for."""
        if self.others.is_here(partition):
            said = await self.own.ask_to_end(asks)
            if all(answer.asked is not None for answer in said):
                return self.own.or_in_hand(asks, said)
        return self.own.or_in_hand(asks, await self.others.ask_to_end(partition, asks))

    async def _ask_in_hand(self, request: AskInHand) -> bool:
        return self.own.has_lease(request.key, request.lease_until_ms)

    async def _ask_may_return(self, request: AskMayReturn) -> bool | None:
        if self.others.is_here(request.partition):
            return self.own.may_return(request.partition, request.key)
        return await self.others.may_return(request.partition, request.key)

    async def _ask_to_move(self, request: AskToMove) -> HolderAnswer:
        return (await self._ask_all_to_move(request.partition, [request]))[0]

    async def _ask_to_move_many(self, request: AskToMoveMany) -> list[HolderAnswer]:
        asks: dict[Partition, list[AskToMove]] = {}
        for ask in request.requests:
            asks.setdefault(ask.partition, []).append(ask)
        elsewhere = [partition for partition in asks if not self.others.is_here(partition)]
        said = {partition: list(map(self.own.ask_to_move, asks[partition])) for partition in asks.keys() - elsewhere}
        if elsewhere:
            told = await asyncio.gather(*(self._ask_all_to_move(each, asks[each]) for each in elsewhere))
            said.update(zip(elsewhere, told, strict=True))
        answers = {partition: iter(each) for partition, each in said.items()}
        return [next(answers[ask.partition]) for ask in request.requests]

    async def _ask_all_to_move(self, partition: Partition, asks: Sequence[AskToMove]) -> list[HolderAnswer]:
        if self.others.is_here(partition):
            return list(map(self.own.ask_to_move, asks))
        return list(map(self.own.or_with_worker, asks, await self.others.ask_to_move(partition, asks)))

    async def _recheck(self, request: Recheck) -> None:
        if not self.own.recheck(request.partition, request.digests):
            self.others.recheck(request.partition, request.digests)

    async def _write_entries(self, request: WriteEntries) -> None:
        await self._store.write_entries(request.entries)

    async def _find_entries(self, request: FindEntries) -> list[bytes | None]:
        return list(await self._store.find_entries(request.keys))

    async def _list_entries(self, request: ListEntries) -> list[Sequence[Entry]]:
        return await asyncio.gather(*(self._store.list_entries(*each) for each in request.asked))

    async def _remove_entries(self, request: RemoveEntries) -> None:
        await self._store.remove_entries(request.keys)

    def _in_memory(self, partition: Partition, key: RowKey) -> Ending | None:
        """None: this process does not know."""
        return self.own.ending(partition, key) if self.others.is_here(partition) else None
