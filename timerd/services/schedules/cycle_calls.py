"""Calls of CycleService: checked in full before anything is written, answered as messages."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from timerd.core.schedules.changes import Decide, Name, deleted, paused, resumed, resumed_with_missed
from timerd.core.schedules.member_tasks import SlotMember
from timerd.core.slots import cycle as checked_cycle
from timerd.core.taken import SLOTS
from timerd.model.codec import PLACES, needing
from timerd.model.cycles import CYCLE, SLOT_CONTENT, CycleShape, Turn
from timerd.model.errors import Invalid
from timerd.model.task import Template
from timerd.services.calls.due_times import duration_ms, later_ms, ms_from
from timerd.services.calls.fields import (
    at_most,
    key_of,
    limit_count,
    namespace_of,
    plain_text,
    queue_of,
    quoted,
    request_id_of,
)
from timerd.services.calls.page_tokens import after_of, page_token
from timerd.services.calls.queue_rules import QueueRules
from timerd.services.calls.repeats import Reply, answered_once
from timerd.services.calls.replies import duration, timestamp, wire_of_template
from timerd.services.calls.templates import checked_labels
from timerd.services.engine.verbs import Verbs
from timerd.services.schedules.cycle_places import (
    check_slot,
    checked_places,
    listed_of,
    listed_token,
)
from timerd.services.schedules.cycles import PATIENT, shape_of
from timerd.services.schedules.rebalancing import Rebalanced
from timerd.services.schedules.recurring import Recurring
from timerd.services.schedules.schedule_calls import MAX_NOTE_CHARS, state_of, template_of
from timerd.services.schedules.schedules import ListPlace, Shown, request_hash
from timerd.v1 import cycle_service_pb2 as wire
from timerd.v1 import schedule_service_pb2 as schedule_wire

DEFAULT_PAGE, MAX_PAGE = 100, 1_000
DEFAULT_MEMBERS = 1_000
MAX_ID_CHARS = 128
MAX_SLOTS = 4_096
MIN_SLOT_MS = 1_000
MAX_KEYS = 10_000
MAX_PAYLOAD_BYTES = 64 << 10
MAX_WEIGHT = 1_000_000_000
# The share of the members that a rebalance moves at most.
DEFAULT_MOVED = 0.01
# The task of a slot comes so long before it, or a slot where that is less.
LEAD_MS = 60_000
_ID = re.compile(r"[A-Za-z0-9._\-/:]{1,128}")
_RESUMES: dict[int, Decide] = {
    schedule_wire.RESUME_MODE_UNSPECIFIED: resumed,
    schedule_wire.RESUME_MODE_SKIP_MISSED: resumed,
    schedule_wire.RESUME_MODE_CATCH_UP: resumed_with_missed,
}
# Behind its slot of names; nothing else is as long.
_NAME_BYTES = MAX_ID_CHARS + 32


class CycleCalls:
    """One method a call: request -> reply, or one of model.errors. `shards`: of the buckets of a cycle that begins
    now."""

    def __init__(self, recurring: Recurring, verbs: Verbs, shards: int, queues: QueueRules) -> None:
        self._cycles = recurring.cycles
        self._now_ms = recurring.schedules.world.now_ms
        self._rosters = recurring.rosters
        self._rebalancing = recurring.rebalancing
        self._verbs = verbs
        self._shards = shards
        self._queues = queues

    def verbs(self) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
        return {
            "CreateCycle": self._once(self.create, wire.CreateCycleResponse),
            "GetCycle": self.get,
            "ListCycles": self.list,
            "PauseCycle": self._once(self.pause, wire.PauseCycleResponse),
            "ResumeCycle": self._once(self.resume, wire.ResumeCycleResponse),
            "DeleteCycle": self._once(self.delete, wire.DeleteCycleResponse),
            "FillSlot": self._once(self.fill, wire.FillSlotResponse),
            "PutMembers": self._once(self.put, wire.PutMembersResponse),
            "RemoveMembers": self._once(self.remove, wire.RemoveMembersResponse),
            "RebalanceCycle": self._once(self.rebalance, wire.RebalanceCycleResponse),
            "ListMembers": self.members,
        }

    def _once(self, verb: Callable[[Any], Awaitable[Reply]], kind: type[Reply]) -> Callable[[Any], Awaitable[Reply]]:
        """A repeat is answered as the first time, whatever was done since."""

        async def call(request: Any) -> Reply:  # noqa: ANN401 - each verb has its own
            namespace = namespace_of(request.namespace)
            request_id_of(request.request_id)
            return await answered_once(self._verbs, namespace, request, kind, lambda: verb(request))

        return call

    async def create(self, request: wire.CreateCycleRequest) -> wire.CreateCycleResponse:
        name = _name_of(request)
        members = template_of(name.namespace, request.template)
        slots = _template_of_slots(name.namespace, request.slot_queue)
        if request.places:
            self._queues.check_releases(PLACES)
        shape, labels = _shape_of(request, members, self._shards), checked_labels(dict(request.labels))
        return wire.CreateCycleResponse(
            cycle=cycle_of(await self._cycles.create(name, _hash("CreateCycle", request), shape, slots, labels))
        )

    async def get(self, request: wire.GetCycleRequest) -> wire.GetCycleResponse:
        shown = await self._cycles.get(_name_of(request))
        out = cycle_of(shown)
        for slot, cost in await self._cycles.costs(shown):
            out.costs.add(slot=slot, cycle=cost.cycle, members=cost.members, weight=cost.weight)
        return wire.GetCycleResponse(cycle=out)

    async def list(self, request: wire.ListCyclesRequest) -> wire.ListCyclesResponse:
        limit = at_most(request.page_size, DEFAULT_PAGE, MAX_PAGE)
        found, place = await self._cycles.page(namespace_of(request.namespace), _place_of(request), limit)
        chosen = [each for each in map(cycle_of, found) if _is_asked_for(each, request)]
        return wire.ListCyclesResponse(cycles=chosen, next_page_token=_token_of(request, place))

    async def pause(self, request: wire.PauseCycleRequest) -> wire.PauseCycleResponse:
        note = plain_text(request.note, MAX_NOTE_CHARS, "note", "note")
        until_ms = later_ms(request, self._now_ms())
        return wire.PauseCycleResponse(cycle=cycle_of(await self._change(request, paused(note, until_ms))))

    async def resume(self, request: wire.ResumeCycleRequest) -> wire.ResumeCycleResponse:
        if request.mode not in _RESUMES:
            raise Invalid(f"mode has no value {request.mode}: use SKIP_MISSED or CATCH_UP.", "mode")
        return wire.ResumeCycleResponse(cycle=cycle_of(await self._change(request, _RESUMES[request.mode])))

    async def delete(self, request: wire.DeleteCycleRequest) -> wire.DeleteCycleResponse:
        shown = await self._change(request, deleted())
        return wire.DeleteCycleResponse(effective_time=timestamp(shown.entry.since_ms))

    async def fill(self, request: wire.FillSlotRequest) -> wire.FillSlotResponse:
        members, name = _members_of(request), _name_of(request)
        shown = await self._cycles.get(name)
        place = shape_of(shown).place_number(request.place)
        check_slot(request, shape_of(shown), place)
        await self._cycles.fill(shown, Turn(request.cycle, request.slot), members, place)
        return wire.FillSlotResponse(members=len(members))

    async def put(self, request: wire.PutMembersRequest) -> wire.PutMembersResponse:
        members = _weighted(_members_of(request), request)
        await self._rosters.put(_name_of(request), members, request.place)
        return wire.PutMembersResponse(members=len(members))

    async def remove(self, request: wire.RemoveMembersRequest) -> wire.RemoveMembersResponse:
        limit_count(len(request.keys), MAX_KEYS, "keys", "keys")
        name, keys = _name_of(request), list(dict.fromkeys(request.keys))
        await self._rosters.remove(name, keys, request.place)
        return wire.RemoveMembersResponse()

    async def members(self, request: wire.ListMembersRequest) -> wire.ListMembersResponse:
        limit = at_most(request.page_size, DEFAULT_MEMBERS, MAX_KEYS)
        found = await self._rosters.page(_name_of(request), request.place, listed_of(request), limit)
        return wire.ListMembersResponse(
            keys=[each.key for each in found.members],
            payloads=[each.payload for each in found.members],
            weights=[each.weight for each in found.members],
            next_page_token=listed_token(request, found.following) if found.following is not None else "",
            place=found.place,
        )

    async def rebalance(self, request: wire.RebalanceCycleRequest) -> wire.RebalanceCycleResponse:
        name, max_moved = _name_of(request), request.max_moved or DEFAULT_MOVED
        if not 0 < max_moved <= 1:
            raise Invalid(f"max_moved is {max_moved}: give a share of the members, above 0 and up to 1.", "max_moved")
        if not request.force:
            return rebalanced_of(await self._rebalancing.look(name, max_moved))
        call = _hash("RebalanceCycle", request)
        return rebalanced_of(await self._rebalancing.rebalance(name, call, request.revision, max_moved))

    async def _change(self, request: Any, decide: Decide) -> Shown:  # noqa: ANN401 - of each verb
        call = _hash(type(request).__name__, request)
        return await self._cycles.change(_name_of(request), call, request.revision, decide)


def _name_of(request: Any) -> Name:  # noqa: ANN401 - any request with a cycle_id
    namespace, cycle_id = namespace_of(request.namespace), request.cycle_id
    if not _ID.fullmatch(cycle_id):
        wrong = f"The cycle_id {quoted(cycle_id)} is not allowed" if cycle_id else "The cycle_id is missing"
        raise Invalid(f"{wrong}: give 1 to {MAX_ID_CHARS} characters of A-Z a-z 0-9 . _ - / :", "cycle_id")
    return Name(namespace, CYCLE + cycle_id)


def _template_of_slots(namespace: str, queue: str) -> Template:
    """Without a queue of the caller's it is for the instances themselves. Raises Invalid."""
    if not queue:
        return Template(*SLOTS, retry=PATIENT)
    return Template(namespace, queue_of(queue, "slot_queue"), content_type=SLOT_CONTENT, retry=PATIENT)


def _shape_of(request: wire.CreateCycleRequest, members: Template, shards: int) -> CycleShape:
    """Raises Invalid."""
    if request.slots > MAX_SLOTS:
        raise Invalid(f"There are {request.slots:,} slots: give at most {MAX_SLOTS:,}.", "slots")
    period_ms = duration_ms(request.period, "period")
    origin_ms = ms_from(request.origin, "origin") if request.HasField("origin") else 0
    places = checked_places(request.places, members)
    cut = checked_cycle(period_ms, request.slots, max(1, len(places)))
    if cut.slot_ms < MIN_SLOT_MS:
        most = period_ms // MIN_SLOT_MS
        raise Invalid(f"A slot of {cut.slot_ms} ms is too short: give at most {most:,} slots of a second.", "slots")
    if cut.slots > MAX_SLOTS:
        raise Invalid(f"{len(places)} places make {cut.slots:,} slots: there are at most {MAX_SLOTS:,}.", "places")
    lead_ms, has_roster = min(LEAD_MS, cut.slot_ms), not request.slot_queue
    kept = needing(PLACES) if places else ""
    return CycleShape(period_ms, cut.slots, origin_ms, lead_ms, shards, members, has_roster, places=places, kept=kept)


def _members_of(request: wire.FillSlotRequest | wire.PutMembersRequest) -> list[SlotMember]:
    """Raises Invalid."""
    keys, payloads = list(request.keys), list(request.payloads)
    limit_count(len(keys), MAX_KEYS, "keys", "keys")
    if payloads and len(payloads) != len(keys):
        raise Invalid(
            f"There are {len(payloads):,} payloads for {len(keys):,} keys: give one for each key, or none.", "payloads"
        )
    for n, key in enumerate(keys):
        if not key_of(key, f"keys[{n}]"):
            raise Invalid("The key is empty: leave such a member out.", f"keys[{n}]")
    payloads = payloads or [key.encode() for key in keys]
    longest = max(range(len(payloads)), key=lambda n: len(payloads[n]))
    if len(payloads[longest]) > MAX_PAYLOAD_BYTES:
        raise Invalid(
            f"The payload has {len(payloads[longest]):,} bytes: a member's task takes at most {MAX_PAYLOAD_BYTES:,}.",
            f"payloads[{longest}]",
            "PAYLOAD_TOO_LARGE",
        )
    return list({key: SlotMember(key, payload) for key, payload in zip(keys, payloads, strict=True)}.values())


def _weighted(members: list[SlotMember], request: wire.PutMembersRequest) -> list[SlotMember]:
    """Raises Invalid."""
    weights = list(request.weights)
    if not weights:
        return members
    if len(weights) != len(request.keys):
        raise Invalid(
            f"There are {len(weights):,} weights for {len(request.keys):,} keys: give one for each key, or none.",
            "weights",
        )
    for n, weight in enumerate(weights):
        if not 0 < weight <= MAX_WEIGHT:
            raise Invalid(f"The weight is {weight}: give one above 0 and up to {MAX_WEIGHT:,}.", f"weights[{n}]")
    of_key = dict(zip(request.keys, weights, strict=True))
    return [each._replace(weight=of_key[each.key]) for each in members]


def _hash(method: str, request: Any) -> str:  # noqa: ANN401 - any request with a request_id
    content = request.SerializeToString(deterministic=True) if request.request_id else b""
    return request_hash(method, request.namespace, request_id_of(request.request_id), content)


def cycle_of(shown: Shown) -> wire.Cycle:
    entry, definition, shape = shown.entry, shown.definition, shape_of(shown)
    out = wire.Cycle(
        cycle_id=shown.name.shown,
        namespace=shown.name.namespace,
        period=duration(shape.period_ms),
        origin=timestamp(shape.origin_ms),
        slots=shape.slots,
        places=shape.places,
        lead=duration(shape.lead_ms),
        template=wire_of_template(shape.members),
        slot_queue="" if shape.has_roster else definition.template.queue,
        state=state_of(shown),
        revision=entry.revision,
        labels=dict(definition.labels),
        note=definition.note,
        error=entry.error,
        slots_created=entry.created,
        slots_missed=entry.missed,
    )
    if definition.until_ms:
        out.pause_until.CopyFrom(timestamp(definition.until_ms))
    if shown.upcoming:
        out.next_slot_time.CopyFrom(timestamp(shown.upcoming[0][0] + shape.lead_ms))
    return out


def rebalanced_of(done: Rebalanced) -> wire.RebalanceCycleResponse:
    balance = done.balance
    out = wire.RebalanceCycleResponse(
        moved=len(balance.places),
        members=balance.members,
        mean=balance.mean,
        largest_before=balance.largest_before,
        largest=balance.largest,
        largest_key=balance.largest_key,
    )
    if done.effective_ms:
        out.effective_time.CopyFrom(timestamp(done.effective_ms))
    return out


def _is_asked_for(cycle: wire.Cycle, request: wire.ListCyclesRequest) -> bool:
    labels: Sequence[bool] = [cycle.labels.get(name) == value for name, value in request.labels.items()]
    return all(labels) and cycle.cycle_id.startswith(request.prefix)


def _place_of(request: wire.ListCyclesRequest) -> ListPlace:
    raw = after_of(request, 1 + _NAME_BYTES)
    return ListPlace(raw[0], raw[1:].rstrip(b"\xff")) if raw is not None else ListPlace(0, b"")


def _token_of(request: wire.ListCyclesRequest, place: ListPlace | None) -> str:
    """No name has this byte, for names are UTF-8."""
    if place is None:
        return ""
    return page_token(request, bytes((place.slot,)) + place.after.ljust(_NAME_BYTES, b"\xff"))
