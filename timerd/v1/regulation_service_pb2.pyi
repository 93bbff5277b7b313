import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QueueMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_MODE_UNSPECIFIED: _ClassVar[QueueMode]
    QUEUE_MODE_RUNNING: _ClassVar[QueueMode]
    QUEUE_MODE_PAUSED: _ClassVar[QueueMode]
    QUEUE_MODE_DRAINING: _ClassVar[QueueMode]
    QUEUE_MODE_STOPPED: _ClassVar[QueueMode]

class OnFailure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_FAILURE_UNSPECIFIED: _ClassVar[OnFailure]
    ON_FAILURE_HOLD: _ClassVar[OnFailure]
    ON_FAILURE_HALT: _ClassVar[OnFailure]
    ON_FAILURE_PASS: _ClassVar[OnFailure]

class QueueOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_ORDER_UNSPECIFIED: _ClassVar[QueueOrder]
    QUEUE_ORDER_AGED: _ClassVar[QueueOrder]
    QUEUE_ORDER_EDF: _ClassVar[QueueOrder]

class BreakerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BREAKER_STATE_UNSPECIFIED: _ClassVar[BreakerState]
    BREAKER_STATE_CLOSED: _ClassVar[BreakerState]
    BREAKER_STATE_OPEN: _ClassVar[BreakerState]
    BREAKER_STATE_HALF_OPEN: _ClassVar[BreakerState]
QUEUE_MODE_UNSPECIFIED: QueueMode
QUEUE_MODE_RUNNING: QueueMode
QUEUE_MODE_PAUSED: QueueMode
QUEUE_MODE_DRAINING: QueueMode
QUEUE_MODE_STOPPED: QueueMode
ON_FAILURE_UNSPECIFIED: OnFailure
ON_FAILURE_HOLD: OnFailure
ON_FAILURE_HALT: OnFailure
ON_FAILURE_PASS: OnFailure
QUEUE_ORDER_UNSPECIFIED: QueueOrder
QUEUE_ORDER_AGED: QueueOrder
QUEUE_ORDER_EDF: QueueOrder
BREAKER_STATE_UNSPECIFIED: BreakerState
BREAKER_STATE_CLOSED: BreakerState
BREAKER_STATE_OPEN: BreakerState
BREAKER_STATE_HALF_OPEN: BreakerState

class Limit(_message.Message):
    __slots__ = ("max_in_hand", "rate", "period", "burst")
    MAX_IN_HAND_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    max_in_hand: int
    rate: int
    period: _duration_pb2.Duration
    burst: int
    def __init__(self, max_in_hand: _Optional[int] = ..., rate: _Optional[int] = ..., period: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., burst: _Optional[int] = ...) -> None: ...

class KeyRules(_message.Message):
    __slots__ = ("limit", "overrides", "share", "weights")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    limit: Limit
    overrides: _containers.RepeatedCompositeFieldContainer[KeyOverride]
    share: float
    weights: _containers.RepeatedCompositeFieldContainer[KeyWeight]
    def __init__(self, limit: _Optional[_Union[Limit, _Mapping]] = ..., overrides: _Optional[_Iterable[_Union[KeyOverride, _Mapping]]] = ..., share: _Optional[float] = ..., weights: _Optional[_Iterable[_Union[KeyWeight, _Mapping]]] = ...) -> None: ...

class KeyWeight(_message.Message):
    __slots__ = ("limit_key", "weight")
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    limit_key: str
    weight: float
    def __init__(self, limit_key: _Optional[str] = ..., weight: _Optional[float] = ...) -> None: ...

class KeyOverride(_message.Message):
    __slots__ = ("limit_key", "limit")
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit_key: str
    limit: Limit
    def __init__(self, limit_key: _Optional[str] = ..., limit: _Optional[_Union[Limit, _Mapping]] = ...) -> None: ...

class Breaker(_message.Message):
    __slots__ = ("state", "until")
    STATE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    state: BreakerState
    until: _timestamp_pb2.Timestamp
    def __init__(self, state: _Optional[_Union[BreakerState, str]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Adaptive(_message.Message):
    __slots__ = ("floor", "ceiling", "target", "limit")
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    CEILING_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    floor: int
    ceiling: int
    target: _duration_pb2.Duration
    limit: int
    def __init__(self, floor: _Optional[int] = ..., ceiling: _Optional[int] = ..., target: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., limit: _Optional[int] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("namespace", "name", "mode", "until", "note", "revision", "limit", "limits", "held_until", "breaker", "keys", "ordering", "order", "adaptive")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    HELD_UNTIL_FIELD_NUMBER: _ClassVar[int]
    BREAKER_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ORDERING_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    ADAPTIVE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    mode: QueueMode
    until: _timestamp_pb2.Timestamp
    note: str
    revision: int
    limit: Limit
    limits: _containers.RepeatedScalarFieldContainer[str]
    held_until: _timestamp_pb2.Timestamp
    breaker: Breaker
    keys: KeyRules
    ordering: OnFailure
    order: QueueOrder
    adaptive: Adaptive
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., mode: _Optional[_Union[QueueMode, str]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., note: _Optional[str] = ..., revision: _Optional[int] = ..., limit: _Optional[_Union[Limit, _Mapping]] = ..., limits: _Optional[_Iterable[str]] = ..., held_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., breaker: _Optional[_Union[Breaker, _Mapping]] = ..., keys: _Optional[_Union[KeyRules, _Mapping]] = ..., ordering: _Optional[_Union[OnFailure, str]] = ..., order: _Optional[_Union[QueueOrder, str]] = ..., adaptive: _Optional[_Union[Adaptive, _Mapping]] = ...) -> None: ...

class NamedLimit(_message.Message):
    __slots__ = ("namespace", "name", "limit", "revision", "queues", "in_hand", "next_time", "held_until", "keyed", "overrides", "keys_at_limit", "keys_at_limit_count")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    IN_HAND_FIELD_NUMBER: _ClassVar[int]
    NEXT_TIME_FIELD_NUMBER: _ClassVar[int]
    HELD_UNTIL_FIELD_NUMBER: _ClassVar[int]
    KEYED_FIELD_NUMBER: _ClassVar[int]
    OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    KEYS_AT_LIMIT_FIELD_NUMBER: _ClassVar[int]
    KEYS_AT_LIMIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    limit: Limit
    revision: int
    queues: _containers.RepeatedScalarFieldContainer[str]
    in_hand: int
    next_time: _timestamp_pb2.Timestamp
    held_until: _timestamp_pb2.Timestamp
    keyed: bool
    overrides: _containers.RepeatedCompositeFieldContainer[KeyOverride]
    keys_at_limit: _containers.RepeatedCompositeFieldContainer[KeyAtLimit]
    keys_at_limit_count: int
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., limit: _Optional[_Union[Limit, _Mapping]] = ..., revision: _Optional[int] = ..., queues: _Optional[_Iterable[str]] = ..., in_hand: _Optional[int] = ..., next_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., held_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keyed: bool = ..., overrides: _Optional[_Iterable[_Union[KeyOverride, _Mapping]]] = ..., keys_at_limit: _Optional[_Iterable[_Union[KeyAtLimit, _Mapping]]] = ..., keys_at_limit_count: _Optional[int] = ...) -> None: ...

class KeyAtLimit(_message.Message):
    __slots__ = ("limit_key", "in_hand", "waiting", "next_time", "throttled")
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    IN_HAND_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    NEXT_TIME_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_FIELD_NUMBER: _ClassVar[int]
    limit_key: str
    in_hand: int
    waiting: int
    next_time: _timestamp_pb2.Timestamp
    throttled: bool
    def __init__(self, limit_key: _Optional[str] = ..., in_hand: _Optional[int] = ..., waiting: _Optional[int] = ..., next_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., throttled: bool = ...) -> None: ...

class GetQueueRequest(_message.Message):
    __slots__ = ("namespace", "queue")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class GetQueueResponse(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("namespace", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues", "next_page_token")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    next_page_token: str
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class SetModeRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "queue", "mode", "until", "note", "revision", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    queue: str
    mode: QueueMode
    until: _timestamp_pb2.Timestamp
    note: str
    revision: int
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., queue: _Optional[str] = ..., mode: _Optional[_Union[QueueMode, str]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., note: _Optional[str] = ..., revision: _Optional[int] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SetModeResponse(_message.Message):
    __slots__ = ("queue", "silent")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    silent: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ..., silent: _Optional[_Iterable[str]] = ...) -> None: ...

class PutQueueRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "queue", "limit", "revision", "request_time", "limits", "breaker", "keys", "ordering", "order", "adaptive")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    BREAKER_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ORDERING_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    ADAPTIVE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    queue: str
    limit: Limit
    revision: int
    request_time: _timestamp_pb2.Timestamp
    limits: _containers.RepeatedScalarFieldContainer[str]
    breaker: Breaker
    keys: KeyRules
    ordering: OnFailure
    order: QueueOrder
    adaptive: Adaptive
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., queue: _Optional[str] = ..., limit: _Optional[_Union[Limit, _Mapping]] = ..., revision: _Optional[int] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., limits: _Optional[_Iterable[str]] = ..., breaker: _Optional[_Union[Breaker, _Mapping]] = ..., keys: _Optional[_Union[KeyRules, _Mapping]] = ..., ordering: _Optional[_Union[OnFailure, str]] = ..., order: _Optional[_Union[QueueOrder, str]] = ..., adaptive: _Optional[_Union[Adaptive, _Mapping]] = ...) -> None: ...

class PutQueueResponse(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class UpdateQueueRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "queue", "limit", "revision", "request_time", "limits", "breaker", "keys", "ordering", "update_mask", "plain_keys", "order", "adaptive")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    BREAKER_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ORDERING_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    PLAIN_KEYS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    ADAPTIVE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    queue: str
    limit: Limit
    revision: int
    request_time: _timestamp_pb2.Timestamp
    limits: _containers.RepeatedScalarFieldContainer[str]
    breaker: Breaker
    keys: KeyRules
    ordering: OnFailure
    update_mask: _field_mask_pb2.FieldMask
    plain_keys: _containers.RepeatedScalarFieldContainer[str]
    order: QueueOrder
    adaptive: Adaptive
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., queue: _Optional[str] = ..., limit: _Optional[_Union[Limit, _Mapping]] = ..., revision: _Optional[int] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., limits: _Optional[_Iterable[str]] = ..., breaker: _Optional[_Union[Breaker, _Mapping]] = ..., keys: _Optional[_Union[KeyRules, _Mapping]] = ..., ordering: _Optional[_Union[OnFailure, str]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., plain_keys: _Optional[_Iterable[str]] = ..., order: _Optional[_Union[QueueOrder, str]] = ..., adaptive: _Optional[_Union[Adaptive, _Mapping]] = ...) -> None: ...

class UpdateQueueResponse(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class PutLimitRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "name", "limit", "revision", "request_time", "keyed", "overrides")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    KEYED_FIELD_NUMBER: _ClassVar[int]
    OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    name: str
    limit: Limit
    revision: int
    request_time: _timestamp_pb2.Timestamp
    keyed: bool
    overrides: _containers.RepeatedCompositeFieldContainer[KeyOverride]
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., name: _Optional[str] = ..., limit: _Optional[_Union[Limit, _Mapping]] = ..., revision: _Optional[int] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keyed: bool = ..., overrides: _Optional[_Iterable[_Union[KeyOverride, _Mapping]]] = ...) -> None: ...

class PutLimitResponse(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: NamedLimit
    def __init__(self, limit: _Optional[_Union[NamedLimit, _Mapping]] = ...) -> None: ...

class GetLimitRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetLimitResponse(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: NamedLimit
    def __init__(self, limit: _Optional[_Union[NamedLimit, _Mapping]] = ...) -> None: ...

class ListLimitsRequest(_message.Message):
    __slots__ = ("namespace", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListLimitsResponse(_message.Message):
    __slots__ = ("limits", "next_page_token")
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    limits: _containers.RepeatedCompositeFieldContainer[NamedLimit]
    next_page_token: str
    def __init__(self, limits: _Optional[_Iterable[_Union[NamedLimit, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteLimitRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "name", "revision", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    name: str
    revision: int
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., name: _Optional[str] = ..., revision: _Optional[int] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DeleteLimitResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ("namespace", "queue", "limit")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    limit: int
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class OrderingKey(_message.Message):
    __slots__ = ("key", "waiting", "task_id", "halted", "since", "next_time")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    HALTED_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    NEXT_TIME_FIELD_NUMBER: _ClassVar[int]
    key: str
    waiting: int
    task_id: str
    halted: bool
    since: _timestamp_pb2.Timestamp
    next_time: _timestamp_pb2.Timestamp
    def __init__(self, key: _Optional[str] = ..., waiting: _Optional[int] = ..., task_id: _Optional[str] = ..., halted: bool = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListKeysResponse(_message.Message):
    __slots__ = ("keys", "halted")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    HALTED_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[OrderingKey]
    halted: int
    def __init__(self, keys: _Optional[_Iterable[_Union[OrderingKey, _Mapping]]] = ..., halted: _Optional[int] = ...) -> None: ...

class SkipKeyRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "queue", "ordering_key", "task_id", "request_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    queue: str
    ordering_key: str
    task_id: str
    request_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., queue: _Optional[str] = ..., ordering_key: _Optional[str] = ..., task_id: _Optional[str] = ..., request_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SkipKeyResponse(_message.Message):
    __slots__ = ("task_id",)
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    def __init__(self, task_id: _Optional[str] = ...) -> None: ...
