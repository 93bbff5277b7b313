import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from timerd.v1 import operate_pb2 as _operate_pb2
from timerd.v1 import task_pb2 as _task_pb2
from timerd.v1 import watch_pb2 as _watch_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScheduleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "template", "payload", "fire_time", "delay", "request_time", "key")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    template: _task_pb2.TaskTemplate
    payload: bytes
    fire_time: _timestamp_pb2.Timestamp
    delay: _duration_pb2.Duration
    request_time: _timestamp_pb2.Timestamp
    key: str
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., template: _Optional[_Union[_task_pb2.TaskTemplate, _Mapping]] = ..., payload: _Optional[bytes] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., key: _Optional[str] = ...) -> None: ...

class ScheduleResponse(_message.Message):
    __slots__ = ("task_id", "fire_time", "outcome")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fire_time: _timestamp_pb2.Timestamp
    outcome: _task_pb2.ItemOutcome
    def __init__(self, task_id: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., outcome: _Optional[_Union[_task_pb2.ItemOutcome, str]] = ...) -> None: ...

class TaskColumns(_message.Message):
    __slots__ = ("fire_at_ms", "delay_ms", "payload_lengths", "payloads", "ordering_keys", "ordering_key_of", "limit_keys", "limit_key_of")
    FIRE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEYS_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_OF_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEYS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_OF_FIELD_NUMBER: _ClassVar[int]
    fire_at_ms: _containers.RepeatedScalarFieldContainer[int]
    delay_ms: _containers.RepeatedScalarFieldContainer[int]
    payload_lengths: _containers.RepeatedScalarFieldContainer[int]
    payloads: bytes
    ordering_keys: _containers.RepeatedScalarFieldContainer[str]
    ordering_key_of: _containers.RepeatedScalarFieldContainer[int]
    limit_keys: _containers.RepeatedScalarFieldContainer[str]
    limit_key_of: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, fire_at_ms: _Optional[_Iterable[int]] = ..., delay_ms: _Optional[_Iterable[int]] = ..., payload_lengths: _Optional[_Iterable[int]] = ..., payloads: _Optional[bytes] = ..., ordering_keys: _Optional[_Iterable[str]] = ..., ordering_key_of: _Optional[_Iterable[int]] = ..., limit_keys: _Optional[_Iterable[str]] = ..., limit_key_of: _Optional[_Iterable[int]] = ...) -> None: ...

class TaskItem(_message.Message):
    __slots__ = ("fire_time", "delay", "payload", "key", "template")
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    fire_time: _timestamp_pb2.Timestamp
    delay: _duration_pb2.Duration
    payload: bytes
    key: str
    template: _task_pb2.TaskTemplate
    def __init__(self, fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., payload: _Optional[bytes] = ..., key: _Optional[str] = ..., template: _Optional[_Union[_task_pb2.TaskTemplate, _Mapping]] = ...) -> None: ...

class TaskItems(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[TaskItem]
    def __init__(self, items: _Optional[_Iterable[_Union[TaskItem, _Mapping]]] = ...) -> None: ...

class ScheduleBatchRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "request_time", "template", "columns", "items")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    request_time: _timestamp_pb2.Timestamp
    template: _task_pb2.TaskTemplate
    columns: TaskColumns
    items: TaskItems
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., template: _Optional[_Union[_task_pb2.TaskTemplate, _Mapping]] = ..., columns: _Optional[_Union[TaskColumns, _Mapping]] = ..., items: _Optional[_Union[TaskItems, _Mapping]] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ("prefix", "scope", "priority", "bucket_length_ms", "bucket_start_ms", "shards", "macs", "position_ms")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    BUCKET_LENGTH_MS_FIELD_NUMBER: _ClassVar[int]
    BUCKET_START_MS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    MACS_FIELD_NUMBER: _ClassVar[int]
    POSITION_MS_FIELD_NUMBER: _ClassVar[int]
    prefix: bytes
    scope: int
    priority: int
    bucket_length_ms: int
    bucket_start_ms: _containers.RepeatedScalarFieldContainer[int]
    shards: _containers.RepeatedScalarFieldContainer[int]
    macs: bytes
    position_ms: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, prefix: _Optional[bytes] = ..., scope: _Optional[int] = ..., priority: _Optional[int] = ..., bucket_length_ms: _Optional[int] = ..., bucket_start_ms: _Optional[_Iterable[int]] = ..., shards: _Optional[_Iterable[int]] = ..., macs: _Optional[bytes] = ..., position_ms: _Optional[_Iterable[int]] = ...) -> None: ...

class ItemResult(_message.Message):
    __slots__ = ("index", "outcome", "task_id", "fire_time", "problem")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    index: int
    outcome: _task_pb2.ItemOutcome
    task_id: str
    fire_time: _timestamp_pb2.Timestamp
    problem: _task_pb2.Problem
    def __init__(self, index: _Optional[int] = ..., outcome: _Optional[_Union[_task_pb2.ItemOutcome, str]] = ..., task_id: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., problem: _Optional[_Union[_task_pb2.Problem, _Mapping]] = ...) -> None: ...

class ScheduleBatchResponse(_message.Message):
    __slots__ = ("stored", "placement", "results", "fire_at_ms")
    STORED_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    FIRE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    stored: int
    placement: Placement
    results: _containers.RepeatedCompositeFieldContainer[ItemResult]
    fire_at_ms: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, stored: _Optional[int] = ..., placement: _Optional[_Union[Placement, _Mapping]] = ..., results: _Optional[_Iterable[_Union[ItemResult, _Mapping]]] = ..., fire_at_ms: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "task_id", "key", "request_time", "wait")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    task_id: str
    key: str
    request_time: _timestamp_pb2.Timestamp
    wait: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., task_id: _Optional[str] = ..., key: _Optional[str] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("outcome",)
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    outcome: _task_pb2.CancelOutcome
    def __init__(self, outcome: _Optional[_Union[_task_pb2.CancelOutcome, str]] = ...) -> None: ...

class CancelBatchRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "task_ids", "request_time", "keys")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    request_time: _timestamp_pb2.Timestamp
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., task_ids: _Optional[_Iterable[str]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keys: _Optional[_Iterable[str]] = ...) -> None: ...

class CancelBatchResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedScalarFieldContainer[_task_pb2.CancelOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[_task_pb2.CancelOutcome, str]]] = ...) -> None: ...

class RescheduleRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "task_id", "key", "fire_time", "delay", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    task_id: str
    key: str
    fire_time: _timestamp_pb2.Timestamp
    delay: _duration_pb2.Duration
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., task_id: _Optional[str] = ..., key: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RescheduleResponse(_message.Message):
    __slots__ = ("task_id", "fire_time")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fire_time: _timestamp_pb2.Timestamp
    def __init__(self, task_id: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RescheduleBatchRequest(_message.Message):
    __slots__ = ("namespace", "moves")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    moves: _containers.RepeatedCompositeFieldContainer[RescheduleRequest]
    def __init__(self, namespace: _Optional[str] = ..., moves: _Optional[_Iterable[_Union[RescheduleRequest, _Mapping]]] = ...) -> None: ...

class RescheduleResult(_message.Message):
    __slots__ = ("task_id", "fire_time", "problem")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fire_time: _timestamp_pb2.Timestamp
    problem: _task_pb2.Problem
    def __init__(self, task_id: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., problem: _Optional[_Union[_task_pb2.Problem, _Mapping]] = ...) -> None: ...

class RescheduleBatchResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RescheduleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[RescheduleResult, _Mapping]]] = ...) -> None: ...

class FireNowRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "task_id", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    task_id: str
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., task_id: _Optional[str] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FireNowResponse(_message.Message):
    __slots__ = ("task_id", "fire_time")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fire_time: _timestamp_pb2.Timestamp
    def __init__(self, task_id: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("namespace", "task_id", "key")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    task_id: str
    key: str
    def __init__(self, namespace: _Optional[str] = ..., task_id: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: _task_pb2.Task
    def __init__(self, task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ...) -> None: ...

class WaitRequest(_message.Message):
    __slots__ = ("namespace", "task_id", "key", "timeout")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    task_id: str
    key: str
    timeout: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., task_id: _Optional[str] = ..., key: _Optional[str] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WaitResponse(_message.Message):
    __slots__ = ("task", "has_ended")
    TASK_FIELD_NUMBER: _ClassVar[int]
    HAS_ENDED_FIELD_NUMBER: _ClassVar[int]
    task: _task_pb2.Task
    has_ended: bool
    def __init__(self, task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ..., has_ended: bool = ...) -> None: ...

class CallRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "template", "payload", "request_time", "timeout")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    template: _task_pb2.TaskTemplate
    payload: bytes
    request_time: _timestamp_pb2.Timestamp
    timeout: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., template: _Optional[_Union[_task_pb2.TaskTemplate, _Mapping]] = ..., payload: _Optional[bytes] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CallResponse(_message.Message):
    __slots__ = ("task_id", "state", "has_ended", "result", "last_error")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HAS_ENDED_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    state: _task_pb2.TaskState
    has_ended: bool
    result: _task_pb2.Result
    last_error: str
    def __init__(self, task_id: _Optional[str] = ..., state: _Optional[_Union[_task_pb2.TaskState, str]] = ..., has_ended: bool = ..., result: _Optional[_Union[_task_pb2.Result, _Mapping]] = ..., last_error: _Optional[str] = ...) -> None: ...

class TaskFilter(_message.Message):
    __slots__ = ("start_time", "end_time", "queue", "states", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    queue: str
    states: _containers.RepeatedScalarFieldContainer[_task_pb2.TaskState]
    labels: _containers.ScalarMap[str, str]
    def __init__(self, start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., queue: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_task_pb2.TaskState, str]]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("namespace", "filter", "page_size", "page_token", "max_scanned", "include_payload")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MAX_SCANNED_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    filter: TaskFilter
    page_size: int
    page_token: str
    max_scanned: int
    include_payload: bool
    def __init__(self, namespace: _Optional[str] = ..., filter: _Optional[_Union[TaskFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., max_scanned: _Optional[int] = ..., include_payload: bool = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("tasks", "next_page_token", "scanned_through")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SCANNED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_task_pb2.Task]
    next_page_token: str
    scanned_through: _timestamp_pb2.Timestamp
    def __init__(self, tasks: _Optional[_Iterable[_Union[_task_pb2.Task, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., scanned_through: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CountRequest(_message.Message):
    __slots__ = ("namespace", "filter", "page_token", "max_scanned")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MAX_SCANNED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    filter: TaskFilter
    page_token: str
    max_scanned: int
    def __init__(self, namespace: _Optional[str] = ..., filter: _Optional[_Union[TaskFilter, _Mapping]] = ..., page_token: _Optional[str] = ..., max_scanned: _Optional[int] = ...) -> None: ...

class CountResponse(_message.Message):
    __slots__ = ("count", "estimated", "next_page_token", "scanned_through")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SCANNED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    count: int
    estimated: bool
    next_page_token: str
    scanned_through: _timestamp_pb2.Timestamp
    def __init__(self, count: _Optional[int] = ..., estimated: bool = ..., next_page_token: _Optional[str] = ..., scanned_through: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PurgeRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "filter", "force", "page_token", "max_scanned", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MAX_SCANNED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    filter: TaskFilter
    force: bool
    page_token: str
    max_scanned: int
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., filter: _Optional[_Union[TaskFilter, _Mapping]] = ..., force: bool = ..., page_token: _Optional[str] = ..., max_scanned: _Optional[int] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PurgeResponse(_message.Message):
    __slots__ = ("purged", "dry_run", "next_page_token", "scanned_through", "in_hand")
    PURGED_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SCANNED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    IN_HAND_FIELD_NUMBER: _ClassVar[int]
    purged: int
    dry_run: bool
    next_page_token: str
    scanned_through: _timestamp_pb2.Timestamp
    in_hand: int
    def __init__(self, purged: _Optional[int] = ..., dry_run: bool = ..., next_page_token: _Optional[str] = ..., scanned_through: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., in_hand: _Optional[int] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("task", "death_time", "attempts", "last_error")
    TASK_FIELD_NUMBER: _ClassVar[int]
    DEATH_TIME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    task: _task_pb2.Task
    death_time: _timestamp_pb2.Timestamp
    attempts: int
    last_error: str
    def __init__(self, task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ..., death_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempts: _Optional[int] = ..., last_error: _Optional[str] = ...) -> None: ...

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("namespace", "queue", "start_time", "end_time", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDeadLettersResponse(_message.Message):
    __slots__ = ("dead_letters", "next_page_token")
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    dead_letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    next_page_token: str
    def __init__(self, dead_letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PurgeDeadLettersRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "queue", "start_time", "end_time", "force", "page_token", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    queue: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    force: bool
    page_token: str
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., queue: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., force: bool = ..., page_token: _Optional[str] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PurgeDeadLettersResponse(_message.Message):
    __slots__ = ("purged", "halting", "dry_run", "next_page_token")
    PURGED_FIELD_NUMBER: _ClassVar[int]
    HALTING_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    purged: int
    halting: int
    dry_run: bool
    next_page_token: str
    def __init__(self, purged: _Optional[int] = ..., halting: _Optional[int] = ..., dry_run: bool = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RedriveRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "task_ids", "queue", "start_time", "end_time", "max_redriven", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    queue: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    max_redriven: int
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., task_ids: _Optional[_Iterable[str]] = ..., queue: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_redriven: _Optional[int] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RedriveResponse(_message.Message):
    __slots__ = ("redriven", "results")
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    redriven: int
    results: _containers.RepeatedCompositeFieldContainer[ItemResult]
    def __init__(self, redriven: _Optional[int] = ..., results: _Optional[_Iterable[_Union[ItemResult, _Mapping]]] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("sequence", "schedule", "cancel", "reschedule")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    RESCHEDULE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    schedule: ScheduleBatchRequest
    cancel: CancelBatchRequest
    reschedule: RescheduleRequest
    def __init__(self, sequence: _Optional[int] = ..., schedule: _Optional[_Union[ScheduleBatchRequest, _Mapping]] = ..., cancel: _Optional[_Union[CancelBatchRequest, _Mapping]] = ..., reschedule: _Optional[_Union[RescheduleRequest, _Mapping]] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("sequence", "problem", "schedule", "cancel", "reschedule", "window")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    RESCHEDULE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    problem: _task_pb2.Problem
    schedule: ScheduleBatchResponse
    cancel: CancelBatchResponse
    reschedule: RescheduleResponse
    window: SessionWindow
    def __init__(self, sequence: _Optional[int] = ..., problem: _Optional[_Union[_task_pb2.Problem, _Mapping]] = ..., schedule: _Optional[_Union[ScheduleBatchResponse, _Mapping]] = ..., cancel: _Optional[_Union[CancelBatchResponse, _Mapping]] = ..., reschedule: _Optional[_Union[RescheduleResponse, _Mapping]] = ..., window: _Optional[_Union[SessionWindow, _Mapping]] = ...) -> None: ...

class SessionWindow(_message.Message):
    __slots__ = ("max_unanswered_bytes", "max_unanswered_requests")
    MAX_UNANSWERED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_UNANSWERED_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    max_unanswered_bytes: int
    max_unanswered_requests: int
    def __init__(self, max_unanswered_bytes: _Optional[int] = ..., max_unanswered_requests: _Optional[int] = ...) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ledger(_message.Message):
    __slots__ = ("inserted", "acked", "cancelled", "moved", "carried", "expired", "dead", "purged", "unexplained")
    INSERTED_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    CARRIED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    PURGED_FIELD_NUMBER: _ClassVar[int]
    UNEXPLAINED_FIELD_NUMBER: _ClassVar[int]
    inserted: int
    acked: int
    cancelled: int
    moved: int
    carried: int
    expired: int
    dead: int
    purged: int
    unexplained: int
    def __init__(self, inserted: _Optional[int] = ..., acked: _Optional[int] = ..., cancelled: _Optional[int] = ..., moved: _Optional[int] = ..., carried: _Optional[int] = ..., expired: _Optional[int] = ..., dead: _Optional[int] = ..., purged: _Optional[int] = ..., unexplained: _Optional[int] = ...) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "durability", "store", "engine_time", "clock_offset_ms", "clock_trusted", "disk_free_bytes", "disk_used_bytes", "ledger", "partitions_open", "memory_used_bytes", "memory_budget_bytes", "in_flight", "loaded", "workers", "oldest_due_time", "start_time", "lateness_bounds_ms", "lateness_counts", "uptime", "advice", "notes", "front_door")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_TIME_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSET_MS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_TRUSTED_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_OPEN_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BUDGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    LOADED_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    LATENESS_BOUNDS_MS_FIELD_NUMBER: _ClassVar[int]
    LATENESS_COUNTS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    FRONT_DOOR_FIELD_NUMBER: _ClassVar[int]
    version: str
    durability: str
    store: str
    engine_time: _timestamp_pb2.Timestamp
    clock_offset_ms: int
    clock_trusted: bool
    disk_free_bytes: int
    disk_used_bytes: int
    ledger: Ledger
    partitions_open: int
    memory_used_bytes: int
    memory_budget_bytes: int
    in_flight: int
    loaded: int
    workers: int
    oldest_due_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    lateness_bounds_ms: _containers.RepeatedScalarFieldContainer[float]
    lateness_counts: _containers.RepeatedScalarFieldContainer[int]
    uptime: _duration_pb2.Duration
    advice: _containers.RepeatedScalarFieldContainer[str]
    notes: _containers.RepeatedScalarFieldContainer[str]
    front_door: str
    def __init__(self, version: _Optional[str] = ..., durability: _Optional[str] = ..., store: _Optional[str] = ..., engine_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., clock_offset_ms: _Optional[int] = ..., clock_trusted: bool = ..., disk_free_bytes: _Optional[int] = ..., disk_used_bytes: _Optional[int] = ..., ledger: _Optional[_Union[Ledger, _Mapping]] = ..., partitions_open: _Optional[int] = ..., memory_used_bytes: _Optional[int] = ..., memory_budget_bytes: _Optional[int] = ..., in_flight: _Optional[int] = ..., loaded: _Optional[int] = ..., workers: _Optional[int] = ..., oldest_due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lateness_bounds_ms: _Optional[_Iterable[float]] = ..., lateness_counts: _Optional[_Iterable[int]] = ..., uptime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., advice: _Optional[_Iterable[str]] = ..., notes: _Optional[_Iterable[str]] = ..., front_door: _Optional[str] = ...) -> None: ...
