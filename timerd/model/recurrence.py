"""What a schedule says about when: a union of parts, less its exclusions, in one zone (core/recurrence computes it).

Times without an offset are wall-clock times of the zone; instants are UTC milliseconds. The forms say what was asked,
unresolved: neither a clock nor the data of zones is needed to store, compare or show them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple, Union

from timerd.model.codec import check_understood, field_names, split_known, unknown_member, with_kept
from timerd.model.errors import NotUnderstood

MAX_PARTS = 32
MAX_TIMES = 1_000
MAX_INSTANTS_A_MINUTE = 1_000
MIN_PERIOD_MS = 1_000


class Gap(IntEnum):
    """What becomes of a wall-clock time that the zone leaves out."""

    AUTO = 0  # NEXT for times of a fixed hour and minute, SKIP for what comes every so often
    SKIP = 1
    NEXT = 2  # the first instant after the gap; several become one
    SHIFT = 3  # later by the length of the gap

    @classmethod
    def _missing_(cls, value: object) -> Gap:
        return unknown_member(cls, value)


class Repeat(IntEnum):
    """What becomes of a wall-clock time that comes twice."""

    AUTO = 0  # FIRST for times of a fixed hour and minute, BOTH for what comes every so often
    FIRST = 1
    LAST = 2
    BOTH = 3

    @classmethod
    def _missing_(cls, value: object) -> Repeat:
        return unknown_member(cls, value)


class Jitter(IntEnum):
    """What the delay of an occurrence is drawn from."""

    EACH = 0  # schedule and instant
    FIXED = 1  # the schedule alone: the same delay each time

    @classmethod
    def _missing_(cls, value: object) -> Jitter:
        return unknown_member(cls, value)


class Span(NamedTuple):
    """`first`, `first + step`, ... up to `last`."""

    first: int
    last: int
    step: int = 1


ZERO = (Span(0, 0),)


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields, or six with seconds first; names, `L`, `#`, steps, `@daily`, `H` by hash of the schedule's id."""

    kind: ClassVar[str] = "cron"
    expression: str
    # Here and below: the fields that only a later release knows (model/codec.py).
    kept: str = field(default="", hash=False)


@dataclass(frozen=True, slots=True)
class Every:
    """The instants anchor + k * period, for every whole k: the anchor is a phase and no beginning."""

    kind: ClassVar[str] = "every"
    period_ms: int
    anchor_ms: int = 0
    kept: str = field(default="", hash=False)


@dataclass(frozen=True, slots=True)
class Calendar:
    """All fields must match; an empty one matches everything. Day -1 is the last of its month, weekday 0 is Sunday."""

    kind: ClassVar[str] = "calendar"
    seconds: tuple[Span, ...] = ZERO
    minutes: tuple[Span, ...] = ZERO
    hours: tuple[Span, ...] = ZERO
    days: tuple[Span, ...] = ()
    months: tuple[Span, ...] = ()
    years: tuple[Span, ...] = ()
    weekdays: tuple[Span, ...] = ()
    kept: str = field(default="", hash=False)


@dataclass(frozen=True, slots=True)
class RRule:
    """RFC 5545: a rule, or lines of DTSTART, RRULE, RDATE and EXDATE in wall-clock time of the schedule's zone."""

    kind: ClassVar[str] = "rrule"
    text: str
    kept: str = field(default="", hash=False)


@dataclass(frozen=True, slots=True)
class At:
    """Times in ISO form: wall-clock times, or instants where an offset or `Z` follows."""

    kind: ClassVar[str] = "at"
    times: tuple[str, ...]
    kept: str = field(default="", hash=False)


@dataclass(frozen=True, slots=True)
class Dates:
    """Whole days in ISO form; `2026-12-24/2027-01-01` is from the one to the other, both included. Excludes only."""

    kind: ClassVar[str] = "dates"
    days: tuple[str, ...]
    kept: str = field(default="", hash=False)


@dataclass(frozen=True, slots=True)
class Between:
    """[start, end) in the forms of `At`. Excludes only."""

    kind: ClassVar[str] = "between"
    start: str
    end: str
    kept: str = field(default="", hash=False)


Part = Union[Cron, Every, Calendar, RRule, At]  # noqa: UP007 - get_args needs one form
Exclusion = Union[Cron, Every, Calendar, RRule, At, Dates, Between]  # noqa: UP007
_FORMS: Mapping[str, Callable[..., Exclusion]] = {
    form.kind: form for form in (Cron, Every, Calendar, RRule, At, Dates, Between)
}
_FIELDS_OF = {kind: field_names(form) for kind, form in _FORMS.items()}
_KINDS: Mapping[str, Callable[[int], IntEnum]] = {"jitter": Jitter, "gap": Gap, "repeat": Repeat}
_SPANS = frozenset(("seconds", "minutes", "hours", "days", "months", "years", "weekdays"))


@dataclass(frozen=True, slots=True)
class Spec:
    """Instants of [start_ms, end_ms); 0 = no beginning, no end. Each comes at most `jitter_ms` after its own. With a
    `fixed_delay_ms` there are no parts: each comes so long after the end of the task before."""

    parts: tuple[Part, ...]
    exclude: tuple[Exclusion, ...] = ()
    zone: str = "UTC"
    start_ms: int = 0
    end_ms: int = 0
    jitter_ms: int = 0
    jitter: Jitter = Jitter.EACH
    gap: Gap = Gap.AUTO
    repeat: Repeat = Repeat.AUTO
    fixed_delay_ms: int = 0
    kept: str = field(default="", hash=False)

    def to_json(self) -> dict[str, Any]:
        """Without what is as it is by default."""
        stored: dict[str, Any] = {"parts": [form_to_json(part) for part in self.parts]}
        if self.exclude:
            stored["exclude"] = [form_to_json(form) for form in self.exclude]
        for name, value in (("zone", self.zone), *_numbers(self)):
            if value != _DEFAULTS[name]:
                stored[name] = value
        return with_kept(stored, self.kept)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Spec:
        """Raises NotUnderstood."""
        values, kept = split_known(stored, _SPEC)
        check_understood("The times of a schedule", kept)
        values |= {name: of(values[name]) for name, of in _KINDS.items() if name in values}
        for name in ("parts", "exclude"):
            values[name] = tuple(form_from_json(each) for each in values.get(name, ()))
        return cls(**values, kept=kept)


def form_to_json(form: Exclusion) -> dict[str, Any]:
    """{kind: {its fields}}."""
    values = {each.name: getattr(form, each.name) for each in fields(form) if each.name != "kept"}
    return {form.kind: with_kept(values, form.kept)}


def form_from_json(stored: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a Part or an Exclusion, as it stood there
    """Raises NotUnderstood."""
    [(kind, said)] = stored.items()
    if kind not in _FORMS:
        raise NotUnderstood("The times of a schedule", [kind])
    values, kept = split_known(said, _FIELDS_OF[kind])
    check_understood("The times of a schedule", kept)
    if kind == Calendar.kind:
        values = {name: tuple(Span(*span) for span in value) for name, value in values.items()}
    return _FORMS[kind](**{name: _frozen(value) for name, value in values.items()}, kept=kept)


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _numbers(spec: Spec) -> list[tuple[str, int]]:
    names = ("start_ms", "end_ms", "jitter_ms", "jitter", "gap", "repeat", "fixed_delay_ms")
    return [(name, int(getattr(spec, name))) for name in names]


_SPEC = field_names(Spec)
_DEFAULTS: Mapping[str, object] = {
    "zone": "UTC", "start_ms": 0, "end_ms": 0, "jitter_ms": 0, "jitter": 0, "gap": 0, "repeat": 0, "fixed_delay_ms": 0,
}  # fmt: skip
