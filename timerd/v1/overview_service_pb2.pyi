import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from timerd.v1 import timer_service_pb2 as _timer_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QueueActivity(_message.Message):
    __slots__ = ("namespace", "queue", "scheduled", "due", "sent", "in_hand", "settled", "dead", "lateness_counts", "workers", "pending", "has_backlog", "lacks_worker")
    class SettledEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    IN_HAND_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    LATENESS_COUNTS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    HAS_BACKLOG_FIELD_NUMBER: _ClassVar[int]
    LACKS_WORKER_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    scheduled: int
    due: int
    sent: int
    in_hand: int
    settled: _containers.ScalarMap[str, int]
    dead: int
    lateness_counts: _containers.RepeatedScalarFieldContainer[int]
    workers: int
    pending: int
    has_backlog: bool
    lacks_worker: bool
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., scheduled: _Optional[int] = ..., due: _Optional[int] = ..., sent: _Optional[int] = ..., in_hand: _Optional[int] = ..., settled: _Optional[_Mapping[str, int]] = ..., dead: _Optional[int] = ..., lateness_counts: _Optional[_Iterable[int]] = ..., workers: _Optional[int] = ..., pending: _Optional[int] = ..., has_backlog: bool = ..., lacks_worker: bool = ...) -> None: ...

class WorkerActivity(_message.Message):
    __slots__ = ("worker", "namespace", "queues", "queue_count", "connect_time", "settled", "last_settle_time", "pools")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONNECT_TIME_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    LAST_SETTLE_TIME_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    worker: str
    namespace: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    queue_count: int
    connect_time: _timestamp_pb2.Timestamp
    settled: int
    last_settle_time: _timestamp_pb2.Timestamp
    pools: _containers.RepeatedCompositeFieldContainer[PoolActivity]
    def __init__(self, worker: _Optional[str] = ..., namespace: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., queue_count: _Optional[int] = ..., connect_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settled: _Optional[int] = ..., last_settle_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pools: _Optional[_Iterable[_Union[PoolActivity, _Mapping]]] = ...) -> None: ...

class PoolActivity(_message.Message):
    __slots__ = ("name", "queues", "slots", "free")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    name: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    free: int
    def __init__(self, name: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., free: _Optional[int] = ...) -> None: ...

class CanaryActivity(_message.Message):
    __slots__ = ("interval_ms", "age_ms", "runs")
    class RunsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    interval_ms: int
    age_ms: int
    runs: _containers.ScalarMap[str, int]
    def __init__(self, interval_ms: _Optional[int] = ..., age_ms: _Optional[int] = ..., runs: _Optional[_Mapping[str, int]] = ...) -> None: ...

class InstanceActivity(_message.Message):
    __slots__ = ("name", "address", "version", "start_time", "in_flight", "loaded", "oldest_due_ms", "memory_used_bytes", "memory_budget_bytes", "schedules_broken", "queues", "workers", "worker_count", "canary")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    LOADED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_DUE_MS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BUDGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_BROKEN_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    WORKER_COUNT_FIELD_NUMBER: _ClassVar[int]
    CANARY_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    version: str
    start_time: _timestamp_pb2.Timestamp
    in_flight: int
    loaded: int
    oldest_due_ms: int
    memory_used_bytes: int
    memory_budget_bytes: int
    schedules_broken: int
    queues: _containers.RepeatedCompositeFieldContainer[QueueActivity]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerActivity]
    worker_count: int
    canary: CanaryActivity
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., version: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., in_flight: _Optional[int] = ..., loaded: _Optional[int] = ..., oldest_due_ms: _Optional[int] = ..., memory_used_bytes: _Optional[int] = ..., memory_budget_bytes: _Optional[int] = ..., schedules_broken: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[QueueActivity, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[WorkerActivity, _Mapping]]] = ..., worker_count: _Optional[int] = ..., canary: _Optional[_Union[CanaryActivity, _Mapping]] = ...) -> None: ...

class GetOverviewRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetOverviewResponse(_message.Message):
    __slots__ = ("engine_time", "instances", "silent", "queues", "lateness_bounds_ms", "answered_by", "ledger")
    ENGINE_TIME_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LATENESS_BOUNDS_MS_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    engine_time: _timestamp_pb2.Timestamp
    instances: _containers.RepeatedCompositeFieldContainer[InstanceActivity]
    silent: _containers.RepeatedScalarFieldContainer[str]
    queues: _containers.RepeatedCompositeFieldContainer[QueueActivity]
    lateness_bounds_ms: _containers.RepeatedScalarFieldContainer[float]
    answered_by: str
    ledger: _timer_service_pb2.Ledger
    def __init__(self, engine_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., instances: _Optional[_Iterable[_Union[InstanceActivity, _Mapping]]] = ..., silent: _Optional[_Iterable[str]] = ..., queues: _Optional[_Iterable[_Union[QueueActivity, _Mapping]]] = ..., lateness_bounds_ms: _Optional[_Iterable[float]] = ..., answered_by: _Optional[str] = ..., ledger: _Optional[_Union[_timer_service_pb2.Ledger, _Mapping]] = ...) -> None: ...

class GetLoadRequest(_message.Message):
    __slots__ = ("namespace", "queue", "start_time", "end_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetLoadResponse(_message.Message):
    __slots__ = ("start_time", "tasks")
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    start_time: _timestamp_pb2.Timestamp
    tasks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tasks: _Optional[_Iterable[int]] = ...) -> None: ...

class AuditedCall(_message.Message):
    __slots__ = ("request_time", "caller", "peer", "method", "request", "outcome", "result", "id")
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    request_time: _timestamp_pb2.Timestamp
    caller: str
    peer: str
    method: str
    request: str
    outcome: str
    result: str
    id: str
    def __init__(self, request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., caller: _Optional[str] = ..., peer: _Optional[str] = ..., method: _Optional[str] = ..., request: _Optional[str] = ..., outcome: _Optional[str] = ..., result: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class ListAuditedCallsRequest(_message.Message):
    __slots__ = ("caller", "method", "start_time", "end_time", "page_size", "page_token")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    caller: str
    method: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    page_size: int
    page_token: str
    def __init__(self, caller: _Optional[str] = ..., method: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAuditedCallsResponse(_message.Message):
    __slots__ = ("calls", "next_page_token")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[AuditedCall]
    next_page_token: str
    def __init__(self, calls: _Optional[_Iterable[_Union[AuditedCall, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
