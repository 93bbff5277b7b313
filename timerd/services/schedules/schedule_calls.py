"""Calls of ScheduleService: checked in full before anything is written, answered as messages."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from google.protobuf.message import Message

from timerd.core.schedules.changes import (
    Decide,
    Name,
    deleted,
    paused,
    resumed,
    resumed_with_missed,
    updated,
)
from timerd.core.schedules.creating_many import WantedSchedule
from timerd.model.errors import AlreadyExists, Invalid
from timerd.model.instants import shown as shown_instant
from timerd.model.overlap import EndedOccurrence
from timerd.model.schedules import Definition, ScheduleState
from timerd.model.settle import Outcome
from timerd.model.task import Template
from timerd.services.calls.due_times import later_ms, ms_from
from timerd.services.calls.expiries import check_spans
from timerd.services.calls.fields import at_most, namespace_of, plain_text, quoted, request_id_of
from timerd.services.calls.page_tokens import PagedRequest, after_of, page_token
from timerd.services.calls.repeats import Reply, answered_once
from timerd.services.calls.replies import timestamp, wire_of_template
from timerd.services.calls.templates import checked_labels, common_of
from timerd.services.engine.verbs import ENDED, State, Verbs
from timerd.services.schedules.schedules import ListPlace, Schedules, Shown, request_hash
from timerd.services.schedules.spec_wire import (
    checked,
    policies_of,
    spec_of,
    wire_of_policies,
    wire_of_spec,
)
from timerd.services.transport.slices import in_slices
from timerd.v1 import schedule_service_pb2 as wire
from timerd.v1 import task_pb2 as task_wire

MAX_PAYLOAD_BYTES = 64 << 10
DEFAULT_PAGE, MAX_PAGE = 100, 1_000
DEFAULT_PREVIEW, MAX_PREVIEW = 10, 1_000
MAX_ID_CHARS = 128
MAX_NOTE_CHARS = 1_024
_ID = re.compile(r"[A-Za-z0-9._\-/:]{1,128}")
_STATES = {
    ScheduleState.ACTIVE: wire.SCHEDULE_STATE_ACTIVE,
    ScheduleState.PAUSED: wire.SCHEDULE_STATE_PAUSED,
    ScheduleState.DONE: wire.SCHEDULE_STATE_DONE,
}
_CONFLICTS = (
    wire.SCHEDULE_CONFLICT_UNSPECIFIED,
    wire.SCHEDULE_CONFLICT_REJECT,
    wire.SCHEDULE_CONFLICT_UPDATE,
)
_RESUMES: dict[int, Decide] = {
    wire.RESUME_MODE_UNSPECIFIED: resumed,
    wire.RESUME_MODE_SKIP_MISSED: resumed,
    wire.RESUME_MODE_CATCH_UP: resumed_with_missed,
}
# Behind its slot; nothing else is as long.
_NAME_BYTES = MAX_ID_CHARS + 32


class ScheduleCalls:
    """One method a call: request -> reply, or one of model.errors."""

    def __init__(self, schedules: Schedules, verbs: Verbs) -> None:
        self._schedules = schedules
        self._verbs = verbs

    def verbs(self) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
        return {
            "CreateSchedule": self._once(self.create, wire.CreateScheduleResponse),
            "GetSchedule": self.get,
            "ListSchedules": self.list,
            "UpdateSchedule": self._once(self.update, wire.UpdateScheduleResponse),
            "PauseSchedule": self._once(self.pause, wire.PauseScheduleResponse),
            "ResumeSchedule": self._once(self.resume, wire.ResumeScheduleResponse),
            "DeleteSchedule": self._once(self.delete, wire.DeleteScheduleResponse),
            "TriggerSchedule": self._once(self.trigger, wire.TriggerScheduleResponse),
            "PreviewSchedule": self.preview,
        }

    def _once(self, verb: Callable[[Any], Awaitable[Reply]], kind: type[Reply]) -> Callable[[Any], Awaitable[Reply]]:
        return once(self._verbs, verb, kind)

    async def create(self, request: wire.CreateScheduleRequest) -> wire.CreateScheduleResponse:
        wanted = wanted_of(request.namespace, request, hash_of("CreateSchedule", request))
        try:
            shown = await self._schedules.create(wanted.name, wanted.request, wanted.definition)
        except AlreadyExists:
            if request.on_conflict != wire.SCHEDULE_CONFLICT_UPDATE:
                raise
            shown = await self._schedules.change(wanted.name, wanted.request, 0, as_asked(wanted.definition))
        return wire.CreateScheduleResponse(schedule=schedule_of(shown))

    async def update(self, request: wire.UpdateScheduleRequest) -> wire.UpdateScheduleResponse:
        name, paths = name_of(request.namespace, request.schedule_id), list(request.update_mask.paths)
        if not paths or (unknown := sorted({*paths} - {*_EDITS})):
            wrong = f"update_mask names {unknown[0]!r}" if paths else "update_mask is empty"
            raise Invalid(f"{wrong}: name what changes, of {', '.join(_EDITS)}.", "update_mask")
        values = {path: _EDITS[path](name.namespace, request) for path in paths}
        if "spec" in values:
            if not request.spec.zone:
                own = (await self._schedules.get(name)).definition.spec.zone
                values["spec"] = replace(values["spec"], zone=own)
            self._schedules.check(name.schedule_id, values["spec"])
        call = hash_of("UpdateSchedule", request)
        shown = await self._schedules.change(name, call, request.revision, updated(lambda old: _edited(old, values)))
        return wire.UpdateScheduleResponse(change=change_of(shown))

    async def pause(self, request: wire.PauseScheduleRequest) -> wire.PauseScheduleResponse:
        note = plain_text(request.note, MAX_NOTE_CHARS, "note", "note")
        until_ms = later_ms(request, self._schedules.world.now_ms())
        decide = paused(note, until_ms)
        name, call = name_of(request.namespace, request.schedule_id), hash_of("PauseSchedule", request)
        return wire.PauseScheduleResponse(
            change=change_of(await self._schedules.change(name, call, request.revision, decide))
        )

    async def resume(self, request: wire.ResumeScheduleRequest) -> wire.ResumeScheduleResponse:
        if request.mode not in _RESUMES:
            raise Invalid(f"mode has no value {request.mode}: use SKIP_MISSED or CATCH_UP.", "mode")
        name, call = name_of(request.namespace, request.schedule_id), hash_of("ResumeSchedule", request)
        shown = await self._schedules.change(name, call, request.revision, _RESUMES[request.mode])
        return wire.ResumeScheduleResponse(change=change_of(shown))

    async def delete(self, request: wire.DeleteScheduleRequest) -> wire.DeleteScheduleResponse:
        name, call = name_of(request.namespace, request.schedule_id), hash_of("DeleteSchedule", request)
        decide, cancel_open = deleted(cancel_open=request.cancel_open), request.cancel_open
        shown = await self._schedules.change(name, call, request.revision, decide, cancel_open=cancel_open)
        entry = shown.entry
        return wire.DeleteScheduleResponse(
            effective_time=timestamp(entry.since_ms), taken=[timestamp(each) for each in entry.taken]
        )

    async def trigger(self, request: wire.TriggerScheduleRequest) -> wire.TriggerScheduleResponse:
        name, call = name_of(request.namespace, request.schedule_id), hash_of("TriggerSchedule", request)
        task, fire_at_ms = await self._schedules.trigger(name, call)
        return wire.TriggerScheduleResponse(task_id=str(task), fire_time=timestamp(fire_at_ms))

    async def get(self, request: wire.GetScheduleRequest) -> wire.GetScheduleResponse:
        shown = await self._schedules.get(name_of(request.namespace, request.schedule_id))
        return wire.GetScheduleResponse(schedule=schedule_of(shown))

    async def list(self, request: wire.ListSchedulesRequest) -> wire.ListSchedulesResponse:
        namespace = namespace_of(request.namespace)
        limit = at_most(request.page_size, DEFAULT_PAGE, MAX_PAGE)
        found, place = await self._schedules.page(namespace, place_of(request), limit)
        shown = [schedule_of(each, brief=True) async for _, each in in_slices(found)]
        chooses = request.labels or request.states or request.zone or request.prefix
        return wire.ListSchedulesResponse(
            schedules=[each for each in shown if _is_asked_for(each, request)] if chooses else shown,
            next_page_token=token_of(request, place) if place is not None else "",
        )

    async def preview(self, request: wire.PreviewScheduleRequest) -> wire.PreviewScheduleResponse:
        count = at_most(request.count, DEFAULT_PREVIEW, MAX_PREVIEW)
        is_spec = request.WhichOneof("target") == "spec"
        name = Name(namespace_of(request.namespace), "preview")
        if not is_spec:
            name = name_of(request.namespace, request.schedule_id)
        from_ms = ms_from(getattr(request, "from"), "from") if request.HasField("from") else None
        spec = spec_of(request.spec) if is_spec else None
        foreseen = await self._schedules.preview(name, spec, from_ms, count)
        return wire.PreviewScheduleResponse(
            occurrences=[
                wire.Occurrence(
                    instant=timestamp(each.instant_ms),
                    fire_time=timestamp(fire_at_ms) if fire_at_ms is not None else None,
                    local_time=each.local,
                    named_time=each.named,
                    change="" if each.change == "NONE" else each.change,
                )
                for each, fire_at_ms in foreseen
            ]
        )


def once(verbs: Verbs, verb: Callable[[Any], Awaitable[Reply]], kind: type[Reply]) -> Callable[[Any], Awaitable[Reply]]:
    """Of a call that changes something: a repeat is answered as the first time, whatever was done since."""

    async def call(request: Any) -> Reply:  # noqa: ANN401 - each verb has its own
        namespace = namespace_of(request.namespace)
        request_id_of(request.request_id)
        return await answered_once(verbs, namespace, request, kind, lambda: verb(request))

    return call


def wanted_of(namespace: str, request: wire.CreateScheduleRequest, call: str) -> WantedSchedule:
    """Raises Invalid."""
    name = name_of(namespace, request.schedule_id)
    if request.on_conflict not in _CONFLICTS:
        raise Invalid(f"on_conflict has no value {request.on_conflict}: use REJECT or UPDATE.", "on_conflict")
    definition = Definition(
        spec_of(request.spec),
        policies_of(request.policies),
        template_of(name.namespace, request.template),
        payload_of(request.payload),
        checked_labels(dict(request.labels)),
    )
    return WantedSchedule(name, call, checked(definition))


def name_of(namespace: str, schedule_id: str) -> Name:
    checked = namespace_of(namespace)
    if not _ID.fullmatch(schedule_id):
        wrong = f"The schedule_id {quoted(schedule_id)} is not allowed" if schedule_id else "The schedule_id is missing"
        raise Invalid(f"{wrong}: give 1 to {MAX_ID_CHARS} characters of A-Z a-z 0-9 . _ - / :", "schedule_id")
    return Name(checked, schedule_id)


def template_of(namespace: str, given: task_wire.TaskTemplate) -> Template:
    """Of the tasks. When they expire follows from the policy of catching up, and from their own instants."""
    for field in ("expire_time", "soft_expire_time"):
        if given.HasField(field):
            raise Invalid(
                f"A schedule's template has no {field}, which is one instant: see catch_up and expire_after.",
                f"template.{field}",
            )
    if given.on_conflict:
        raise Invalid("A schedule's tasks have no keys: leave on_conflict out.", "template.on_conflict")
    if given.ordering_key:
        raise Invalid(
            "A schedule's tasks have no ordering_key: leave it out, or let their handler schedule tasks that have one.",
            "template.ordering_key",
        )
    template = common_of(namespace, given, "template.").template
    check_spans(template)
    return template


def payload_of(payload: bytes) -> bytes:
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise Invalid(
            f"The payload has {len(payload):,} bytes: a schedule takes at most {MAX_PAYLOAD_BYTES:,}. Keep large "
            "content elsewhere and send where to find it.",
            "payload",
            "PAYLOAD_TOO_LARGE",
        )
    return payload


def hash_of(method: str, request: Any) -> str:  # noqa: ANN401 - any request with a request_id
    content = request.SerializeToString(deterministic=True) if request.request_id else b""
    return request_hash(method, request.namespace, request_id_of(request.request_id), content)


def as_asked(asked: Definition) -> Decide:
    """A pause stays."""
    return updated(lambda old: replace(asked, note=old.note, until_ms=old.until_ms))


def _edited(old: Definition, values: Mapping[str, Any]) -> Definition:
    """Raises Invalid."""
    whole = replace(old, **{path: value for path, value in values.items() if "." not in path})
    policies = whole.policies
    for path, fields in values.items():
        policies = replace(policies, **fields) if "." in path else policies
    return checked(replace(whole, policies=policies))


def _policy(fields: Sequence[str], _: str, request: wire.UpdateScheduleRequest) -> dict[str, Any]:
    """A part of the policies, which an update may name by itself."""
    given = policies_of(request.policies)
    return {name: getattr(given, name) for name in fields}


_POLICY_FIELDS = {
    "catch_up": ("catch_up", "window_ms", "most"),
    "max_count": ("max_count",),
    "overlap": ("overlap",),
    "pause_on_dead": ("pause_on_dead",),
}
# What an update may name -> its value.
_EDITS: dict[str, Callable[[str, wire.UpdateScheduleRequest], Any]] = {
    "spec": lambda _, request: spec_of(request.spec),
    "policies": lambda _, request: policies_of(request.policies),
    **{f"policies.{part}": partial(_policy, fields) for part, fields in _POLICY_FIELDS.items()},
    "template": lambda namespace, request: template_of(namespace, request.template),
    "payload": lambda _, request: payload_of(request.payload),
    "labels": lambda _, request: checked_labels(dict(request.labels)),
}


def change_of(shown: Shown) -> wire.ScheduleChange:
    return wire.ScheduleChange(
        schedule=schedule_of(shown),
        effective_time=timestamp(shown.entry.since_ms),
        taken=[timestamp(each) for each in shown.entry.taken],
    )


def schedule_of(shown: Shown, *, brief: bool = False) -> wire.Schedule:
    entry, definition = shown.entry, shown.definition
    out = wire.Schedule(
        schedule_id=shown.name.schedule_id,
        namespace=shown.name.namespace,
        spec=wire_of_spec(definition.spec),
        policies=wire_of_policies(definition.policies),
        template=wire_of_template(definition.template),
        state=state_of(shown),
        revision=entry.revision,
        labels=dict(definition.labels),
        note=note_of(shown),
        error=entry.error,
        created=entry.created,
        missed=entry.missed,
        skipped=entry.overlap.skipped,
        waiting=len(entry.overlap.waiting),
        tzdata=entry.tzdata,
    )
    if definition.until_ms:
        out.pause_until.CopyFrom(timestamp(definition.until_ms))
    out.last.extend(map(_outcome_of, reversed(entry.overlap.last)))
    if not brief:
        out.payload = definition.payload
        out.open_task_id = str(shown.open_task) if shown.open_task is not None else ""
        out.upcoming.extend(
            wire.Occurrence(instant=timestamp(instant_ms), fire_time=timestamp(fire_at_ms))
            for instant_ms, fire_at_ms in shown.upcoming
        )
    return out


def state_of(shown: Shown) -> wire.ScheduleState:
    """DONE is it when its last task was to fire: before, that one is upcoming."""
    if shown.entry.error:
        return wire.SCHEDULE_STATE_BROKEN
    if shown.entry.state is ScheduleState.DONE and not shown.is_done:
        return wire.SCHEDULE_STATE_ACTIVE
    return _STATES[shown.entry.state]


def note_of(shown: Shown) -> str:
    """Its caller's, or why it has paused itself."""
    halted_ms = shown.entry.overlap.halted_ms
    if shown.definition.note or not halted_ms:
        return shown.definition.note
    return f"The task of {shown_instant(halted_ms)} is a dead letter."


def _outcome_of(ended: EndedOccurrence) -> wire.ScheduleOutcome:
    state = ENDED.get(Outcome(ended.outcome), State.FINISHED)
    return wire.ScheduleOutcome(
        instant=timestamp(ended.instant_ms),
        state=int(state),  # type: ignore[arg-type]
        is_trigger=ended.is_trigger,
    )


def _is_asked_for(schedule: wire.Schedule, request: wire.ListSchedulesRequest) -> bool:
    labels = all(schedule.labels.get(name) == value for name, value in request.labels.items())
    states = not request.states or schedule.state in request.states
    zones = not request.zone or schedule.spec.zone == request.zone
    return labels and states and zones and schedule.schedule_id.startswith(request.prefix)


def place_of(request: PagedRequest) -> ListPlace:
    raw = after_of(request, 1 + _NAME_BYTES)
    return ListPlace(raw[0], raw[1:].rstrip(b"\xff")) if raw is not None else ListPlace(0, b"")


def token_of(request: PagedRequest, place: ListPlace) -> str:
    """No name has this byte, for names are UTF-8."""
    return page_token(request, bytes((place.slot,)) + place.after.ljust(_NAME_BYTES, b"\xff"))
