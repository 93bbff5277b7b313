import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeliveryEventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERY_EVENT_KIND_UNSPECIFIED: _ClassVar[DeliveryEventKind]
    DELIVERY_EVENT_KIND_SENT: _ClassVar[DeliveryEventKind]
    DELIVERY_EVENT_KIND_ACKED: _ClassVar[DeliveryEventKind]
    DELIVERY_EVENT_KIND_FAILED: _ClassVar[DeliveryEventKind]
    DELIVERY_EVENT_KIND_DEAD: _ClassVar[DeliveryEventKind]
    DELIVERY_EVENT_KIND_EXPIRED: _ClassVar[DeliveryEventKind]
    DELIVERY_EVENT_KIND_GIVEN_BACK: _ClassVar[DeliveryEventKind]
    DELIVERY_EVENT_KIND_CANCELLED: _ClassVar[DeliveryEventKind]
DELIVERY_EVENT_KIND_UNSPECIFIED: DeliveryEventKind
DELIVERY_EVENT_KIND_SENT: DeliveryEventKind
DELIVERY_EVENT_KIND_ACKED: DeliveryEventKind
DELIVERY_EVENT_KIND_FAILED: DeliveryEventKind
DELIVERY_EVENT_KIND_DEAD: DeliveryEventKind
DELIVERY_EVENT_KIND_EXPIRED: DeliveryEventKind
DELIVERY_EVENT_KIND_GIVEN_BACK: DeliveryEventKind
DELIVERY_EVENT_KIND_CANCELLED: DeliveryEventKind

class DeliveryEvent(_message.Message):
    __slots__ = ("time", "kind", "queue", "task_id", "due_time", "lateness_ms", "attempt", "worker", "instance", "took_ms", "next_attempt_time")
    TIME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    LATENESS_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TOOK_MS_FIELD_NUMBER: _ClassVar[int]
    NEXT_ATTEMPT_TIME_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    kind: DeliveryEventKind
    queue: str
    task_id: str
    due_time: _timestamp_pb2.Timestamp
    lateness_ms: int
    attempt: int
    worker: str
    instance: str
    took_ms: int
    next_attempt_time: _timestamp_pb2.Timestamp
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., kind: _Optional[_Union[DeliveryEventKind, str]] = ..., queue: _Optional[str] = ..., task_id: _Optional[str] = ..., due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lateness_ms: _Optional[int] = ..., attempt: _Optional[int] = ..., worker: _Optional[str] = ..., instance: _Optional[str] = ..., took_ms: _Optional[int] = ..., next_attempt_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("namespace", "queue", "max_per_second")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MAX_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    max_per_second: int
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., max_per_second: _Optional[int] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("events", "left_out", "silent")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[DeliveryEvent]
    left_out: int
    silent: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, events: _Optional[_Iterable[_Union[DeliveryEvent, _Mapping]]] = ..., left_out: _Optional[int] = ..., silent: _Optional[_Iterable[str]] = ...) -> None: ...
