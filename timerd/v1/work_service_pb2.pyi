import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from timerd.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SettleAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SETTLE_ACTION_UNSPECIFIED: _ClassVar[SettleAction]
    SETTLE_ACTION_ACK: _ClassVar[SettleAction]
    SETTLE_ACTION_NACK: _ClassVar[SettleAction]
    SETTLE_ACTION_REJECT: _ClassVar[SettleAction]
    SETTLE_ACTION_RELEASE: _ClassVar[SettleAction]

class OccurrenceReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OCCURRENCE_REASON_UNSPECIFIED: _ClassVar[OccurrenceReason]
    OCCURRENCE_REASON_SCHEDULE: _ClassVar[OccurrenceReason]
    OCCURRENCE_REASON_CATCH_UP: _ClassVar[OccurrenceReason]
    OCCURRENCE_REASON_TRIGGER: _ClassVar[OccurrenceReason]
    OCCURRENCE_REASON_BACKFILL: _ClassVar[OccurrenceReason]

class InterruptReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INTERRUPT_REASON_UNSPECIFIED: _ClassVar[InterruptReason]
    INTERRUPT_REASON_CANCELLED: _ClassVar[InterruptReason]
    INTERRUPT_REASON_EXPIRED: _ClassVar[InterruptReason]
    INTERRUPT_REASON_LOST: _ClassVar[InterruptReason]
SETTLE_ACTION_UNSPECIFIED: SettleAction
SETTLE_ACTION_ACK: SettleAction
SETTLE_ACTION_NACK: SettleAction
SETTLE_ACTION_REJECT: SettleAction
SETTLE_ACTION_RELEASE: SettleAction
OCCURRENCE_REASON_UNSPECIFIED: OccurrenceReason
OCCURRENCE_REASON_SCHEDULE: OccurrenceReason
OCCURRENCE_REASON_CATCH_UP: OccurrenceReason
OCCURRENCE_REASON_TRIGGER: OccurrenceReason
OCCURRENCE_REASON_BACKFILL: OccurrenceReason
INTERRUPT_REASON_UNSPECIFIED: InterruptReason
INTERRUPT_REASON_CANCELLED: InterruptReason
INTERRUPT_REASON_EXPIRED: InterruptReason
INTERRUPT_REASON_LOST: InterruptReason

class WorkRequest(_message.Message):
    __slots__ = ("open", "credit", "settle", "extend")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    open: Open
    credit: Credit
    settle: Settle
    extend: Extend
    def __init__(self, open: _Optional[_Union[Open, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., settle: _Optional[_Union[Settle, _Mapping]] = ..., extend: _Optional[_Union[Extend, _Mapping]] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("namespace", "worker", "credits", "lease_ms", "resume", "merges_confirmed", "stream", "replaces", "pools")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    MERGES_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    worker: str
    credits: _containers.RepeatedCompositeFieldContainer[Credit]
    lease_ms: int
    resume: bytes
    merges_confirmed: bool
    stream: bytes
    replaces: _containers.RepeatedScalarFieldContainer[bytes]
    pools: _containers.RepeatedCompositeFieldContainer[Pool]
    def __init__(self, namespace: _Optional[str] = ..., worker: _Optional[str] = ..., credits: _Optional[_Iterable[_Union[Credit, _Mapping]]] = ..., lease_ms: _Optional[int] = ..., resume: _Optional[bytes] = ..., merges_confirmed: bool = ..., stream: _Optional[bytes] = ..., replaces: _Optional[_Iterable[bytes]] = ..., pools: _Optional[_Iterable[_Union[Pool, _Mapping]]] = ...) -> None: ...

class Pool(_message.Message):
    __slots__ = ("name", "queues", "slots")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    def __init__(self, name: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("queue", "tasks", "pool")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    queue: str
    tasks: int
    pool: str
    def __init__(self, queue: _Optional[str] = ..., tasks: _Optional[int] = ..., pool: _Optional[str] = ...) -> None: ...

class Settle(_message.Message):
    __slots__ = ("sequence", "action", "ack_tokens", "delay_ms", "error", "credits", "throttle", "result", "keep_result_ms")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    THROTTLE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    KEEP_RESULT_MS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    action: SettleAction
    ack_tokens: bytes
    delay_ms: int
    error: str
    credits: _containers.RepeatedCompositeFieldContainer[Credit]
    throttle: Throttle
    result: _task_pb2.Result
    keep_result_ms: int
    def __init__(self, sequence: _Optional[int] = ..., action: _Optional[_Union[SettleAction, str]] = ..., ack_tokens: _Optional[bytes] = ..., delay_ms: _Optional[int] = ..., error: _Optional[str] = ..., credits: _Optional[_Iterable[_Union[Credit, _Mapping]]] = ..., throttle: _Optional[_Union[Throttle, _Mapping]] = ..., result: _Optional[_Union[_task_pb2.Result, _Mapping]] = ..., keep_result_ms: _Optional[int] = ...) -> None: ...

class Throttle(_message.Message):
    __slots__ = ("limit", "after", "by_key")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BY_KEY_FIELD_NUMBER: _ClassVar[int]
    limit: str
    after: _duration_pb2.Duration
    by_key: bool
    def __init__(self, limit: _Optional[str] = ..., after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., by_key: bool = ...) -> None: ...

class Extend(_message.Message):
    __slots__ = ("ack_tokens", "reports")
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    ack_tokens: bytes
    reports: _containers.RepeatedCompositeFieldContainer[ProgressReport]
    def __init__(self, ack_tokens: _Optional[bytes] = ..., reports: _Optional[_Iterable[_Union[ProgressReport, _Mapping]]] = ...) -> None: ...

class ProgressReport(_message.Message):
    __slots__ = ("ack_token", "progress", "age_ms")
    ACK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    ack_token: bytes
    progress: _task_pb2.Progress
    age_ms: int
    def __init__(self, ack_token: _Optional[bytes] = ..., progress: _Optional[_Union[_task_pb2.Progress, _Mapping]] = ..., age_ms: _Optional[int] = ...) -> None: ...

class WorkResponse(_message.Message):
    __slots__ = ("opened", "deliver", "confirmed", "go_away", "extended", "interrupt")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    DELIVER_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    GO_AWAY_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_FIELD_NUMBER: _ClassVar[int]
    opened: Opened
    deliver: Deliver
    confirmed: SettleConfirmed
    go_away: GoAway
    extended: Extended
    interrupt: Interrupt
    def __init__(self, opened: _Optional[_Union[Opened, _Mapping]] = ..., deliver: _Optional[_Union[Deliver, _Mapping]] = ..., confirmed: _Optional[_Union[SettleConfirmed, _Mapping]] = ..., go_away: _Optional[_Union[GoAway, _Mapping]] = ..., extended: _Optional[_Union[Extended, _Mapping]] = ..., interrupt: _Optional[_Union[Interrupt, _Mapping]] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("server", "lease_ms", "ack_token_bytes", "lost", "knows_pools")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    KNOWS_POOLS_FIELD_NUMBER: _ClassVar[int]
    server: str
    lease_ms: int
    ack_token_bytes: int
    lost: bytes
    knows_pools: bool
    def __init__(self, server: _Optional[str] = ..., lease_ms: _Optional[int] = ..., ack_token_bytes: _Optional[int] = ..., lost: _Optional[bytes] = ..., knows_pools: bool = ...) -> None: ...

class DeliveryTemplate(_message.Message):
    __slots__ = ("labels", "content_type", "priority", "fencing_scope", "fencing_token", "keep_result_ms", "stall_timeout_ms")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    FENCING_SCOPE_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEEP_RESULT_MS_FIELD_NUMBER: _ClassVar[int]
    STALL_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    content_type: str
    priority: int
    fencing_scope: str
    fencing_token: int
    keep_result_ms: int
    stall_timeout_ms: int
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ..., content_type: _Optional[str] = ..., priority: _Optional[int] = ..., fencing_scope: _Optional[str] = ..., fencing_token: _Optional[int] = ..., keep_result_ms: _Optional[int] = ..., stall_timeout_ms: _Optional[int] = ...) -> None: ...

class DeliveredOccurrence(_message.Message):
    __slots__ = ("schedule_id", "occurrence_id", "instant_ms", "previous_instant_ms", "reason", "revision", "missed_before")
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    OCCURRENCE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANT_MS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_INSTANT_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MISSED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    schedule_id: str
    occurrence_id: bytes
    instant_ms: int
    previous_instant_ms: int
    reason: OccurrenceReason
    revision: int
    missed_before: int
    def __init__(self, schedule_id: _Optional[str] = ..., occurrence_id: _Optional[bytes] = ..., instant_ms: _Optional[int] = ..., previous_instant_ms: _Optional[int] = ..., reason: _Optional[_Union[OccurrenceReason, str]] = ..., revision: _Optional[int] = ..., missed_before: _Optional[int] = ...) -> None: ...

class Deliver(_message.Message):
    __slots__ = ("queue", "templates", "template_index", "task_ids", "delivery_ids", "ack_tokens", "fire_at_ms", "attempts", "payload_lengths", "payloads", "late", "traceparents", "keys", "attempt_timeout_ms", "occurrences", "deadlines_ms", "soft_deadlines_ms", "sent_at_ms", "previous_progress", "ordering_keys", "order_fences")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_INDEX_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_IDS_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FIRE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENTS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    DEADLINES_MS_FIELD_NUMBER: _ClassVar[int]
    SOFT_DEADLINES_MS_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEYS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FENCES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    templates: _containers.RepeatedCompositeFieldContainer[DeliveryTemplate]
    template_index: _containers.RepeatedScalarFieldContainer[int]
    task_ids: bytes
    delivery_ids: bytes
    ack_tokens: bytes
    fire_at_ms: _containers.RepeatedScalarFieldContainer[int]
    attempts: _containers.RepeatedScalarFieldContainer[int]
    payload_lengths: _containers.RepeatedScalarFieldContainer[int]
    payloads: bytes
    late: _containers.RepeatedScalarFieldContainer[int]
    traceparents: _containers.RepeatedScalarFieldContainer[str]
    keys: _containers.RepeatedScalarFieldContainer[str]
    attempt_timeout_ms: int
    occurrences: _containers.RepeatedCompositeFieldContainer[DeliveredOccurrence]
    deadlines_ms: _containers.RepeatedScalarFieldContainer[int]
    soft_deadlines_ms: _containers.RepeatedScalarFieldContainer[int]
    sent_at_ms: int
    previous_progress: _containers.RepeatedCompositeFieldContainer[_task_pb2.Progress]
    ordering_keys: _containers.RepeatedScalarFieldContainer[str]
    order_fences: bytes
    def __init__(self, queue: _Optional[str] = ..., templates: _Optional[_Iterable[_Union[DeliveryTemplate, _Mapping]]] = ..., template_index: _Optional[_Iterable[int]] = ..., task_ids: _Optional[bytes] = ..., delivery_ids: _Optional[bytes] = ..., ack_tokens: _Optional[bytes] = ..., fire_at_ms: _Optional[_Iterable[int]] = ..., attempts: _Optional[_Iterable[int]] = ..., payload_lengths: _Optional[_Iterable[int]] = ..., payloads: _Optional[bytes] = ..., late: _Optional[_Iterable[int]] = ..., traceparents: _Optional[_Iterable[str]] = ..., keys: _Optional[_Iterable[str]] = ..., attempt_timeout_ms: _Optional[int] = ..., occurrences: _Optional[_Iterable[_Union[DeliveredOccurrence, _Mapping]]] = ..., deadlines_ms: _Optional[_Iterable[int]] = ..., soft_deadlines_ms: _Optional[_Iterable[int]] = ..., sent_at_ms: _Optional[int] = ..., previous_progress: _Optional[_Iterable[_Union[_task_pb2.Progress, _Mapping]]] = ..., ordering_keys: _Optional[_Iterable[str]] = ..., order_fences: _Optional[bytes] = ...) -> None: ...

class SettleConfirmed(_message.Message):
    __slots__ = ("sequence", "refused", "problem", "also", "states")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    ALSO_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    refused: _containers.RepeatedScalarFieldContainer[int]
    problem: _task_pb2.Problem
    also: _containers.RepeatedScalarFieldContainer[int]
    states: _containers.RepeatedScalarFieldContainer[_task_pb2.TaskState]
    def __init__(self, sequence: _Optional[int] = ..., refused: _Optional[_Iterable[int]] = ..., problem: _Optional[_Union[_task_pb2.Problem, _Mapping]] = ..., also: _Optional[_Iterable[int]] = ..., states: _Optional[_Iterable[_Union[_task_pb2.TaskState, str]]] = ...) -> None: ...

class Extended(_message.Message):
    __slots__ = ("lost",)
    LOST_FIELD_NUMBER: _ClassVar[int]
    lost: bytes
    def __init__(self, lost: _Optional[bytes] = ...) -> None: ...

class Interrupt(_message.Message):
    __slots__ = ("ack_tokens", "reason")
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ack_tokens: bytes
    reason: InterruptReason
    def __init__(self, ack_tokens: _Optional[bytes] = ..., reason: _Optional[_Union[InterruptReason, str]] = ...) -> None: ...

class GoAway(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class ReceiveRequest(_message.Message):
    __slots__ = ("namespace", "queue", "max_tasks", "wait", "lease", "queues")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    max_tasks: int
    wait: _duration_pb2.Duration
    lease: _duration_pb2.Duration
    queues: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., max_tasks: _Optional[int] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., queues: _Optional[_Iterable[str]] = ...) -> None: ...

class ReceivedTask(_message.Message):
    __slots__ = ("task_id", "delivery_id", "ack_token", "queue", "payload", "content_type", "labels", "priority", "key", "fire_time", "attempt", "late", "traceparent", "fencing_scope", "fencing_token", "attempt_timeout", "occurrence", "deadline", "soft_deadline", "previous_progress", "ordering_key", "order_fence", "keep_result", "stall_timeout")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_ID_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    FENCING_SCOPE_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    OCCURRENCE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    SOFT_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_FIELD_NUMBER: _ClassVar[int]
    ORDER_FENCE_FIELD_NUMBER: _ClassVar[int]
    KEEP_RESULT_FIELD_NUMBER: _ClassVar[int]
    STALL_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    delivery_id: str
    ack_token: bytes
    queue: str
    payload: bytes
    content_type: str
    labels: _containers.ScalarMap[str, str]
    priority: int
    key: str
    fire_time: _timestamp_pb2.Timestamp
    attempt: int
    late: bool
    traceparent: str
    fencing_scope: str
    fencing_token: int
    attempt_timeout: _duration_pb2.Duration
    occurrence: DeliveredOccurrence
    deadline: _timestamp_pb2.Timestamp
    soft_deadline: _timestamp_pb2.Timestamp
    previous_progress: _task_pb2.Progress
    ordering_key: str
    order_fence: bytes
    keep_result: _duration_pb2.Duration
    stall_timeout: _duration_pb2.Duration
    def __init__(self, task_id: _Optional[str] = ..., delivery_id: _Optional[str] = ..., ack_token: _Optional[bytes] = ..., queue: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., priority: _Optional[int] = ..., key: _Optional[str] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., late: bool = ..., traceparent: _Optional[str] = ..., fencing_scope: _Optional[str] = ..., fencing_token: _Optional[int] = ..., attempt_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., occurrence: _Optional[_Union[DeliveredOccurrence, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., soft_deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., previous_progress: _Optional[_Union[_task_pb2.Progress, _Mapping]] = ..., ordering_key: _Optional[str] = ..., order_fence: _Optional[bytes] = ..., keep_result: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., stall_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReceiveResponse(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[ReceivedTask]
    def __init__(self, tasks: _Optional[_Iterable[_Union[ReceivedTask, _Mapping]]] = ...) -> None: ...

class FinishRequest(_message.Message):
    __slots__ = ("namespace", "ack_tokens", "action", "delay", "error", "throttle", "result", "keep_result")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    THROTTLE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    KEEP_RESULT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    ack_tokens: _containers.RepeatedScalarFieldContainer[bytes]
    action: SettleAction
    delay: _duration_pb2.Duration
    error: str
    throttle: Throttle
    result: _task_pb2.Result
    keep_result: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., ack_tokens: _Optional[_Iterable[bytes]] = ..., action: _Optional[_Union[SettleAction, str]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., error: _Optional[str] = ..., throttle: _Optional[_Union[Throttle, _Mapping]] = ..., result: _Optional[_Union[_task_pb2.Result, _Mapping]] = ..., keep_result: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class FinishRefusal(_message.Message):
    __slots__ = ("index", "state")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    index: int
    state: _task_pb2.TaskState
    def __init__(self, index: _Optional[int] = ..., state: _Optional[_Union[_task_pb2.TaskState, str]] = ...) -> None: ...

class FinishResponse(_message.Message):
    __slots__ = ("refused", "problem")
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    refused: _containers.RepeatedCompositeFieldContainer[FinishRefusal]
    problem: _task_pb2.Problem
    def __init__(self, refused: _Optional[_Iterable[_Union[FinishRefusal, _Mapping]]] = ..., problem: _Optional[_Union[_task_pb2.Problem, _Mapping]] = ...) -> None: ...

class ExtendRequest(_message.Message):
    __slots__ = ("namespace", "ack_tokens", "lease", "reports")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    ack_tokens: _containers.RepeatedScalarFieldContainer[bytes]
    lease: _duration_pb2.Duration
    reports: _containers.RepeatedCompositeFieldContainer[ProgressReport]
    def __init__(self, namespace: _Optional[str] = ..., ack_tokens: _Optional[_Iterable[bytes]] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., reports: _Optional[_Iterable[_Union[ProgressReport, _Mapping]]] = ...) -> None: ...

class ExtendResponse(_message.Message):
    __slots__ = ("lost", "interrupts")
    LOST_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTS_FIELD_NUMBER: _ClassVar[int]
    lost: _containers.RepeatedScalarFieldContainer[bytes]
    interrupts: _containers.RepeatedCompositeFieldContainer[Interrupt]
    def __init__(self, lost: _Optional[_Iterable[bytes]] = ..., interrupts: _Optional[_Iterable[_Union[Interrupt, _Mapping]]] = ...) -> None: ...
