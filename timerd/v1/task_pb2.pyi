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

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_PENDING: _ClassVar[TaskState]
    TASK_STATE_IN_FLIGHT: _ClassVar[TaskState]
    TASK_STATE_ACKED: _ClassVar[TaskState]
    TASK_STATE_CANCELLED: _ClassVar[TaskState]
    TASK_STATE_DEAD: _ClassVar[TaskState]
    TASK_STATE_EXPIRED: _ClassVar[TaskState]
    TASK_STATE_PURGED: _ClassVar[TaskState]
    TASK_STATE_FINISHED: _ClassVar[TaskState]
    TASK_STATE_RETRYING: _ClassVar[TaskState]

class ItemOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ITEM_OUTCOME_UNSPECIFIED: _ClassVar[ItemOutcome]
    ITEM_OUTCOME_STORED: _ClassVar[ItemOutcome]
    ITEM_OUTCOME_NOT_STORED: _ClassVar[ItemOutcome]
    ITEM_OUTCOME_UNKNOWN: _ClassVar[ItemOutcome]
    ITEM_OUTCOME_KEPT: _ClassVar[ItemOutcome]

class CancelOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANCEL_OUTCOME_UNSPECIFIED: _ClassVar[CancelOutcome]
    CANCEL_OUTCOME_CANCELLED: _ClassVar[CancelOutcome]
    CANCEL_OUTCOME_ALREADY_FIRED: _ClassVar[CancelOutcome]
    CANCEL_OUTCOME_IN_FLIGHT: _ClassVar[CancelOutcome]
    CANCEL_OUTCOME_ALREADY_CANCELLED: _ClassVar[CancelOutcome]
    CANCEL_OUTCOME_FINISHED: _ClassVar[CancelOutcome]
    CANCEL_OUTCOME_NOT_FOUND: _ClassVar[CancelOutcome]
    CANCEL_OUTCOME_PENDING: _ClassVar[CancelOutcome]

class ConflictPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONFLICT_POLICY_UNSPECIFIED: _ClassVar[ConflictPolicy]
    CONFLICT_POLICY_KEEP: _ClassVar[ConflictPolicy]
    CONFLICT_POLICY_REPLACE: _ClassVar[ConflictPolicy]
    CONFLICT_POLICY_REJECT: _ClassVar[ConflictPolicy]

class AttemptEnd(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTEMPT_END_UNSPECIFIED: _ClassVar[AttemptEnd]
    ATTEMPT_END_FAILED: _ClassVar[AttemptEnd]
    ATTEMPT_END_REJECTED: _ClassVar[AttemptEnd]
    ATTEMPT_END_TIMED_OUT: _ClassVar[AttemptEnd]
    ATTEMPT_END_LEASE_ENDED: _ClassVar[AttemptEnd]
    ATTEMPT_END_WORKER_LOST: _ClassVar[AttemptEnd]
    ATTEMPT_END_GIVEN_BACK: _ClassVar[AttemptEnd]
    ATTEMPT_END_STALLED: _ClassVar[AttemptEnd]

class WaitReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAIT_REASON_UNSPECIFIED: _ClassVar[WaitReason]
    WAIT_REASON_SLOT: _ClassVar[WaitReason]
    WAIT_REASON_PAUSED: _ClassVar[WaitReason]
    WAIT_REASON_RETRY: _ClassVar[WaitReason]
    WAIT_REASON_LIMIT: _ClassVar[WaitReason]
    WAIT_REASON_BREAKER: _ClassVar[WaitReason]
    WAIT_REASON_KEY: _ClassVar[WaitReason]
    WAIT_REASON_TARGET: _ClassVar[WaitReason]
    WAIT_REASON_WORKER: _ClassVar[WaitReason]
TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_PENDING: TaskState
TASK_STATE_IN_FLIGHT: TaskState
TASK_STATE_ACKED: TaskState
TASK_STATE_CANCELLED: TaskState
TASK_STATE_DEAD: TaskState
TASK_STATE_EXPIRED: TaskState
TASK_STATE_PURGED: TaskState
TASK_STATE_FINISHED: TaskState
TASK_STATE_RETRYING: TaskState
ITEM_OUTCOME_UNSPECIFIED: ItemOutcome
ITEM_OUTCOME_STORED: ItemOutcome
ITEM_OUTCOME_NOT_STORED: ItemOutcome
ITEM_OUTCOME_UNKNOWN: ItemOutcome
ITEM_OUTCOME_KEPT: ItemOutcome
CANCEL_OUTCOME_UNSPECIFIED: CancelOutcome
CANCEL_OUTCOME_CANCELLED: CancelOutcome
CANCEL_OUTCOME_ALREADY_FIRED: CancelOutcome
CANCEL_OUTCOME_IN_FLIGHT: CancelOutcome
CANCEL_OUTCOME_ALREADY_CANCELLED: CancelOutcome
CANCEL_OUTCOME_FINISHED: CancelOutcome
CANCEL_OUTCOME_NOT_FOUND: CancelOutcome
CANCEL_OUTCOME_PENDING: CancelOutcome
CONFLICT_POLICY_UNSPECIFIED: ConflictPolicy
CONFLICT_POLICY_KEEP: ConflictPolicy
CONFLICT_POLICY_REPLACE: ConflictPolicy
CONFLICT_POLICY_REJECT: ConflictPolicy
ATTEMPT_END_UNSPECIFIED: AttemptEnd
ATTEMPT_END_FAILED: AttemptEnd
ATTEMPT_END_REJECTED: AttemptEnd
ATTEMPT_END_TIMED_OUT: AttemptEnd
ATTEMPT_END_LEASE_ENDED: AttemptEnd
ATTEMPT_END_WORKER_LOST: AttemptEnd
ATTEMPT_END_GIVEN_BACK: AttemptEnd
ATTEMPT_END_STALLED: AttemptEnd
WAIT_REASON_UNSPECIFIED: WaitReason
WAIT_REASON_SLOT: WaitReason
WAIT_REASON_PAUSED: WaitReason
WAIT_REASON_RETRY: WaitReason
WAIT_REASON_LIMIT: WaitReason
WAIT_REASON_BREAKER: WaitReason
WAIT_REASON_KEY: WaitReason
WAIT_REASON_TARGET: WaitReason
WAIT_REASON_WORKER: WaitReason

class RetryPolicy(_message.Message):
    __slots__ = ("max_attempts", "initial_backoff", "multiplier", "max_backoff", "jitter", "attempt_timeout")
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    max_attempts: int
    initial_backoff: _duration_pb2.Duration
    multiplier: float
    max_backoff: _duration_pb2.Duration
    jitter: float
    attempt_timeout: _duration_pb2.Duration
    def __init__(self, max_attempts: _Optional[int] = ..., initial_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., multiplier: _Optional[float] = ..., max_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., jitter: _Optional[float] = ..., attempt_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class TaskTemplate(_message.Message):
    __slots__ = ("queue", "labels", "content_type", "priority", "retry", "expire_time", "soft_expire_time", "traceparent", "on_conflict", "ordering_key", "limit_key", "on_demand", "expire_after", "soft_expire_after", "keep_result", "on_end", "stall_timeout")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    SOFT_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    ON_DEMAND_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_AFTER_FIELD_NUMBER: _ClassVar[int]
    SOFT_EXPIRE_AFTER_FIELD_NUMBER: _ClassVar[int]
    KEEP_RESULT_FIELD_NUMBER: _ClassVar[int]
    ON_END_FIELD_NUMBER: _ClassVar[int]
    STALL_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    queue: str
    labels: _containers.ScalarMap[str, str]
    content_type: str
    priority: int
    retry: RetryPolicy
    expire_time: _timestamp_pb2.Timestamp
    soft_expire_time: _timestamp_pb2.Timestamp
    traceparent: str
    on_conflict: ConflictPolicy
    ordering_key: str
    limit_key: str
    on_demand: bool
    expire_after: _duration_pb2.Duration
    soft_expire_after: _duration_pb2.Duration
    keep_result: _duration_pb2.Duration
    on_end: str
    stall_timeout: _duration_pb2.Duration
    def __init__(self, queue: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., content_type: _Optional[str] = ..., priority: _Optional[int] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., soft_expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., traceparent: _Optional[str] = ..., on_conflict: _Optional[_Union[ConflictPolicy, str]] = ..., ordering_key: _Optional[str] = ..., limit_key: _Optional[str] = ..., on_demand: bool = ..., expire_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., soft_expire_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., keep_result: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., on_end: _Optional[str] = ..., stall_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("value", "content_type")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    content_type: str
    def __init__(self, value: _Optional[bytes] = ..., content_type: _Optional[str] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("fraction", "cursor")
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    fraction: float
    cursor: bytes
    def __init__(self, fraction: _Optional[float] = ..., cursor: _Optional[bytes] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("task_id", "namespace", "queue", "fire_time", "state", "payload", "content_type", "labels", "priority", "key", "expire_time", "soft_expire_time", "retry", "traceparent", "attempt", "last_error", "due_time", "waiting_for", "history", "progress", "ordering_key", "limit_key", "keep_result", "result", "is_cancelling", "stall_timeout", "on_end", "on_demand")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    SOFT_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    KEEP_RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    IS_CANCELLING_FIELD_NUMBER: _ClassVar[int]
    STALL_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ON_END_FIELD_NUMBER: _ClassVar[int]
    ON_DEMAND_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    namespace: str
    queue: str
    fire_time: _timestamp_pb2.Timestamp
    state: TaskState
    payload: bytes
    content_type: str
    labels: _containers.ScalarMap[str, str]
    priority: int
    key: str
    expire_time: _timestamp_pb2.Timestamp
    soft_expire_time: _timestamp_pb2.Timestamp
    retry: RetryPolicy
    traceparent: str
    attempt: int
    last_error: str
    due_time: _timestamp_pb2.Timestamp
    waiting_for: Waiting
    history: _containers.RepeatedCompositeFieldContainer[Attempt]
    progress: Progress
    ordering_key: str
    limit_key: str
    keep_result: _duration_pb2.Duration
    result: Result
    is_cancelling: bool
    stall_timeout: _duration_pb2.Duration
    on_end: str
    on_demand: bool
    def __init__(self, task_id: _Optional[str] = ..., namespace: _Optional[str] = ..., queue: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[TaskState, str]] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., priority: _Optional[int] = ..., key: _Optional[str] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., soft_expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., traceparent: _Optional[str] = ..., attempt: _Optional[int] = ..., last_error: _Optional[str] = ..., due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., waiting_for: _Optional[_Union[Waiting, _Mapping]] = ..., history: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., ordering_key: _Optional[str] = ..., limit_key: _Optional[str] = ..., keep_result: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., is_cancelling: bool = ..., stall_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., on_end: _Optional[str] = ..., on_demand: bool = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("attempt", "send_time", "end_time", "end", "error", "worker")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SEND_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    send_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    end: AttemptEnd
    error: str
    worker: str
    def __init__(self, attempt: _Optional[int] = ..., send_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[AttemptEnd, str]] = ..., error: _Optional[str] = ..., worker: _Optional[str] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("reason", "until", "description", "limit", "task_id", "limit_key")
    REASON_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    reason: WaitReason
    until: _timestamp_pb2.Timestamp
    description: str
    limit: str
    task_id: str
    limit_key: str
    def __init__(self, reason: _Optional[_Union[WaitReason, str]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., description: _Optional[str] = ..., limit: _Optional[str] = ..., task_id: _Optional[str] = ..., limit_key: _Optional[str] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ("code", "message", "reason", "retry_after_ms", "field", "only_this_try")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    ONLY_THIS_TRY_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    reason: str
    retry_after_ms: int
    field: str
    only_this_try: bool
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., retry_after_ms: _Optional[int] = ..., field: _Optional[str] = ..., only_this_try: bool = ...) -> None: ...
