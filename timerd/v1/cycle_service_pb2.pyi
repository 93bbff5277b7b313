import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from timerd.v1 import schedule_service_pb2 as _schedule_service_pb2
from timerd.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Cycle(_message.Message):
    __slots__ = ("cycle_id", "namespace", "period", "origin", "slots", "lead", "template", "slot_queue", "state", "revision", "labels", "note", "pause_until", "error", "slots_created", "slots_missed", "next_slot_time", "costs", "places")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    LEAD_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    SLOT_QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    PAUSE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SLOTS_CREATED_FIELD_NUMBER: _ClassVar[int]
    SLOTS_MISSED_FIELD_NUMBER: _ClassVar[int]
    NEXT_SLOT_TIME_FIELD_NUMBER: _ClassVar[int]
    COSTS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    cycle_id: str
    namespace: str
    period: _duration_pb2.Duration
    origin: _timestamp_pb2.Timestamp
    slots: int
    lead: _duration_pb2.Duration
    template: _task_pb2.TaskTemplate
    slot_queue: str
    state: _schedule_service_pb2.ScheduleState
    revision: int
    labels: _containers.ScalarMap[str, str]
    note: str
    pause_until: _timestamp_pb2.Timestamp
    error: str
    slots_created: int
    slots_missed: int
    next_slot_time: _timestamp_pb2.Timestamp
    costs: _containers.RepeatedCompositeFieldContainer[SlotCost]
    places: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cycle_id: _Optional[str] = ..., namespace: _Optional[str] = ..., period: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., origin: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., slots: _Optional[int] = ..., lead: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., template: _Optional[_Union[_task_pb2.TaskTemplate, _Mapping]] = ..., slot_queue: _Optional[str] = ..., state: _Optional[_Union[_schedule_service_pb2.ScheduleState, str]] = ..., revision: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., note: _Optional[str] = ..., pause_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[str] = ..., slots_created: _Optional[int] = ..., slots_missed: _Optional[int] = ..., next_slot_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., costs: _Optional[_Iterable[_Union[SlotCost, _Mapping]]] = ..., places: _Optional[_Iterable[str]] = ...) -> None: ...

class SlotCost(_message.Message):
    __slots__ = ("slot", "cycle", "members", "weight")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    slot: int
    cycle: int
    members: int
    weight: float
    def __init__(self, slot: _Optional[int] = ..., cycle: _Optional[int] = ..., members: _Optional[int] = ..., weight: _Optional[float] = ...) -> None: ...

class SlotTask(_message.Message):
    __slots__ = ("cycle_id", "cycle", "slot", "of", "lo", "hi", "places")
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    LO_FIELD_NUMBER: _ClassVar[int]
    HI_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    cycle_id: str
    cycle: int
    slot: int
    of: int
    lo: int
    hi: int
    places: _containers.RepeatedCompositeFieldContainer[SlotPlace]
    def __init__(self, cycle_id: _Optional[str] = ..., cycle: _Optional[int] = ..., slot: _Optional[int] = ..., of: _Optional[int] = ..., lo: _Optional[int] = ..., hi: _Optional[int] = ..., places: _Optional[_Iterable[_Union[SlotPlace, _Mapping]]] = ...) -> None: ...

class SlotPlace(_message.Message):
    __slots__ = ("name", "lo", "hi")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LO_FIELD_NUMBER: _ClassVar[int]
    HI_FIELD_NUMBER: _ClassVar[int]
    name: str
    lo: int
    hi: int
    def __init__(self, name: _Optional[str] = ..., lo: _Optional[int] = ..., hi: _Optional[int] = ...) -> None: ...

class CreateCycleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "cycle_id", "period", "origin", "slots", "template", "slot_queue", "labels", "request_time", "places")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    SLOT_QUEUE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    cycle_id: str
    period: _duration_pb2.Duration
    origin: _timestamp_pb2.Timestamp
    slots: int
    template: _task_pb2.TaskTemplate
    slot_queue: str
    labels: _containers.ScalarMap[str, str]
    request_time: _timestamp_pb2.Timestamp
    places: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., cycle_id: _Optional[str] = ..., period: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., origin: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., slots: _Optional[int] = ..., template: _Optional[_Union[_task_pb2.TaskTemplate, _Mapping]] = ..., slot_queue: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., places: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateCycleResponse(_message.Message):
    __slots__ = ("cycle",)
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    cycle: Cycle
    def __init__(self, cycle: _Optional[_Union[Cycle, _Mapping]] = ...) -> None: ...

class GetCycleRequest(_message.Message):
    __slots__ = ("namespace", "cycle_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    cycle_id: str
    def __init__(self, namespace: _Optional[str] = ..., cycle_id: _Optional[str] = ...) -> None: ...

class GetCycleResponse(_message.Message):
    __slots__ = ("cycle",)
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    cycle: Cycle
    def __init__(self, cycle: _Optional[_Union[Cycle, _Mapping]] = ...) -> None: ...

class ListCyclesRequest(_message.Message):
    __slots__ = ("namespace", "page_size", "page_token", "labels", "prefix")
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
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    page_size: int
    page_token: str
    labels: _containers.ScalarMap[str, str]
    prefix: str
    def __init__(self, namespace: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., prefix: _Optional[str] = ...) -> None: ...

class ListCyclesResponse(_message.Message):
    __slots__ = ("cycles", "next_page_token")
    CYCLES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    cycles: _containers.RepeatedCompositeFieldContainer[Cycle]
    next_page_token: str
    def __init__(self, cycles: _Optional[_Iterable[_Union[Cycle, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PauseCycleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "cycle_id", "revision", "note", "until", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    cycle_id: str
    revision: int
    note: str
    until: _timestamp_pb2.Timestamp
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., cycle_id: _Optional[str] = ..., revision: _Optional[int] = ..., note: _Optional[str] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PauseCycleResponse(_message.Message):
    __slots__ = ("cycle",)
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    cycle: Cycle
    def __init__(self, cycle: _Optional[_Union[Cycle, _Mapping]] = ...) -> None: ...

class ResumeCycleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "cycle_id", "revision", "mode", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    cycle_id: str
    revision: int
    mode: _schedule_service_pb2.ResumeMode
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., cycle_id: _Optional[str] = ..., revision: _Optional[int] = ..., mode: _Optional[_Union[_schedule_service_pb2.ResumeMode, str]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ResumeCycleResponse(_message.Message):
    __slots__ = ("cycle",)
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    cycle: Cycle
    def __init__(self, cycle: _Optional[_Union[Cycle, _Mapping]] = ...) -> None: ...

class DeleteCycleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "cycle_id", "revision", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    cycle_id: str
    revision: int
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., cycle_id: _Optional[str] = ..., revision: _Optional[int] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DeleteCycleResponse(_message.Message):
    __slots__ = ("effective_time",)
    EFFECTIVE_TIME_FIELD_NUMBER: _ClassVar[int]
    effective_time: _timestamp_pb2.Timestamp
    def __init__(self, effective_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FillSlotRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "cycle_id", "cycle", "slot", "keys", "payloads", "request_time", "place")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    cycle_id: str
    cycle: int
    slot: int
    keys: _containers.RepeatedScalarFieldContainer[str]
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    request_time: _timestamp_pb2.Timestamp
    place: str
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., cycle_id: _Optional[str] = ..., cycle: _Optional[int] = ..., slot: _Optional[int] = ..., keys: _Optional[_Iterable[str]] = ..., payloads: _Optional[_Iterable[bytes]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., place: _Optional[str] = ...) -> None: ...

class FillSlotResponse(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: int
    def __init__(self, members: _Optional[int] = ...) -> None: ...

class PutMembersRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "cycle_id", "keys", "payloads", "request_time", "weights", "place")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    cycle_id: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    request_time: _timestamp_pb2.Timestamp
    weights: _containers.RepeatedScalarFieldContainer[float]
    place: str
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., cycle_id: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., payloads: _Optional[_Iterable[bytes]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., weights: _Optional[_Iterable[float]] = ..., place: _Optional[str] = ...) -> None: ...

class PutMembersResponse(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: int
    def __init__(self, members: _Optional[int] = ...) -> None: ...

class RemoveMembersRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "cycle_id", "keys", "request_time", "place")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    cycle_id: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    request_time: _timestamp_pb2.Timestamp
    place: str
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., cycle_id: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., place: _Optional[str] = ...) -> None: ...

class RemoveMembersResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RebalanceCycleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "cycle_id", "revision", "max_moved", "force", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MAX_MOVED_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    cycle_id: str
    revision: int
    max_moved: float
    force: bool
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., cycle_id: _Optional[str] = ..., revision: _Optional[int] = ..., max_moved: _Optional[float] = ..., force: bool = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RebalanceCycleResponse(_message.Message):
    __slots__ = ("moved", "members", "mean", "largest_before", "largest", "largest_key", "effective_time")
    MOVED_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    LARGEST_BEFORE_FIELD_NUMBER: _ClassVar[int]
    LARGEST_FIELD_NUMBER: _ClassVar[int]
    LARGEST_KEY_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_TIME_FIELD_NUMBER: _ClassVar[int]
    moved: int
    members: int
    mean: float
    largest_before: float
    largest: float
    largest_key: str
    effective_time: _timestamp_pb2.Timestamp
    def __init__(self, moved: _Optional[int] = ..., members: _Optional[int] = ..., mean: _Optional[float] = ..., largest_before: _Optional[float] = ..., largest: _Optional[float] = ..., largest_key: _Optional[str] = ..., effective_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListMembersRequest(_message.Message):
    __slots__ = ("namespace", "cycle_id", "page_size", "page_token", "place")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CYCLE_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    cycle_id: str
    page_size: int
    page_token: str
    place: str
    def __init__(self, namespace: _Optional[str] = ..., cycle_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., place: _Optional[str] = ...) -> None: ...

class ListMembersResponse(_message.Message):
    __slots__ = ("keys", "payloads", "next_page_token", "weights", "place")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    next_page_token: str
    weights: _containers.RepeatedScalarFieldContainer[float]
    place: str
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., payloads: _Optional[_Iterable[bytes]] = ..., next_page_token: _Optional[str] = ..., weights: _Optional[_Iterable[float]] = ..., place: _Optional[str] = ...) -> None: ...
