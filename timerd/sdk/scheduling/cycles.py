"""Cycles of keyed members: `client.cycles`, for asyncio and without it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any, TypeVar

from timerd.sdk.scheduling.cycle_values import Cycle, CycleMember, Rebalance
from timerd.sdk.scheduling.schedule_link import Opens
from timerd.sdk.scheduling.sync_twin import blocking, iterating
from timerd.sdk.transport import pages
from timerd.sdk.values import (
    Delivery,
    MemberKey,
    Slot,
    Span,
    TaskOptions,
    duration_of_ms,
    flag,
    instant_ms,
    invalid,
    key_text,
    labels_tuple,
    listed,
    name,
    new_request_id,
    optional_name,
    payload_bytes,
    span_ms,
    template_of,
    text,
    timestamp_of_ms,
    whole_number,
)
from timerd.v1 import cycle_service_pb2 as pb
from timerd.v1 import schedule_service_pb2 as schedule_pb

_SERVICE = "CycleService"
# What one message holds.
_MAX_KEYS = 10_000
_MAX_BYTES = 4 << 20
_NONE: Any = object()
Ran = TypeVar("Ran")
_Members = list[tuple[str, bytes | None, float | None]]


class Cycles:
    """The cycles of a client's namespace: many keyed members, each of which has its turn once in every period.

    Clients make it, as `client.cycles`. Every call may raise the errors that the class of the client names.

    Args:
        client: the client.
    """

    def __init__(self, client: Opens) -> None:
        self._client = client

    async def create(
        self,
        cycle_id: str,
        *,
        every: Span,
        queue: str,
        slot_queue: str = "",
        slots: int = 0,
        origin: datetime | None = None,
        places: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        options: TaskOptions | None = None,
        request_id: str | None = None,
    ) -> Cycle:
        """The call creates a cycle: from now on each slot has a task in every period, by which it is filled.

        Args:
            cycle_id: a name of the caller's choice, unique in the namespace.
            every: how long a cycle is, a timedelta or seconds; a second to 100 years.
            queue: the queue whose workers receive the tasks of the members.
            slot_queue: the queue whose workers receive the tasks of the slots, and answer them by `fill`: the members
                are in the caller's database. Default none: timerd keeps the members, see `put`.
            slots: how many slots a cycle has: up to 4,096 of a second or more, which divide `every`. Default as many
                as give slots of a minute or more, up to 1,024.
            origin: the instant, with a zone, from which cycles count. Default 1970.
            places: the names of kinds of turns that one member may have, up to 32. Those of one member are always
                `every` by the number of places apart. They never change; one may stay without members. Their number
                divides `every` and `slots`, and the tasks have the label `place`. Default one kind, without a name.
            labels: labels of the cycle itself, by which `list` chooses. Default none.
            options: what else the members' tasks have, as for `Client.schedule`; without `expire_at` and
                `soft_expire_at`: a task that waits expires when its member has the next turn.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            AlreadyExists: there is a cycle of this id.
        """
        request = pb.CreateCycleRequest(
            namespace=self._open(),
            request_id=_request_id(request_id),
            cycle_id=name(cycle_id, "cycle_id"),
            period=duration_of_ms(span_ms(every, "every", may_be_none=False)),
            slots=whole_number(slots, "slots", 0, (1 << 32) - 1),
            template=template_of("create", queue, options, {}).to_proto(),
            slot_queue=text(slot_queue, "slot_queue"),
            places=_places(places),
            labels=dict(labels_tuple(labels)),
        )
        if origin is not None:
            request.origin.CopyFrom(timestamp_of_ms(instant_ms(origin, "origin")))
        return Cycle.of((await self._call("CreateCycle", request, pb.CreateCycleResponse)).cycle)

    async def get(self, cycle_id: str) -> Cycle:
        """The call returns a cycle as it is now, with what each slot has cost.

        Args:
            cycle_id: the id of the cycle.

        Raises:
            NotFound: there is no such cycle.
        """
        request = pb.GetCycleRequest(namespace=self._open(), cycle_id=name(cycle_id, "cycle_id"))
        return Cycle.of((await self._call("GetCycle", request, pb.GetCycleResponse)).cycle)

    async def list(self, *, labels: Mapping[str, str] | None = None, prefix: str = "") -> AsyncIterator[Cycle]:
        """The call goes through the cycles of the namespace, in no order.

        Args:
            labels: those that have all of these labels. Default all.
            prefix: those whose id begins so. Default all.
        """
        request = pb.ListCyclesRequest(
            namespace=self._open(), labels=dict(labels_tuple(labels)), prefix=text(prefix, "prefix")
        )
        async for page in pages(request, lambda: self._call("ListCycles", request, pb.ListCyclesResponse)):
            for each in page.cycles:
                yield Cycle.of(each)

    async def pause(
        self,
        cycle_id: str,
        *,
        note: str = "",
        until: datetime | None = None,
        revision: int = 0,
        request_id: str | None = None,
    ) -> Cycle:
        """The call pauses a cycle: when it returns, no slot begins that was to come later.

        Members of a slot that has begun have their turn.

        Args:
            cycle_id: the id of the cycle.
            note: why, for people who look at it; up to 1,024 characters. Default nothing.
            until: when it goes on by itself, a datetime with a zone. Default when it is resumed.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            NotFound: there is no such cycle.
            Aborted: it has another revision by now.
        """
        request = pb.PauseCycleRequest(
            namespace=self._open(),
            request_id=_request_id(request_id),
            cycle_id=name(cycle_id, "cycle_id"),
            revision=whole_number(revision, "revision"),
            note=text(note, "note", 4_096),
        )
        if until is not None:
            request.until.CopyFrom(timestamp_of_ms(instant_ms(until, "until")))
        return Cycle.of((await self._call("PauseCycle", request, pb.PauseCycleResponse)).cycle)

    async def resume(
        self, cycle_id: str, *, catch_up: bool = False, revision: int = 0, request_id: str | None = None
    ) -> Cycle:
        """The call ends a pause. A cycle that is not paused stays as it is.

        Args:
            cycle_id: the id of the cycle.
            catch_up: whether the slots of the last period that were missed come at once. Default with the next slot.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            NotFound: there is no such cycle.
            Aborted: it has another revision by now.
        """
        request = pb.ResumeCycleRequest(
            namespace=self._open(),
            request_id=_request_id(request_id),
            cycle_id=name(cycle_id, "cycle_id"),
            revision=whole_number(revision, "revision"),
            mode=schedule_pb.RESUME_MODE_CATCH_UP
            if flag(catch_up, "catch_up")
            else schedule_pb.RESUME_MODE_SKIP_MISSED,
        )
        return Cycle.of((await self._call("ResumeCycle", request, pb.ResumeCycleResponse)).cycle)

    async def delete(self, cycle_id: str, *, revision: int = 0, request_id: str | None = None) -> None:
        """The call deletes a cycle: when it returns, no slot of it begins that was to come later.

        Members of a slot that has begun, and was filled, have their turn.

        Args:
            cycle_id: the id of the cycle.
            revision: the only revision that is deleted. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            NotFound: there is no such cycle.
            Aborted: it has another revision by now.
        """
        request = pb.DeleteCycleRequest(
            namespace=self._open(),
            request_id=_request_id(request_id),
            cycle_id=name(cycle_id, "cycle_id"),
            revision=whole_number(revision, "revision"),
        )
        await self._call("DeleteCycle", request, pb.DeleteCycleResponse)

    async def fill(
        self,
        slot: Slot | Delivery,
        keys: Iterable[MemberKey],
        payloads: Iterable[bytes | str] | None = None,
        *,
        place: str = "",
    ) -> int:
        """The call says who the members of a slot are: each has its task at its moment in this cycle.

        It may be called again, with the same keys or others: a member has one task in a cycle. It returns how many
        members were named. Where it raises, some have their tasks; a handler that lets the error through is called
        again.

        Args:
            slot: the delivery of the slot's task, or its `slot`.
            keys: the keys of the members, each an int, a UUID or a text, as `slot_hash` takes them; any number.
            payloads: what the handler of each member's task receives, bytes or a text; as many as there are keys.
                Default the key itself, as a text.
            place: which kind of turn they have, of a cycle with places. The slot says the range of each.

        Raises:
            InvalidTask: the delivery is of no slot; a key belongs to another one (NOT_IN_SLOT, of its message no
                member has a task); or there are more or fewer payloads than keys.
            NotFound: there is no such cycle.
            FailedPrecondition: the slot has its next turn already, or has not begun.
        """
        turn = slot.slot if isinstance(slot, Delivery) else slot
        if turn is None:
            raise invalid("The delivery is of no slot: give that of a slot's task, or its `slot`.", "slot")
        members = 0
        for batch in _batches(keys, payloads):
            request = pb.FillSlotRequest(
                namespace=self._open(),
                request_id=new_request_id(),
                cycle_id=turn.cycle_id,
                cycle=turn.cycle,
                slot=turn.slot,
                keys=[key for key, _, _ in batch],
                payloads=[payload for _, payload, _ in batch if payload is not None],
                place=text(place, "place"),
            )
            members += (await self._call("FillSlot", request, pb.FillSlotResponse)).members
        return members

    async def put(
        self,
        cycle_id: str,
        keys: Iterable[MemberKey],
        payloads: Iterable[bytes | str] | None = None,
        weights: Iterable[float] | None = None,
        *,
        place: str = "",
    ) -> int:
        """The call makes members of a cycle whose members timerd keeps, and returns how many were named.

        Each has its turn at each of its moments from the reply on. One that is a member already gets the new payload
        and weight, from the next task on that is made. Where it raises, some may be members; calling it again is safe.

        Args:
            cycle_id: the id of the cycle.
            keys: the keys of the members, each an int, a UUID or a text; any number.
            payloads: what the handler of each member's tasks receives, bytes or a text; as many as there are keys.
                Default the key itself, as a text.
            weights: what a turn of each member costs beside those of others, above 0; as many as there are keys. They
                move nobody before a `rebalance`. Default 1 each.
            place: which kind of turn they have, of a cycle with places. One key may have several, each by a put.

        Raises:
            NotFound: there is no such cycle.
            FailedPrecondition: its members are in the caller's database (NO_ROSTER).
            InvalidTask: there are more or fewer payloads or weights than keys; a weight is not above 0.
        """
        members = 0
        for batch in _batches(keys, payloads, weights):
            request = pb.PutMembersRequest(
                namespace=self._open(),
                request_id=new_request_id(),
                cycle_id=name(cycle_id, "cycle_id"),
                keys=[key for key, _, _ in batch],
                payloads=[payload for _, payload, _ in batch if payload is not None],
                weights=[weight for _, _, weight in batch if weight is not None],
                place=text(place, "place"),
            )
            members += (await self._call("PutMembers", request, pb.PutMembersResponse)).members
        return members

    async def remove(self, cycle_id: str, keys: Iterable[MemberKey], *, place: str = "") -> None:
        """The call removes members from a cycle whose members timerd keeps: when it returns, nothing of them starts.

        A key that is no member is left out. One that is put again has its turn from the next cycle on, where its slot
        of this one had begun.

        Args:
            cycle_id: the id of the cycle.
            keys: the keys of the members, each an int, a UUID or a text; any number.
            place: which kind of turn they lose, of a cycle with places. Default all.

        Raises:
            NotFound: there is no such cycle.
            FailedPrecondition: its members are in the caller's database (NO_ROSTER).
        """
        for batch in _batches(keys, None):
            request = pb.RemoveMembersRequest(
                namespace=self._open(),
                request_id=new_request_id(),
                cycle_id=name(cycle_id, "cycle_id"),
                keys=[key for key, _, _ in batch],
                place=text(place, "place"),
            )
            await self._call("RemoveMembers", request, pb.RemoveMembersResponse)

    async def rebalance(
        self,
        cycle_id: str,
        *,
        max_moved: float = 0.01,
        force: bool = False,
        revision: int = 0,
        request_id: str | None = None,
    ) -> Rebalance:
        """The call moves members of a high weight to other moments, so that no slot costs much more than the others.

        Without `force` it says what would be moved, and changes nothing. Members are moved until no slot costs more
        than 1.15 times the mean. Those that cost a fiftieth of it or less stay where they are. A member that is moved
        has its turns at its old moment up to the cycle that is under way, and at its new one from the next cycle on
        that had not begun.

        Args:
            cycle_id: the id of the cycle.
            max_moved: the share of the members that may be moved, up to 1. Default a hundredth.
            force: whether they are moved. Default no.
            revision: the only revision that is changed. Default the one that it has when the call begins.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            NotFound: there is no such cycle.
            FailedPrecondition: its members are in the caller's database (NO_ROSTER).
            Aborted: it was changed meanwhile, or has another revision.
        """
        request = pb.RebalanceCycleRequest(
            namespace=self._open(),
            request_id=_request_id(request_id),
            cycle_id=name(cycle_id, "cycle_id"),
            revision=whole_number(revision, "revision"),
            max_moved=_share(max_moved),
            force=flag(force, "force"),
        )
        return Rebalance.of(await self._call("RebalanceCycle", request, pb.RebalanceCycleResponse))

    async def members(self, cycle_id: str, *, place: str = "") -> AsyncIterator[CycleMember]:
        """The call goes through the members of a cycle whose members timerd keeps, in the order of their moments.

        Args:
            cycle_id: the id of the cycle.
            place: those of this kind of turn. Default all, one kind after the other.

        Raises:
            NotFound: there is no such cycle.
            FailedPrecondition: its members are in the caller's database (NO_ROSTER).
        """
        cycle_id, place = name(cycle_id, "cycle_id"), text(place, "place")
        request = pb.ListMembersRequest(namespace=self._open(), cycle_id=cycle_id, place=place)
        async for page in pages(request, lambda: self._call("ListMembers", request, pb.ListMembersResponse)):
            # A server of an earlier release knows no weights.
            weights = page.weights or [1.0] * len(page.keys)
            for key, payload, weight in zip(page.keys, page.payloads, weights, strict=True):
                yield CycleMember(key, payload, weight, page.place)

    def _open(self) -> str:
        """The namespace of the client, which is open then."""
        self._client._open()
        return self._client._namespace

    def _call(self, method: str, request: Any, kind: type[Any]) -> Coroutine[Any, Any, Any]:  # noqa: ANN401 - of each call
        return self._client._calls(method, request, kind, _SERVICE)


class SyncCycles:
    """The cycles of a sync client's namespace: the calls of `Cycles` without await.

    Sync clients make it, as `client.cycles`.

    Args:
        client: the sync client.
    """

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - it makes this
        self._client = client._client.cycles
        self._caller = client

    def _run(self, work: Coroutine[Any, Any, Ran]) -> Ran:
        ran: Ran = self._caller._run(work)
        return ran

    create = blocking(Cycles.create)
    get = blocking(Cycles.get)
    pause = blocking(Cycles.pause)
    resume = blocking(Cycles.resume)
    delete = blocking(Cycles.delete)
    fill = blocking(Cycles.fill)
    put = blocking(Cycles.put)
    remove = blocking(Cycles.remove)
    rebalance = blocking(Cycles.rebalance)
    members = iterating(Cycles.members)
    list = iterating(Cycles.list)


def _batches(
    keys: Iterable[MemberKey], payloads: Iterable[bytes | str] | None, weights: Iterable[float] | None = None
) -> Iterator[_Members]:
    """Each of one message."""
    batch: _Members = []
    size_bytes = 0
    for key, payload, weight in _members(keys, payloads, weights):
        more_bytes = len(key) + (len(payload) if payload is not None else 0)
        if batch and (len(batch) == _MAX_KEYS or size_bytes + more_bytes > _MAX_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append((key, payload, weight))
        size_bytes += more_bytes
    if batch:
        yield batch


def _members(
    keys: Iterable[MemberKey], payloads: Iterable[bytes | str] | None, weights: Iterable[float] | None
) -> Iterator[tuple[str, bytes | None, float | None]]:
    """None in each place of a column that is not given."""
    given_columns = {"keys": keys, "payloads": payloads, "weights": weights}
    columns = [listed(each, field) for field, each in given_columns.items() if each is not None]
    for row in zip_longest(*columns, fillvalue=_NONE):
        if any(each is _NONE for each in row):
            raise invalid("`payloads` and `weights` are as many as `keys`, where they are given.", "payloads")
        given = iter(row[1:])
        payload = payload_bytes(next(given)) if payloads is not None else None
        yield key_text(row[0]), payload, _weight(next(given)) if weights is not None else None


def _weight(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
        raise invalid(f"A weight is a number above 0: {given!r:.100} is none.", "weights")
    return float(given)


def _share(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 1:
        raise invalid(
            f"`max_moved` is a share of the members, above 0 and up to 1: {given!r:.100} is none.", "max_moved"
        )
    return float(given)


def _places(given: object) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise invalid(f"`places` is a list of names: {given!r:.100} is none.", "places")
    return [name(each, "places") for each in given]


def _request_id(given: str | None) -> str:
    return optional_name(given, "request_id") or new_request_id()
