import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from timerd.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JitterKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JITTER_KIND_UNSPECIFIED: _ClassVar[JitterKind]
    JITTER_KIND_EACH: _ClassVar[JitterKind]
    JITTER_KIND_FIXED: _ClassVar[JitterKind]

class GapPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GAP_POLICY_UNSPECIFIED: _ClassVar[GapPolicy]
    GAP_POLICY_SKIP: _ClassVar[GapPolicy]
    GAP_POLICY_NEXT: _ClassVar[GapPolicy]
    GAP_POLICY_SHIFT: _ClassVar[GapPolicy]

class RepeatPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPEAT_POLICY_UNSPECIFIED: _ClassVar[RepeatPolicy]
    REPEAT_POLICY_FIRST: _ClassVar[RepeatPolicy]
    REPEAT_POLICY_LAST: _ClassVar[RepeatPolicy]
    REPEAT_POLICY_BOTH: _ClassVar[RepeatPolicy]

class CatchUpPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CATCH_UP_POLICY_UNSPECIFIED: _ClassVar[CatchUpPolicy]
    CATCH_UP_POLICY_LATEST: _ClassVar[CatchUpPolicy]
    CATCH_UP_POLICY_ALL: _ClassVar[CatchUpPolicy]
    CATCH_UP_POLICY_NONE: _ClassVar[CatchUpPolicy]

class OverlapPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERLAP_POLICY_UNSPECIFIED: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_ALLOW: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_SKIP: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_BUFFER_ONE: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_BUFFER_ALL: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_CANCEL_OTHER: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_REPLACE: _ClassVar[OverlapPolicy]

class ScheduleState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCHEDULE_STATE_UNSPECIFIED: _ClassVar[ScheduleState]
    SCHEDULE_STATE_ACTIVE: _ClassVar[ScheduleState]
    SCHEDULE_STATE_PAUSED: _ClassVar[ScheduleState]
    SCHEDULE_STATE_DONE: _ClassVar[ScheduleState]
    SCHEDULE_STATE_BROKEN: _ClassVar[ScheduleState]

class ScheduleConflict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCHEDULE_CONFLICT_UNSPECIFIED: _ClassVar[ScheduleConflict]
    SCHEDULE_CONFLICT_REJECT: _ClassVar[ScheduleConflict]
    SCHEDULE_CONFLICT_UPDATE: _ClassVar[ScheduleConflict]

class ResumeMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESUME_MODE_UNSPECIFIED: _ClassVar[ResumeMode]
    RESUME_MODE_SKIP_MISSED: _ClassVar[ResumeMode]
    RESUME_MODE_CATCH_UP: _ClassVar[ResumeMode]

class BackfillState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BACKFILL_STATE_UNSPECIFIED: _ClassVar[BackfillState]
    BACKFILL_STATE_RUNNING: _ClassVar[BackfillState]
    BACKFILL_STATE_DONE: _ClassVar[BackfillState]
    BACKFILL_STATE_CANCELLED: _ClassVar[BackfillState]
JITTER_KIND_UNSPECIFIED: JitterKind
JITTER_KIND_EACH: JitterKind
JITTER_KIND_FIXED: JitterKind
GAP_POLICY_UNSPECIFIED: GapPolicy
GAP_POLICY_SKIP: GapPolicy
GAP_POLICY_NEXT: GapPolicy
GAP_POLICY_SHIFT: GapPolicy
REPEAT_POLICY_UNSPECIFIED: RepeatPolicy
REPEAT_POLICY_FIRST: RepeatPolicy
REPEAT_POLICY_LAST: RepeatPolicy
REPEAT_POLICY_BOTH: RepeatPolicy
CATCH_UP_POLICY_UNSPECIFIED: CatchUpPolicy
CATCH_UP_POLICY_LATEST: CatchUpPolicy
CATCH_UP_POLICY_ALL: CatchUpPolicy
CATCH_UP_POLICY_NONE: CatchUpPolicy
OVERLAP_POLICY_UNSPECIFIED: OverlapPolicy
OVERLAP_POLICY_ALLOW: OverlapPolicy
OVERLAP_POLICY_SKIP: OverlapPolicy
OVERLAP_POLICY_BUFFER_ONE: OverlapPolicy
OVERLAP_POLICY_BUFFER_ALL: OverlapPolicy
OVERLAP_POLICY_CANCEL_OTHER: OverlapPolicy
OVERLAP_POLICY_REPLACE: OverlapPolicy
SCHEDULE_STATE_UNSPECIFIED: ScheduleState
SCHEDULE_STATE_ACTIVE: ScheduleState
SCHEDULE_STATE_PAUSED: ScheduleState
SCHEDULE_STATE_DONE: ScheduleState
SCHEDULE_STATE_BROKEN: ScheduleState
SCHEDULE_CONFLICT_UNSPECIFIED: ScheduleConflict
SCHEDULE_CONFLICT_REJECT: ScheduleConflict
SCHEDULE_CONFLICT_UPDATE: ScheduleConflict
RESUME_MODE_UNSPECIFIED: ResumeMode
RESUME_MODE_SKIP_MISSED: ResumeMode
RESUME_MODE_CATCH_UP: ResumeMode
BACKFILL_STATE_UNSPECIFIED: BackfillState
BACKFILL_STATE_RUNNING: BackfillState
BACKFILL_STATE_DONE: BackfillState
BACKFILL_STATE_CANCELLED: BackfillState

class ScheduleSpec(_message.Message):
    __slots__ = ("parts", "exclude", "zone", "start_time", "end_time", "jitter", "jitter_kind", "gap", "repeat", "fixed_delay")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    JITTER_KIND_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    FIXED_DELAY_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[SpecPart]
    exclude: _containers.RepeatedCompositeFieldContainer[SpecExclusion]
    zone: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    jitter: _duration_pb2.Duration
    jitter_kind: JitterKind
    gap: GapPolicy
    repeat: RepeatPolicy
    fixed_delay: _duration_pb2.Duration
    def __init__(self, parts: _Optional[_Iterable[_Union[SpecPart, _Mapping]]] = ..., exclude: _Optional[_Iterable[_Union[SpecExclusion, _Mapping]]] = ..., zone: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., jitter: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., jitter_kind: _Optional[_Union[JitterKind, str]] = ..., gap: _Optional[_Union[GapPolicy, str]] = ..., repeat: _Optional[_Union[RepeatPolicy, str]] = ..., fixed_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SpecPart(_message.Message):
    __slots__ = ("cron", "every", "calendar", "rrule", "at")
    CRON_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    RRULE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    cron: str
    every: EveryPart
    calendar: CalendarPart
    rrule: str
    at: AtPart
    def __init__(self, cron: _Optional[str] = ..., every: _Optional[_Union[EveryPart, _Mapping]] = ..., calendar: _Optional[_Union[CalendarPart, _Mapping]] = ..., rrule: _Optional[str] = ..., at: _Optional[_Union[AtPart, _Mapping]] = ...) -> None: ...

class SpecExclusion(_message.Message):
    __slots__ = ("part", "dates", "between")
    PART_FIELD_NUMBER: _ClassVar[int]
    DATES_FIELD_NUMBER: _ClassVar[int]
    BETWEEN_FIELD_NUMBER: _ClassVar[int]
    part: SpecPart
    dates: DatesPart
    between: BetweenPart
    def __init__(self, part: _Optional[_Union[SpecPart, _Mapping]] = ..., dates: _Optional[_Union[DatesPart, _Mapping]] = ..., between: _Optional[_Union[BetweenPart, _Mapping]] = ...) -> None: ...

class EveryPart(_message.Message):
    __slots__ = ("period", "anchor")
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_FIELD_NUMBER: _ClassVar[int]
    period: _duration_pb2.Duration
    anchor: _timestamp_pb2.Timestamp
    def __init__(self, period: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., anchor: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CalendarPart(_message.Message):
    __slots__ = ("seconds", "minutes", "hours", "days", "months", "years", "weekdays")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    MINUTES_FIELD_NUMBER: _ClassVar[int]
    HOURS_FIELD_NUMBER: _ClassVar[int]
    DAYS_FIELD_NUMBER: _ClassVar[int]
    MONTHS_FIELD_NUMBER: _ClassVar[int]
    YEARS_FIELD_NUMBER: _ClassVar[int]
    WEEKDAYS_FIELD_NUMBER: _ClassVar[int]
    seconds: _containers.RepeatedCompositeFieldContainer[SpecSpan]
    minutes: _containers.RepeatedCompositeFieldContainer[SpecSpan]
    hours: _containers.RepeatedCompositeFieldContainer[SpecSpan]
    days: _containers.RepeatedCompositeFieldContainer[SpecSpan]
    months: _containers.RepeatedCompositeFieldContainer[SpecSpan]
    years: _containers.RepeatedCompositeFieldContainer[SpecSpan]
    weekdays: _containers.RepeatedCompositeFieldContainer[SpecSpan]
    def __init__(self, seconds: _Optional[_Iterable[_Union[SpecSpan, _Mapping]]] = ..., minutes: _Optional[_Iterable[_Union[SpecSpan, _Mapping]]] = ..., hours: _Optional[_Iterable[_Union[SpecSpan, _Mapping]]] = ..., days: _Optional[_Iterable[_Union[SpecSpan, _Mapping]]] = ..., months: _Optional[_Iterable[_Union[SpecSpan, _Mapping]]] = ..., years: _Optional[_Iterable[_Union[SpecSpan, _Mapping]]] = ..., weekdays: _Optional[_Iterable[_Union[SpecSpan, _Mapping]]] = ...) -> None: ...

class SpecSpan(_message.Message):
    __slots__ = ("first", "last", "step")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    step: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class AtPart(_message.Message):
    __slots__ = ("times",)
    TIMES_FIELD_NUMBER: _ClassVar[int]
    times: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, times: _Optional[_Iterable[str]] = ...) -> None: ...

class DatesPart(_message.Message):
    __slots__ = ("days",)
    DAYS_FIELD_NUMBER: _ClassVar[int]
    days: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, days: _Optional[_Iterable[str]] = ...) -> None: ...

class BetweenPart(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: str
    end: str
    def __init__(self, start: _Optional[str] = ..., end: _Optional[str] = ...) -> None: ...

class SchedulePolicies(_message.Message):
    __slots__ = ("catch_up", "catch_up_window", "catch_up_max", "max_count", "overlap", "pause_on_dead")
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_WINDOW_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_MAX_FIELD_NUMBER: _ClassVar[int]
    MAX_COUNT_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    PAUSE_ON_DEAD_FIELD_NUMBER: _ClassVar[int]
    catch_up: CatchUpPolicy
    catch_up_window: _duration_pb2.Duration
    catch_up_max: int
    max_count: int
    overlap: OverlapPolicy
    pause_on_dead: bool
    def __init__(self, catch_up: _Optional[_Union[CatchUpPolicy, str]] = ..., catch_up_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., catch_up_max: _Optional[int] = ..., max_count: _Optional[int] = ..., overlap: _Optional[_Union[OverlapPolicy, str]] = ..., pause_on_dead: bool = ...) -> None: ...

class Occurrence(_message.Message):
    __slots__ = ("instant", "fire_time", "change", "local_time", "named_time")
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_TIME_FIELD_NUMBER: _ClassVar[int]
    NAMED_TIME_FIELD_NUMBER: _ClassVar[int]
    instant: _timestamp_pb2.Timestamp
    fire_time: _timestamp_pb2.Timestamp
    change: str
    local_time: str
    named_time: str
    def __init__(self, instant: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., change: _Optional[str] = ..., local_time: _Optional[str] = ..., named_time: _Optional[str] = ...) -> None: ...

class ScheduleOutcome(_message.Message):
    __slots__ = ("instant", "state", "is_trigger")
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    IS_TRIGGER_FIELD_NUMBER: _ClassVar[int]
    instant: _timestamp_pb2.Timestamp
    state: _task_pb2.TaskState
    is_trigger: bool
    def __init__(self, instant: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[_task_pb2.TaskState, str]] = ..., is_trigger: bool = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("schedule_id", "namespace", "spec", "policies", "template", "payload", "state", "revision", "labels", "note", "pause_until", "error", "upcoming", "created", "missed", "skipped", "waiting", "open_task_id", "last", "tzdata")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    PAUSE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    UPCOMING_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    OPEN_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    TZDATA_FIELD_NUMBER: _ClassVar[int]
    schedule_id: str
    namespace: str
    spec: ScheduleSpec
    policies: SchedulePolicies
    template: _task_pb2.TaskTemplate
    payload: bytes
    state: ScheduleState
    revision: int
    labels: _containers.ScalarMap[str, str]
    note: str
    pause_until: _timestamp_pb2.Timestamp
    error: str
    upcoming: _containers.RepeatedCompositeFieldContainer[Occurrence]
    created: int
    missed: int
    skipped: int
    waiting: int
    open_task_id: str
    last: _containers.RepeatedCompositeFieldContainer[ScheduleOutcome]
    tzdata: str
    def __init__(self, schedule_id: _Optional[str] = ..., namespace: _Optional[str] = ..., spec: _Optional[_Union[ScheduleSpec, _Mapping]] = ..., policies: _Optional[_Union[SchedulePolicies, _Mapping]] = ..., template: _Optional[_Union[_task_pb2.TaskTemplate, _Mapping]] = ..., payload: _Optional[bytes] = ..., state: _Optional[_Union[ScheduleState, str]] = ..., revision: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., note: _Optional[str] = ..., pause_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[str] = ..., upcoming: _Optional[_Iterable[_Union[Occurrence, _Mapping]]] = ..., created: _Optional[int] = ..., missed: _Optional[int] = ..., skipped: _Optional[int] = ..., waiting: _Optional[int] = ..., open_task_id: _Optional[str] = ..., last: _Optional[_Iterable[_Union[ScheduleOutcome, _Mapping]]] = ..., tzdata: _Optional[str] = ...) -> None: ...

class CreateScheduleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "schedule_id", "spec", "policies", "template", "payload", "labels", "on_conflict", "request_time")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    schedule_id: str
    spec: ScheduleSpec
    policies: SchedulePolicies
    template: _task_pb2.TaskTemplate
    payload: bytes
    labels: _containers.ScalarMap[str, str]
    on_conflict: ScheduleConflict
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., schedule_id: _Optional[str] = ..., spec: _Optional[_Union[ScheduleSpec, _Mapping]] = ..., policies: _Optional[_Union[SchedulePolicies, _Mapping]] = ..., template: _Optional[_Union[_task_pb2.TaskTemplate, _Mapping]] = ..., payload: _Optional[bytes] = ..., labels: _Optional[_Mapping[str, str]] = ..., on_conflict: _Optional[_Union[ScheduleConflict, str]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateScheduleResponse(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class CreateScheduleBatchRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "schedules", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    schedules: _containers.RepeatedCompositeFieldContainer[CreateScheduleRequest]
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., schedules: _Optional[_Iterable[_Union[CreateScheduleRequest, _Mapping]]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateScheduleBatchResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[CreateScheduleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[CreateScheduleResult, _Mapping]]] = ...) -> None: ...

class CreateScheduleResult(_message.Message):
    __slots__ = ("schedule_id", "revision", "problem")
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    schedule_id: str
    revision: int
    problem: _task_pb2.Problem
    def __init__(self, schedule_id: _Optional[str] = ..., revision: _Optional[int] = ..., problem: _Optional[_Union[_task_pb2.Problem, _Mapping]] = ...) -> None: ...

class GetScheduleRequest(_message.Message):
    __slots__ = ("namespace", "schedule_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    schedule_id: str
    def __init__(self, namespace: _Optional[str] = ..., schedule_id: _Optional[str] = ...) -> None: ...

class GetScheduleResponse(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ("namespace", "page_size", "page_token", "labels", "states", "zone", "prefix")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    page_size: int
    page_token: str
    labels: _containers.ScalarMap[str, str]
    states: _containers.RepeatedScalarFieldContainer[ScheduleState]
    zone: str
    prefix: str
    def __init__(self, namespace: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., states: _Optional[_Iterable[_Union[ScheduleState, str]]] = ..., zone: _Optional[str] = ..., prefix: _Optional[str] = ...) -> None: ...

class ListSchedulesResponse(_message.Message):
    __slots__ = ("schedules", "next_page_token")
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    next_page_token: str
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PreviewScheduleRequest(_message.Message):
    __slots__ = ("namespace", "schedule_id", "spec", "count")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    schedule_id: str
    spec: ScheduleSpec
    count: int
    def __init__(self, namespace: _Optional[str] = ..., schedule_id: _Optional[str] = ..., spec: _Optional[_Union[ScheduleSpec, _Mapping]] = ..., count: _Optional[int] = ..., **kwargs) -> None: ...

class PreviewScheduleResponse(_message.Message):
    __slots__ = ("occurrences",)
    OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    occurrences: _containers.RepeatedCompositeFieldContainer[Occurrence]
    def __init__(self, occurrences: _Optional[_Iterable[_Union[Occurrence, _Mapping]]] = ...) -> None: ...

class ScheduleChange(_message.Message):
    __slots__ = ("schedule", "effective_time", "taken")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_TIME_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    effective_time: _timestamp_pb2.Timestamp
    taken: _containers.RepeatedCompositeFieldContainer[_timestamp_pb2.Timestamp]
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ..., effective_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., taken: _Optional[_Iterable[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]]] = ...) -> None: ...

class UpdateScheduleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "schedule_id", "revision", "update_mask", "spec", "policies", "template", "payload", "labels", "request_time")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    schedule_id: str
    revision: int
    update_mask: _field_mask_pb2.FieldMask
    spec: ScheduleSpec
    policies: SchedulePolicies
    template: _task_pb2.TaskTemplate
    payload: bytes
    labels: _containers.ScalarMap[str, str]
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., schedule_id: _Optional[str] = ..., revision: _Optional[int] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., spec: _Optional[_Union[ScheduleSpec, _Mapping]] = ..., policies: _Optional[_Union[SchedulePolicies, _Mapping]] = ..., template: _Optional[_Union[_task_pb2.TaskTemplate, _Mapping]] = ..., payload: _Optional[bytes] = ..., labels: _Optional[_Mapping[str, str]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class UpdateScheduleResponse(_message.Message):
    __slots__ = ("change",)
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    change: ScheduleChange
    def __init__(self, change: _Optional[_Union[ScheduleChange, _Mapping]] = ...) -> None: ...

class PauseScheduleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "schedule_id", "revision", "note", "until", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    schedule_id: str
    revision: int
    note: str
    until: _timestamp_pb2.Timestamp
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., schedule_id: _Optional[str] = ..., revision: _Optional[int] = ..., note: _Optional[str] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PauseScheduleResponse(_message.Message):
    __slots__ = ("change",)
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    change: ScheduleChange
    def __init__(self, change: _Optional[_Union[ScheduleChange, _Mapping]] = ...) -> None: ...

class ResumeScheduleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "schedule_id", "revision", "mode", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    schedule_id: str
    revision: int
    mode: ResumeMode
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., schedule_id: _Optional[str] = ..., revision: _Optional[int] = ..., mode: _Optional[_Union[ResumeMode, str]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ResumeScheduleResponse(_message.Message):
    __slots__ = ("change",)
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    change: ScheduleChange
    def __init__(self, change: _Optional[_Union[ScheduleChange, _Mapping]] = ...) -> None: ...

class DeleteScheduleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "schedule_id", "revision", "request_time", "cancel_open")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    CANCEL_OPEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    schedule_id: str
    revision: int
    request_time: _timestamp_pb2.Timestamp
    cancel_open: bool
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., schedule_id: _Optional[str] = ..., revision: _Optional[int] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., cancel_open: bool = ...) -> None: ...

class DeleteScheduleResponse(_message.Message):
    __slots__ = ("effective_time", "taken")
    EFFECTIVE_TIME_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    effective_time: _timestamp_pb2.Timestamp
    taken: _containers.RepeatedCompositeFieldContainer[_timestamp_pb2.Timestamp]
    def __init__(self, effective_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., taken: _Optional[_Iterable[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]]] = ...) -> None: ...

class PruneSchedulesRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "labels", "keep", "force", "page_token", "request_time")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    labels: _containers.ScalarMap[str, str]
    keep: _containers.RepeatedScalarFieldContainer[str]
    force: bool
    page_token: str
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., keep: _Optional[_Iterable[str]] = ..., force: bool = ..., page_token: _Optional[str] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PruneSchedulesResponse(_message.Message):
    __slots__ = ("schedule_ids", "dry_run", "next_page_token")
    SCHEDULE_IDS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    schedule_ids: _containers.RepeatedScalarFieldContainer[str]
    dry_run: bool
    next_page_token: str
    def __init__(self, schedule_ids: _Optional[_Iterable[str]] = ..., dry_run: bool = ..., next_page_token: _Optional[str] = ...) -> None: ...

class TriggerScheduleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "schedule_id", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    schedule_id: str
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., schedule_id: _Optional[str] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class TriggerScheduleResponse(_message.Message):
    __slots__ = ("task_id", "fire_time")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fire_time: _timestamp_pb2.Timestamp
    def __init__(self, task_id: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Backfill(_message.Message):
    __slots__ = ("namespace", "schedule_id", "backfill_id", "start_time", "end_time", "tasks_per_second", "overlap", "state", "created", "total", "total_is_exact", "create_time", "error")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    TASKS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    TOTAL_IS_EXACT_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    schedule_id: str
    backfill_id: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    tasks_per_second: int
    overlap: OverlapPolicy
    state: BackfillState
    created: int
    total: int
    total_is_exact: bool
    create_time: _timestamp_pb2.Timestamp
    error: str
    def __init__(self, namespace: _Optional[str] = ..., schedule_id: _Optional[str] = ..., backfill_id: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tasks_per_second: _Optional[int] = ..., overlap: _Optional[_Union[OverlapPolicy, str]] = ..., state: _Optional[_Union[BackfillState, str]] = ..., created: _Optional[int] = ..., total: _Optional[int] = ..., total_is_exact: bool = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class CreateBackfillRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "schedule_id", "backfill_id", "start_time", "end_time", "tasks_per_second", "overlap", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    TASKS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    schedule_id: str
    backfill_id: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    tasks_per_second: int
    overlap: OverlapPolicy
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., schedule_id: _Optional[str] = ..., backfill_id: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tasks_per_second: _Optional[int] = ..., overlap: _Optional[_Union[OverlapPolicy, str]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateBackfillResponse(_message.Message):
    __slots__ = ("backfill",)
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    backfill: Backfill
    def __init__(self, backfill: _Optional[_Union[Backfill, _Mapping]] = ...) -> None: ...

class GetBackfillRequest(_message.Message):
    __slots__ = ("namespace", "schedule_id", "backfill_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    schedule_id: str
    backfill_id: str
    def __init__(self, namespace: _Optional[str] = ..., schedule_id: _Optional[str] = ..., backfill_id: _Optional[str] = ...) -> None: ...

class GetBackfillResponse(_message.Message):
    __slots__ = ("backfill",)
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    backfill: Backfill
    def __init__(self, backfill: _Optional[_Union[Backfill, _Mapping]] = ...) -> None: ...

class ListBackfillsRequest(_message.Message):
    __slots__ = ("namespace", "schedule_id", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    schedule_id: str
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., schedule_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListBackfillsResponse(_message.Message):
    __slots__ = ("backfills", "next_page_token")
    BACKFILLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    backfills: _containers.RepeatedCompositeFieldContainer[Backfill]
    next_page_token: str
    def __init__(self, backfills: _Optional[_Iterable[_Union[Backfill, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CancelBackfillRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "schedule_id", "backfill_id", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    schedule_id: str
    backfill_id: str
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., schedule_id: _Optional[str] = ..., backfill_id: _Optional[str] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CancelBackfillResponse(_message.Message):
    __slots__ = ("backfill",)
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    backfill: Backfill
    def __init__(self, backfill: _Optional[_Union[Backfill, _Mapping]] = ...) -> None: ...
