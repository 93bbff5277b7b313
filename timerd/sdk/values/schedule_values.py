"""What users hand in and get back of recurring schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

from google.protobuf.timestamp_pb2 import Timestamp

from timerd.sdk.values.checks import check_keywords, invalid, listed, text
from timerd.sdk.values.ids import encode_id
from timerd.sdk.values.tasks import TaskState, _WireEnum
from timerd.sdk.values.times import (
    Span,
    datetime_of_ms,
    duration_of_ms,
    instant_ms,
    ms_of_timestamp,
    span_ms,
    timestamp_of_ms,
)
from timerd.v1 import schedule_service_pb2 as pb
from timerd.v1 import work_service_pb2 as work_pb

_GAPS = {"auto": 0, "skip": 1, "next": 2, "shift": 3}
_REPEATS = {"auto": 0, "first": 1, "last": 2, "both": 3}
_JITTERS = {"each": 1, "fixed": 2}
# Parts and times that are shown of a spec.
_FEW = 3


class ScheduleState(_WireEnum):
    """A schedule's state says whether it makes tasks.

    Attributes:
        UNSPECIFIED: a state of a later server, which this release does not know.
        ACTIVE: it makes a task for each of its instants.
        PAUSED: it makes none until it is resumed; `note` says why.
        DONE: it has no further instant.
        BROKEN: it has failed ten times, and goes on trying; `error` says why.
    """

    UNSPECIFIED = 0
    ACTIVE = 1
    PAUSED = 2
    DONE = 3
    BROKEN = 4


class OccurrenceReason(_WireEnum):
    """A reason says why a schedule has made a task.

    Attributes:
        UNSPECIFIED: a reason of a later server, which this release does not know.
        SCHEDULE: its instant was to come.
        CATCH_UP: its instant was over when it was looked at, after an outage or a pause.
        TRIGGER: a call has asked for it.
        BACKFILL: a call has asked for the instants of a span of the past.
    """

    UNSPECIFIED = 0
    SCHEDULE = 1
    CATCH_UP = 2
    TRIGGER = 3
    BACKFILL = 4


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence says which instant of a schedule a delivery stands for.

    Args:
        schedule_id: the id of the schedule.
        id: the same over all deliveries of an instant, whatever became of the schedule: a receiver tells repeats by it.
        instant: the instant of the spec in UTC, without the jitter.
        previous_instant: that of the task before it in UTC, so that the two bound an interval of data; None where there
            was none.
        reason: why there is a task.
        revision: the revision of the schedule that made it.
        missed_before: how many instants between the two have no task.
    """

    schedule_id: str
    id: str
    instant: datetime
    previous_instant: datetime | None
    reason: OccurrenceReason
    revision: int
    missed_before: int

    @classmethod
    def of(cls, message: work_pb.DeliveredOccurrence) -> Occurrence:
        """The occurrence says what the message `message` says."""
        previous_ms = message.previous_instant_ms
        return cls(
            message.schedule_id,
            encode_id(message.occurrence_id),
            datetime_of_ms(message.instant_ms),
            datetime_of_ms(previous_ms) if previous_ms else None,
            OccurrenceReason(message.reason),
            message.revision,
            message.missed_before,
        )


@dataclass(frozen=True, slots=True)
class Upcoming:
    """An upcoming instant of a schedule, as `get` and `preview` show it.

    Args:
        instant: the instant in UTC.
        fire_time: when its task fires, in UTC: the instant and the jitter. The instant alone where the spec is not
            stored, since the jitter is drawn when it is.
        local_time: what clocks show then in the zone of the schedule; empty in `get`.
        named_time: the time that the spec names; another one than `local_time` where a change of the clock moved it.
        change: what the change of the clock did: MOVED, SHIFTED, SKIPPED, FIRST, LAST, or empty.
    """

    instant: datetime
    fire_time: datetime
    local_time: str = ""
    named_time: str = ""
    change: str = ""

    @classmethod
    def of(cls, message: pb.Occurrence) -> Upcoming:
        """The instant says what the message `message` says."""
        instant = datetime_of_ms(ms_of_timestamp(message.instant))
        fire_time = datetime_of_ms(ms_of_timestamp(message.fire_time)) if message.HasField("fire_time") else instant
        return cls(instant, fire_time, message.local_time, message.named_time, message.change)


@dataclass(frozen=True, slots=True)
class ScheduleOutcome:
    """An outcome says how a task of a schedule has ended.

    Args:
        instant: the instant of the task in UTC; of a trigger, when it was asked for.
        state: how it has ended; FINISHED where that is not kept any longer.
        is_trigger: whether a call has asked for the task.
    """

    instant: datetime
    state: TaskState
    is_trigger: bool

    @classmethod
    def of(cls, message: pb.ScheduleOutcome) -> ScheduleOutcome:
        """The outcome says what the message `message` says."""
        instant = datetime_of_ms(ms_of_timestamp(message.instant))
        return cls(instant, TaskState(message.state), message.is_trigger)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule makes a task for each of its instants; this is what `get` and `list` show of it.

    Args:
        id: the id that its creator has chosen.
        namespace: the namespace of the schedule and of its tasks.
        queue: the queue whose workers receive the tasks.
        state: whether it makes tasks.
        revision: grows with each change.
        spec: when, as the message ScheduleSpec.
        catch_up: what becomes of instants that are over when they are looked at: "latest", "all" or "none".
        max_count: how many tasks there are at most; 0 for any number.
        payload: what the handler receives; empty in a list.
        labels: the labels of the schedule, by which `list` chooses.
        note: why it is paused.
        pause_until: when the pause ends by itself, in UTC; None where it does not.
        error: why it is BROKEN.
        upcoming: the next instants, up to ten; empty in a list.
        created: for how many instants there are tasks.
        missed: how many instants were over when they were looked at, and have none.
        overlap: what becomes of an instant whose time comes while the task before is open, as for `create`.
        pause_on_dead: whether a dead letter pauses it.
        skipped: how many instants have no task, for the one before was open.
        waiting: how many instants wait for the end of the one before.
        tzdata: the release of the data of time zones by which its instants were computed last.
        open_task_id: the id of the task that was open when it was last looked at; None where there was none, in a
            list, and with `overlap` "allow".
        last: how the last ten tasks have ended, the latest first; empty with `overlap` "allow".
        catch_up_window: with `catch_up` "all", what is over for longer is missed; None where there is no limit.
    """

    id: str
    namespace: str
    queue: str
    state: ScheduleState
    revision: int
    spec: pb.ScheduleSpec
    catch_up: str
    max_count: int
    payload: bytes
    labels: dict[str, str]
    note: str
    pause_until: datetime | None
    error: str
    upcoming: tuple[Upcoming, ...]
    created: int
    missed: int
    overlap: str = "allow"
    pause_on_dead: bool = False
    skipped: int = 0
    waiting: int = 0
    tzdata: str = ""
    open_task_id: str | None = None
    last: tuple[ScheduleOutcome, ...] = ()
    catch_up_window: timedelta | None = None

    @property
    def excluded(self) -> tuple[str, ...]:
        """These exclusions of the spec, each in a few words, leave instants out."""
        return tuple(map(_shown_exclusion, self.spec.exclude))

    @property
    def gap(self) -> str:
        """This says what becomes of wall-clock times that a change of the clock leaves out, as for `create`."""
        return _GAP_NAMES.get(self.spec.gap, "")

    @property
    def repeat(self) -> str:
        """This says what becomes of wall-clock times that come twice, as for `create`."""
        return _REPEAT_NAMES.get(self.spec.repeat, "")

    @property
    def when(self) -> str:
        """This is the spec in a few words, as `cron 0 9 * * MON (Europe/Berlin)`."""
        parts = _few([_shown_part(part) for part in self.spec.parts])
        if self.spec.HasField("fixed_delay"):
            parts = f"{self.spec.fixed_delay.ToTimedelta()} after each end"
        return parts if self.spec.zone in ("", "UTC") else f"{parts} ({self.spec.zone})"

    @classmethod
    def of(cls, message: pb.Schedule) -> Schedule:
        """The schedule says what the message `message` says."""
        policies = message.policies
        return cls(
            id=message.schedule_id,
            namespace=message.namespace,
            queue=message.template.queue,
            state=ScheduleState(message.state),
            revision=message.revision,
            spec=message.spec,
            catch_up=_CATCH_UP_NAMES.get(policies.catch_up, ""),
            max_count=policies.max_count,
            payload=message.payload,
            labels=dict(message.labels),
            note=message.note,
            pause_until=_instant_of(message.pause_until) if message.HasField("pause_until") else None,
            error=message.error,
            upcoming=tuple(map(Upcoming.of, message.upcoming)),
            created=message.created,
            missed=message.missed,
            overlap=OVERLAP_NAMES.get(policies.overlap, ""),
            pause_on_dead=policies.pause_on_dead,
            skipped=message.skipped,
            waiting=message.waiting,
            tzdata=message.tzdata,
            open_task_id=message.open_task_id or None,
            last=tuple(map(ScheduleOutcome.of, message.last)),
            catch_up_window=policies.catch_up_window.ToTimedelta() if policies.HasField("catch_up_window") else None,
        )


@dataclass(frozen=True, slots=True)
class Pruned:
    """This is what a prune has deleted, or would delete.

    Args:
        ids: the ids of the schedules, sorted.
        dry_run: whether nothing was deleted, since `force` was not given.
    """

    ids: tuple[str, ...]
    dry_run: bool


class SpecKeywords(TypedDict, total=False):
    """These keywords say when a schedule comes: `cron`, `every`, `at` and `rrule`, of which several are a union, or
    `fixed_delay` by itself.

    - `cron`: an expression of five fields, or six with seconds first, or several of them.
    - `every`: a timedelta or seconds, a second or more.
    - `anchor`: the instant, with a zone, from which `every` counts; default 1970.
    - `at`: a time or several: texts in ISO form, which are wall-clock times of the zone where they have no offset, or
      datetimes.
    - `rrule`: a rule of RFC 5545.
    - `fixed_delay`: so long after the end of the task before, a timedelta or seconds, a second or more.
    - `zone`: an IANA name, as "Europe/Berlin"; default "UTC".
    - `start`: no instant before it, a datetime with a zone.
    - `end`: no instant at or after it, a datetime with a zone.
    - `jitter`: each task fires up to so much later, a timedelta or seconds.
    - `jitter_kind`: "each" (default), or "fixed": the same each time.
    - `gap`: of times that a zone leaves out: "auto" (default), "skip", "next" or "shift".
    - `repeat`: of times that come twice: "auto" (default), "first", "last" or "both".
    - `exclude_dates`: days in ISO form, as "2026-12-24" or "2026-12-24/2027-01-01".
    - `exclude_cron`: expressions whose instants are left out.
    """

    cron: str | Sequence[str]
    every: Span
    anchor: datetime
    at: str | datetime | Sequence[str | datetime]
    rrule: str
    fixed_delay: Span
    zone: str
    start: datetime
    end: datetime
    jitter: Span
    jitter_kind: str
    gap: str
    repeat: str
    exclude_dates: Sequence[str]
    exclude_cron: str | Sequence[str]


_SPEC_NAMES = SpecKeywords.__optional_keys__


def spec_of(call: str, given: Mapping[str, Any]) -> pb.ScheduleSpec:
    """Raises InvalidTask, and TypeError for a keyword that there is not."""
    check_keywords(call, given, _SPEC_NAMES)
    spec = pb.ScheduleSpec(zone=text(given.get("zone", ""), "zone"))
    spec.parts.extend(pb.SpecPart(cron=each) for each in _texts(given, "cron"))
    if "every" in given:
        every = spec.parts.add().every
        every.period.CopyFrom(duration_of_ms(span_ms(given["every"], "every", may_be_none=False)))
        if "anchor" in given:
            every.anchor.CopyFrom(timestamp_of_ms(instant_ms(given["anchor"], "anchor")))
    elif "anchor" in given:
        raise invalid("`anchor` is from where `every` counts: give `every` with it, or leave it out.", "anchor")
    if "at" in given:
        one_or_more = [given["at"]] if isinstance(given["at"], str | datetime) else listed(given["at"], "at")
        times = [each.isoformat() if isinstance(each, datetime) else text(each, "at") for each in one_or_more]
        spec.parts.add().at.times.extend(times)
    if "rrule" in given:
        spec.parts.add(rrule=text(given["rrule"], "rrule"))
    if "fixed_delay" in given:
        delay_ms = span_ms(given["fixed_delay"], "fixed_delay", may_be_none=False)
        spec.fixed_delay.CopyFrom(duration_of_ms(delay_ms))
    elif not spec.parts:
        raise invalid("Say when: give `cron`, `every`, `at`, `rrule` or `fixed_delay`.", "cron")
    _add_rest(spec, given)
    return spec


def _add_rest(spec: pb.ScheduleSpec, given: Mapping[str, Any]) -> None:
    for name, wire in (("start", "start_time"), ("end", "end_time")):
        if name in given:
            getattr(spec, wire).CopyFrom(timestamp_of_ms(instant_ms(given[name], name)))
    if "jitter" in given:
        spec.jitter.CopyFrom(duration_of_ms(span_ms(given["jitter"], "jitter")))
    for name, known in (("jitter_kind", _JITTERS), ("gap", _GAPS), ("repeat", _REPEATS)):
        if name in given:
            setattr(spec, name, one_of(given[name], name, known))
    spec.exclude.extend(pb.SpecExclusion(part=pb.SpecPart(cron=each)) for each in _texts(given, "exclude_cron"))
    if days := _texts(given, "exclude_dates"):
        spec.exclude.add(dates=pb.DatesPart(days=days))


def _texts(given: Mapping[str, Any], name: str) -> list[str]:
    value = given.get(name, ())
    return [text(each, name) for each in ([value] if isinstance(value, str) else listed(value, name))]


def one_of(value: object, field: str, known: Mapping[str, int]) -> int:
    """The number of a word."""
    found = known.get(str(value).lower())
    if found is None:
        raise invalid(f"`{field}` is {value!r:.200}; allowed are {', '.join(known)}.", field)
    return found


CATCH_UP = {"latest": 1, "all": 2, "none": 3}
OVERLAP = {"allow": 1, "skip": 2, "buffer_one": 3, "buffer_all": 4, "cancel_other": 5, "replace": 6}
OVERLAP_NAMES = {number: name for name, number in OVERLAP.items()}
_CATCH_UP_NAMES = {number: name for name, number in CATCH_UP.items()}
_GAP_NAMES = {number: name for name, number in _GAPS.items()}
_REPEAT_NAMES = {number: name for name, number in _REPEATS.items()}


def _instant_of(message: Timestamp) -> datetime:
    return datetime_of_ms(ms_of_timestamp(message))


def _few(words: Sequence[str]) -> str:
    """The first ones, where there are many."""
    more = [f"and {len(words) - _FEW:,} more"] if len(words) > _FEW + 1 else []
    return ", ".join([*words[:_FEW], *more] if more else words)


def _shown_part(part: pb.SpecPart) -> str:
    match part.WhichOneof("part"):
        case "cron":
            return f"cron {part.cron}"
        case "every":
            return f"every {part.every.period.ToTimedelta()}"
        case "at":
            return "at " + _few(part.at.times)
        case "rrule":
            return f"rrule {part.rrule}"
        case _:
            return "calendar"


def _shown_exclusion(excluded: pb.SpecExclusion) -> str:
    match excluded.WhichOneof("exclusion"):
        case "part":
            return _shown_part(excluded.part)
        case "dates":
            return _few(excluded.dates.days)
        case _:
            return f"from {excluded.between.start} until {excluded.between.end}"
