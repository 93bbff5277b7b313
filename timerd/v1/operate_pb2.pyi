import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InstanceState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INSTANCE_STATE_UNSPECIFIED: _ClassVar[InstanceState]
    INSTANCE_STATE_SERVING: _ClassVar[InstanceState]
    INSTANCE_STATE_LEAVING: _ClassVar[InstanceState]
    INSTANCE_STATE_LEFT: _ClassVar[InstanceState]
    INSTANCE_STATE_DEAD: _ClassVar[InstanceState]
INSTANCE_STATE_UNSPECIFIED: InstanceState
INSTANCE_STATE_SERVING: InstanceState
INSTANCE_STATE_LEAVING: InstanceState
INSTANCE_STATE_LEFT: InstanceState
INSTANCE_STATE_DEAD: InstanceState

class HeldPartition(_message.Message):
    __slots__ = ("scope", "bucket_start_ms", "shard", "phase", "fencing_token", "lag_ms", "waiting", "open")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    BUCKET_START_MS_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LAG_MS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    scope: int
    bucket_start_ms: int
    shard: int
    phase: str
    fencing_token: int
    lag_ms: int
    waiting: int
    open: int
    def __init__(self, scope: _Optional[int] = ..., bucket_start_ms: _Optional[int] = ..., shard: _Optional[int] = ..., phase: _Optional[str] = ..., fencing_token: _Optional[int] = ..., lag_ms: _Optional[int] = ..., waiting: _Optional[int] = ..., open: _Optional[int] = ...) -> None: ...

class InstanceReport(_message.Message):
    __slots__ = ("version", "schema_version", "engine_time_ms", "wall_offset_ms", "clock_trusted", "lease_trusted", "in_flight", "workers", "partitions", "tzdata", "tzdata_advice")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENGINE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    WALL_OFFSET_MS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_TRUSTED_FIELD_NUMBER: _ClassVar[int]
    LEASE_TRUSTED_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TZDATA_FIELD_NUMBER: _ClassVar[int]
    TZDATA_ADVICE_FIELD_NUMBER: _ClassVar[int]
    version: str
    schema_version: int
    engine_time_ms: int
    wall_offset_ms: int
    clock_trusted: bool
    lease_trusted: bool
    in_flight: int
    workers: int
    partitions: _containers.RepeatedCompositeFieldContainer[HeldPartition]
    tzdata: str
    tzdata_advice: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[str] = ..., schema_version: _Optional[int] = ..., engine_time_ms: _Optional[int] = ..., wall_offset_ms: _Optional[int] = ..., clock_trusted: bool = ..., lease_trusted: bool = ..., in_flight: _Optional[int] = ..., workers: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[HeldPartition, _Mapping]]] = ..., tzdata: _Optional[str] = ..., tzdata_advice: _Optional[_Iterable[str]] = ...) -> None: ...

class Instance(_message.Message):
    __slots__ = ("name", "address", "state", "incarnation", "heartbeat_age", "report", "clock_difference_ms", "clock_uncertainty_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_AGE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_DIFFERENCE_MS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_UNCERTAINTY_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    state: InstanceState
    incarnation: int
    heartbeat_age: _duration_pb2.Duration
    report: InstanceReport
    clock_difference_ms: int
    clock_uncertainty_ms: int
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., state: _Optional[_Union[InstanceState, str]] = ..., incarnation: _Optional[int] = ..., heartbeat_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., report: _Optional[_Union[InstanceReport, _Mapping]] = ..., clock_difference_ms: _Optional[int] = ..., clock_uncertainty_ms: _Optional[int] = ...) -> None: ...

class GetClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetClusterResponse(_message.Message):
    __slots__ = ("instances", "answered_by", "overdue_buckets", "oldest_overdue_bucket", "backlog_buckets")
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    OVERDUE_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_OVERDUE_BUCKET_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    instances: _containers.RepeatedCompositeFieldContainer[Instance]
    answered_by: str
    overdue_buckets: int
    oldest_overdue_bucket: _timestamp_pb2.Timestamp
    backlog_buckets: int
    def __init__(self, instances: _Optional[_Iterable[_Union[Instance, _Mapping]]] = ..., answered_by: _Optional[str] = ..., overdue_buckets: _Optional[int] = ..., oldest_overdue_bucket: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., backlog_buckets: _Optional[int] = ...) -> None: ...

class GetPartitionRequest(_message.Message):
    __slots__ = ("time", "shard", "namespace", "queue", "count_rows")
    TIME_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    COUNT_ROWS_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    shard: int
    namespace: str
    queue: str
    count_rows: bool
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., shard: _Optional[int] = ..., namespace: _Optional[str] = ..., queue: _Optional[str] = ..., count_rows: bool = ...) -> None: ...

class ControlRow(_message.Message):
    __slots__ = ("fencing_token", "holder", "address", "incarnation", "successor", "closing_ms", "verified_ms", "finish_time", "inserted")
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUCCESSOR_FIELD_NUMBER: _ClassVar[int]
    CLOSING_MS_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_MS_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    INSERTED_FIELD_NUMBER: _ClassVar[int]
    fencing_token: int
    holder: str
    address: str
    incarnation: int
    successor: str
    closing_ms: int
    verified_ms: int
    finish_time: _timestamp_pb2.Timestamp
    inserted: int
    def __init__(self, fencing_token: _Optional[int] = ..., holder: _Optional[str] = ..., address: _Optional[str] = ..., incarnation: _Optional[int] = ..., successor: _Optional[str] = ..., closing_ms: _Optional[int] = ..., verified_ms: _Optional[int] = ..., finish_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., inserted: _Optional[int] = ...) -> None: ...

class PartitionInfo(_message.Message):
    __slots__ = ("scope", "bucket_start_ms", "shard", "control", "placed_on", "ended", "unexplained", "settle_records", "rows", "held")
    class EndedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    BUCKET_START_MS_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    PLACED_ON_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    UNEXPLAINED_FIELD_NUMBER: _ClassVar[int]
    SETTLE_RECORDS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    scope: int
    bucket_start_ms: int
    shard: int
    control: ControlRow
    placed_on: str
    ended: _containers.ScalarMap[str, int]
    unexplained: int
    settle_records: int
    rows: int
    held: HeldPartition
    def __init__(self, scope: _Optional[int] = ..., bucket_start_ms: _Optional[int] = ..., shard: _Optional[int] = ..., control: _Optional[_Union[ControlRow, _Mapping]] = ..., placed_on: _Optional[str] = ..., ended: _Optional[_Mapping[str, int]] = ..., unexplained: _Optional[int] = ..., settle_records: _Optional[int] = ..., rows: _Optional[int] = ..., held: _Optional[_Union[HeldPartition, _Mapping]] = ...) -> None: ...

class GetPartitionResponse(_message.Message):
    __slots__ = ("announced", "finishing", "finished", "shard_count", "partitions")
    ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    FINISHING_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    SHARD_COUNT_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    announced: bool
    finishing: bool
    finished: bool
    shard_count: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionInfo]
    def __init__(self, announced: bool = ..., finishing: bool = ..., finished: bool = ..., shard_count: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionInfo, _Mapping]]] = ...) -> None: ...

class DrainInstanceRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DrainInstanceResponse(_message.Message):
    __slots__ = ("partitions_held",)
    PARTITIONS_HELD_FIELD_NUMBER: _ClassVar[int]
    partitions_held: int
    def __init__(self, partitions_held: _Optional[int] = ...) -> None: ...

class AnnounceLoadRequest(_message.Message):
    __slots__ = ("time", "tasks", "payload_bytes")
    TIME_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    tasks: int
    payload_bytes: int
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tasks: _Optional[int] = ..., payload_bytes: _Optional[int] = ...) -> None: ...

class AnnounceLoadResponse(_message.Message):
    __slots__ = ("bucket_start_ms", "shard_count")
    BUCKET_START_MS_FIELD_NUMBER: _ClassVar[int]
    SHARD_COUNT_FIELD_NUMBER: _ClassVar[int]
    bucket_start_ms: int
    shard_count: int
    def __init__(self, bucket_start_ms: _Optional[int] = ..., shard_count: _Optional[int] = ...) -> None: ...

class SweepZonesRequest(_message.Message):
    __slots__ = ("zones",)
    ZONES_FIELD_NUMBER: _ClassVar[int]
    zones: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, zones: _Optional[_Iterable[str]] = ...) -> None: ...

class SweepZonesResponse(_message.Message):
    __slots__ = ("tzdata", "zones")
    TZDATA_FIELD_NUMBER: _ClassVar[int]
    ZONES_FIELD_NUMBER: _ClassVar[int]
    tzdata: str
    zones: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tzdata: _Optional[str] = ..., zones: _Optional[_Iterable[str]] = ...) -> None: ...
