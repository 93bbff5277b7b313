"""ScheduleSpec and SchedulePolicies of the wire -> values of the model, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from timerd.core.recurrence import refuse_long_steps
from timerd.model.errors import Invalid
from timerd.model.instants import shown
from timerd.model.overlap import Overlap
from timerd.model.recurrence import (
    ZERO,
    At,
    Between,
    Calendar,
    Cron,
    Dates,
    Every,
    Exclusion,
    Gap,
    Jitter,
    Part,
    Repeat,
    RRule,
    Span,
    Spec,
)
from timerd.model.schedules import CatchUp, Definition, Policies
from timerd.services.calls.due_times import duration_ms, ms_from
from timerd.services.calls.replies import timestamp
from timerd.v1 import schedule_service_pb2 as wire

MAX_CATCH_UP = 1_000
_UNITS = ("seconds", "minutes", "hours", "days", "months", "years", "weekdays")
_GAPS, _REPEATS = frozenset(map(int, Gap)), frozenset(map(int, Repeat))
_CATCH_UP = {
    wire.CATCH_UP_POLICY_UNSPECIFIED: CatchUp.LATEST,
    wire.CATCH_UP_POLICY_LATEST: CatchUp.LATEST,
    wire.CATCH_UP_POLICY_ALL: CatchUp.ALL,
    wire.CATCH_UP_POLICY_NONE: CatchUp.NONE,
}
_CATCH_UP_BACK = {
    CatchUp.LATEST: wire.CATCH_UP_POLICY_LATEST,
    CatchUp.ALL: wire.CATCH_UP_POLICY_ALL,
    CatchUp.NONE: wire.CATCH_UP_POLICY_NONE,
}

OVERLAPS = {
    wire.OVERLAP_POLICY_ALLOW: Overlap.ALLOW,
    wire.OVERLAP_POLICY_SKIP: Overlap.SKIP,
    wire.OVERLAP_POLICY_BUFFER_ONE: Overlap.BUFFER_ONE,
    wire.OVERLAP_POLICY_BUFFER_ALL: Overlap.BUFFER_ALL,
    wire.OVERLAP_POLICY_CANCEL_OTHER: Overlap.CANCEL_OTHER,
    wire.OVERLAP_POLICY_REPLACE: Overlap.REPLACE,
}
OVERLAP_BACK = {overlap: number for number, overlap in OVERLAPS.items()}


def spec_of(given: wire.ScheduleSpec, field: str = "spec") -> Spec:
    """Raises Invalid; what the parts say is judged where it is computed."""
    if not given.parts and not given.HasField("fixed_delay"):
        raise Invalid("The spec has no parts: say when, for example by a cron expression.", f"{field}.parts")
    if int(given.gap) not in _GAPS or int(given.repeat) not in _REPEATS or given.jitter_kind not in (0, 1, 2):
        raise Invalid("gap, repeat or jitter_kind has a value that this server does not know.", field)
    return Spec(
        tuple(_part(part, f"{field}.parts[{n}]") for n, part in enumerate(given.parts)),
        tuple(_exclusion(each, f"{field}.exclude[{n}]") for n, each in enumerate(given.exclude)),
        given.zone or "UTC",
        _instant(given, "start_time", field),
        _instant(given, "end_time", field),
        duration_ms(given.jitter, f"{field}.jitter") if given.HasField("jitter") else 0,
        Jitter.FIXED if given.jitter_kind == wire.JITTER_KIND_FIXED else Jitter.EACH,
        Gap(given.gap),
        Repeat(given.repeat),
        _fixed_delay_ms(given, f"{field}.fixed_delay"),
    )


def _fixed_delay_ms(given: wire.ScheduleSpec, field: str) -> int:
    if not given.HasField("fixed_delay"):
        return 0
    span_ms = duration_ms(given.fixed_delay, field)
    if not span_ms:
        raise Invalid("The fixed delay is 0 ms: it must be from 1 s to 100 years.", field)
    return span_ms


def _instant(given: wire.ScheduleSpec, name: str, field: str) -> int:
    """0: there is no such bound. Raises Invalid for an end that would be taken for none."""
    if not given.HasField(name):
        return 0
    at_ms = ms_from(getattr(given, name), f"{field}.{name}")
    if at_ms < 0 or (name == "end_time" and not at_ms):
        raise Invalid(f"{name} is {shown(at_ms)}: give one after 1970, or leave it out.", f"{field}.{name}")
    return at_ms


def _part(given: wire.SpecPart, field: str) -> Part:
    match given.WhichOneof("part"):
        case "cron":
            refuse_long_steps(given.cron, f"{field}.cron")
            return Cron(given.cron)
        case "every":
            anchor_ms = ms_from(given.every.anchor, f"{field}.every.anchor") if given.every.HasField("anchor") else 0
            return Every(duration_ms(given.every.period, f"{field}.every.period"), anchor_ms)
        case "calendar":
            fields: dict[str, Any] = {unit: _spans(getattr(given.calendar, unit), unit) for unit in _UNITS}
            return Calendar(**fields)
        case "rrule":
            return RRule(given.rrule)
        case "at":
            return At(tuple(given.at.times))
        case _:
            raise Invalid("The part is empty: fill cron, every, calendar, rrule or at.", field)


def _spans(given: Sequence[wire.SpecSpan], unit: str) -> tuple[Span, ...]:
    if not given and unit in ("seconds", "minutes", "hours"):
        return ZERO
    return tuple(Span(each.first, each.last if each.HasField("last") else each.first, each.step or 1) for each in given)


def _exclusion(given: wire.SpecExclusion, field: str) -> Exclusion:
    match given.WhichOneof("exclusion"):
        case "part":
            return _part(given.part, f"{field}.part")
        case "dates":
            return Dates(tuple(given.dates.days))
        case "between":
            return Between(given.between.start, given.between.end)
        case _:
            raise Invalid("The exclusion is empty: fill part, dates or between.", field)


# As the model has them -> as callers do.
_WIRE_FIELDS = {
    "start_ms": "start_time",
    "end_ms": "end_time",
    "jitter_ms": "jitter",
    "period_ms": "period",
    "fixed_delay_ms": "fixed_delay",
    "cron.expression": "cron",
    "rrule.text": "rrule",
}


def wire_field(field: str) -> str:
    """The path of a field of the spec, in a request."""
    for own, of_wire in _WIRE_FIELDS.items():
        if field.endswith(own):
            return f"spec.{field.removesuffix(own)}{of_wire}"
    return f"spec.{field}"


def policies_of(given: wire.SchedulePolicies) -> Policies:
    """Each by itself: of an update the others may be those that the schedule has (`checked`). Raises Invalid."""
    if given.catch_up not in _CATCH_UP:
        raise Invalid(f"catch_up has no value {given.catch_up}: use LATEST, ALL or NONE.", "policies.catch_up")
    if given.catch_up_max > MAX_CATCH_UP:
        raise Invalid(
            f"catch_up_max is {given.catch_up_max:,}: give at most {MAX_CATCH_UP:,}.", "policies.catch_up_max"
        )
    window_ms = 0
    if given.HasField("catch_up_window"):
        window_ms = duration_ms(given.catch_up_window, "policies.catch_up_window")
        if window_ms <= 0:
            raise Invalid("catch_up_window is not a span of time: give more than 0.", "policies.catch_up_window")
    if (window_ms or given.catch_up_max) and given.catch_up != wire.CATCH_UP_POLICY_ALL:
        name = "catch_up_window" if window_ms else "catch_up_max"
        raise Invalid(
            f"{name} says how much of what was missed comes with catch_up ALL: use that, or leave it out.",
            f"policies.{name}",
        )
    most = given.catch_up_max or MAX_CATCH_UP
    return Policies(
        _CATCH_UP[given.catch_up], window_ms, most, given.max_count, _overlap_of(given), given.pause_on_dead
    )


def _overlap_of(given: wire.SchedulePolicies) -> Overlap:
    """Raises Invalid."""
    overlap = OVERLAPS.get(given.overlap or wire.OVERLAP_POLICY_ALLOW)
    if overlap is None:
        allowed = ", ".join(each.name for each in Overlap)
        raise Invalid(f"overlap has no value {given.overlap}: use one of {allowed}.", "policies.overlap")
    return overlap


def checked(definition: Definition) -> Definition:
    """What its parts ask of each other. Raises Invalid."""
    if definition.spec.fixed_delay_ms:
        definition = replace(definition, policies=_of_fixed_delay(definition.policies))
    policies = definition.policies
    if policies.pause_on_dead and policies.overlap is Overlap.ALLOW:
        raise Invalid(
            "pause_on_dead needs an overlap policy other than ALLOW, which looks at no task: use SKIP or another one.",
            "policies.pause_on_dead",
        )
    return definition


def _of_fixed_delay(policies: Policies) -> Policies:
    """Which task is open is looked at as under SKIP, which then has nothing to skip."""
    if policies.overlap not in (Overlap.ALLOW, Overlap.SKIP):
        raise Invalid(
            "With a fixed delay no task comes before the one before has ended: leave overlap out.", "policies.overlap"
        )
    if policies.catch_up is not CatchUp.LATEST:
        raise Invalid("With a fixed delay no instant is missed: leave catch_up out.", "policies.catch_up")
    return replace(policies, overlap=Overlap.SKIP)


# --- back ----------------------------------------------------------------------------------------------------------


def wire_of_spec(spec: Spec) -> wire.ScheduleSpec:
    out = wire.ScheduleSpec(zone=spec.zone, parts=map(_wire_of_part, spec.parts))
    if spec.gap or spec.repeat:
        out.gap, out.repeat = int(spec.gap), int(spec.repeat)  # type: ignore[assignment]
    if spec.exclude:
        out.exclude.extend(map(_wire_of_exclusion, spec.exclude))
    for name, at_ms in (("start_time", spec.start_ms), ("end_time", spec.end_ms)):
        if at_ms:
            getattr(out, name).CopyFrom(timestamp(at_ms))
    if spec.fixed_delay_ms:
        out.fixed_delay.FromMilliseconds(spec.fixed_delay_ms)
    if spec.jitter_ms:
        out.jitter.FromMilliseconds(spec.jitter_ms)
        out.jitter_kind = wire.JITTER_KIND_FIXED if spec.jitter is Jitter.FIXED else wire.JITTER_KIND_EACH
    return out


def _wire_of_part(part: Exclusion) -> wire.SpecPart:
    if isinstance(part, Cron):
        return wire.SpecPart(cron=part.expression)
    out = wire.SpecPart()
    match part:
        case Every():
            out.every.period.FromMilliseconds(part.period_ms)
            if part.anchor_ms:
                out.every.anchor.CopyFrom(timestamp(part.anchor_ms))
        case Calendar():
            out.calendar.SetInParent()
            for unit in _UNITS:
                spans = getattr(part, unit)
                getattr(out.calendar, unit).extend(wire.SpecSpan(first=f, last=last, step=s) for f, last, s in spans)
        case RRule():
            out.rrule = part.text
        case At():
            out.at.times.extend(part.times)
    return out


def _wire_of_exclusion(form: Exclusion) -> wire.SpecExclusion:
    if isinstance(form, Dates):
        return wire.SpecExclusion(dates=wire.DatesPart(days=form.days))
    if isinstance(form, Between):
        return wire.SpecExclusion(between=wire.BetweenPart(start=form.start, end=form.end))
    return wire.SpecExclusion(part=_wire_of_part(form))


@lru_cache(maxsize=256)
def wire_of_policies(policies: Policies) -> wire.SchedulePolicies:
    """To be copied: schedules have the same few."""
    out = wire.SchedulePolicies(
        catch_up=_CATCH_UP_BACK[policies.catch_up],
        max_count=policies.max_count,
        overlap=OVERLAP_BACK[policies.overlap],
        pause_on_dead=policies.pause_on_dead,
    )
    if policies.catch_up is CatchUp.ALL:
        out.catch_up_max = policies.most
        if policies.window_ms:
            out.catch_up_window.FromMilliseconds(policies.window_ms)
    return out
