from timerd.v1 import operate_pb2 as _operate_pb2
from timerd.v1 import overview_service_pb2 as _overview_service_pb2
from timerd.v1 import watch_pb2 as _watch_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InspectRequest(_message.Message):
    __slots__ = ("activity",)
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    activity: bool
    def __init__(self, activity: bool = ...) -> None: ...

class InspectResponse(_message.Message):
    __slots__ = ("report", "activity")
    REPORT_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    report: _operate_pb2.InstanceReport
    activity: _overview_service_pb2.InstanceActivity
    def __init__(self, report: _Optional[_Union[_operate_pb2.InstanceReport, _Mapping]] = ..., activity: _Optional[_Union[_overview_service_pb2.InstanceActivity, _Mapping]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("partitions_held",)
    PARTITIONS_HELD_FIELD_NUMBER: _ClassVar[int]
    partitions_held: int
    def __init__(self, partitions_held: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("events", "left_out")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_watch_pb2.DeliveryEvent]
    left_out: int
    def __init__(self, events: _Optional[_Iterable[_Union[_watch_pb2.DeliveryEvent, _Mapping]]] = ..., left_out: _Optional[int] = ...) -> None: ...
