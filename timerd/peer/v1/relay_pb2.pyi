from timerd.v1 import task_pb2 as _task_pb2
from timerd.v1 import work_service_pb2 as _work_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RelayRequest(_message.Message):
    __slots__ = ("open", "served", "opened", "granted", "revoked", "settle", "extend", "resume", "release", "written", "left", "leaving", "looked_for", "replaced", "report")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    LOOKED_FOR_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    open: RelayOpen
    served: QueueServed
    opened: WorkerOpened
    granted: CreditGranted
    revoked: CreditRevoked
    settle: RelaySettle
    extend: RelayExtend
    resume: RelayResume
    release: RelayRelease
    written: BytesWritten
    left: WorkerLeft
    leaving: HomeLeaving
    looked_for: AckLookedFor
    replaced: StreamsReplaced
    report: RelayReport
    def __init__(self, open: _Optional[_Union[RelayOpen, _Mapping]] = ..., served: _Optional[_Union[QueueServed, _Mapping]] = ..., opened: _Optional[_Union[WorkerOpened, _Mapping]] = ..., granted: _Optional[_Union[CreditGranted, _Mapping]] = ..., revoked: _Optional[_Union[CreditRevoked, _Mapping]] = ..., settle: _Optional[_Union[RelaySettle, _Mapping]] = ..., extend: _Optional[_Union[RelayExtend, _Mapping]] = ..., resume: _Optional[_Union[RelayResume, _Mapping]] = ..., release: _Optional[_Union[RelayRelease, _Mapping]] = ..., written: _Optional[_Union[BytesWritten, _Mapping]] = ..., left: _Optional[_Union[WorkerLeft, _Mapping]] = ..., leaving: _Optional[_Union[HomeLeaving, _Mapping]] = ..., looked_for: _Optional[_Union[AckLookedFor, _Mapping]] = ..., replaced: _Optional[_Union[StreamsReplaced, _Mapping]] = ..., report: _Optional[_Union[RelayReport, _Mapping]] = ...) -> None: ...

class RelayOpen(_message.Message):
    __slots__ = ("home",)
    HOME_FIELD_NUMBER: _ClassVar[int]
    home: str
    def __init__(self, home: _Optional[str] = ...) -> None: ...

class QueueServed(_message.Message):
    __slots__ = ("namespace", "queue", "served")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    served: bool
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., served: bool = ...) -> None: ...

class WorkerOpened(_message.Message):
    __slots__ = ("worker", "namespace", "lease_ms", "stream", "worker_name")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    WORKER_NAME_FIELD_NUMBER: _ClassVar[int]
    worker: int
    namespace: str
    lease_ms: int
    stream: bytes
    worker_name: str
    def __init__(self, worker: _Optional[int] = ..., namespace: _Optional[str] = ..., lease_ms: _Optional[int] = ..., stream: _Optional[bytes] = ..., worker_name: _Optional[str] = ...) -> None: ...

class StreamsReplaced(_message.Message):
    __slots__ = ("namespace", "streams")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    streams: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, namespace: _Optional[str] = ..., streams: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CreditGranted(_message.Message):
    __slots__ = ("worker", "queue", "tasks")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    worker: int
    queue: str
    tasks: int
    def __init__(self, worker: _Optional[int] = ..., queue: _Optional[str] = ..., tasks: _Optional[int] = ...) -> None: ...

class CreditRevoked(_message.Message):
    __slots__ = ("worker", "queue")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    worker: int
    queue: str
    def __init__(self, worker: _Optional[int] = ..., queue: _Optional[str] = ...) -> None: ...

class RelaySettle(_message.Message):
    __slots__ = ("worker", "sequence", "action", "ack_tokens", "delay_ms", "error", "namespace", "throttle")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    THROTTLE_FIELD_NUMBER: _ClassVar[int]
    worker: int
    sequence: int
    action: _work_service_pb2.SettleAction
    ack_tokens: bytes
    delay_ms: int
    error: str
    namespace: str
    throttle: _work_service_pb2.Throttle
    def __init__(self, worker: _Optional[int] = ..., sequence: _Optional[int] = ..., action: _Optional[_Union[_work_service_pb2.SettleAction, str]] = ..., ack_tokens: _Optional[bytes] = ..., delay_ms: _Optional[int] = ..., error: _Optional[str] = ..., namespace: _Optional[str] = ..., throttle: _Optional[_Union[_work_service_pb2.Throttle, _Mapping]] = ...) -> None: ...

class RelayExtend(_message.Message):
    __slots__ = ("worker", "sequence", "ack_tokens")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    worker: int
    sequence: int
    ack_tokens: bytes
    def __init__(self, worker: _Optional[int] = ..., sequence: _Optional[int] = ..., ack_tokens: _Optional[bytes] = ...) -> None: ...

class RelayReport(_message.Message):
    __slots__ = ("worker", "ack_token", "progress", "age_ms")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    worker: int
    ack_token: bytes
    progress: str
    age_ms: int
    def __init__(self, worker: _Optional[int] = ..., ack_token: _Optional[bytes] = ..., progress: _Optional[str] = ..., age_ms: _Optional[int] = ...) -> None: ...

class RelayResume(_message.Message):
    __slots__ = ("worker", "sequence", "ack_tokens", "holds_unknown")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    HOLDS_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    worker: int
    sequence: int
    ack_tokens: bytes
    holds_unknown: bool
    def __init__(self, worker: _Optional[int] = ..., sequence: _Optional[int] = ..., ack_tokens: _Optional[bytes] = ..., holds_unknown: bool = ...) -> None: ...

class RelayRelease(_message.Message):
    __slots__ = ("worker", "ack_tokens")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    worker: int
    ack_tokens: bytes
    def __init__(self, worker: _Optional[int] = ..., ack_tokens: _Optional[bytes] = ...) -> None: ...

class BytesWritten(_message.Message):
    __slots__ = ("worker", "size_bytes")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    worker: int
    size_bytes: int
    def __init__(self, worker: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class WorkerLeft(_message.Message):
    __slots__ = ("worker",)
    WORKER_FIELD_NUMBER: _ClassVar[int]
    worker: int
    def __init__(self, worker: _Optional[int] = ...) -> None: ...

class HomeLeaving(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AckLookedFor(_message.Message):
    __slots__ = ("delivery_id", "hold_ms")
    DELIVERY_ID_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    delivery_id: bytes
    hold_ms: int
    def __init__(self, delivery_id: _Optional[bytes] = ..., hold_ms: _Optional[int] = ...) -> None: ...

class RelayResponse(_message.Message):
    __slots__ = ("wanted", "deliver", "returned", "settled", "extended", "resumed", "moved", "interrupted")
    WANTED_FIELD_NUMBER: _ClassVar[int]
    DELIVER_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTED_FIELD_NUMBER: _ClassVar[int]
    wanted: CreditWanted
    deliver: RelayDeliver
    returned: CreditReturned
    settled: RelaySettled
    extended: RelayExtended
    resumed: RelayResumed
    moved: DeliveriesMoved
    interrupted: RelayInterrupt
    def __init__(self, wanted: _Optional[_Union[CreditWanted, _Mapping]] = ..., deliver: _Optional[_Union[RelayDeliver, _Mapping]] = ..., returned: _Optional[_Union[CreditReturned, _Mapping]] = ..., settled: _Optional[_Union[RelaySettled, _Mapping]] = ..., extended: _Optional[_Union[RelayExtended, _Mapping]] = ..., resumed: _Optional[_Union[RelayResumed, _Mapping]] = ..., moved: _Optional[_Union[DeliveriesMoved, _Mapping]] = ..., interrupted: _Optional[_Union[RelayInterrupt, _Mapping]] = ...) -> None: ...

class CreditWanted(_message.Message):
    __slots__ = ("namespace", "queue", "tasks", "order_key")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    ORDER_KEY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    tasks: int
    order_key: int
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., tasks: _Optional[int] = ..., order_key: _Optional[int] = ...) -> None: ...

class RelayDeliver(_message.Message):
    __slots__ = ("worker", "queue", "tasks", "response", "tokens_at", "size_bytes")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_AT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    worker: int
    queue: str
    tasks: int
    response: bytes
    tokens_at: int
    size_bytes: int
    def __init__(self, worker: _Optional[int] = ..., queue: _Optional[str] = ..., tasks: _Optional[int] = ..., response: _Optional[bytes] = ..., tokens_at: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class CreditReturned(_message.Message):
    __slots__ = ("worker", "queue", "tasks")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    worker: int
    queue: str
    tasks: int
    def __init__(self, worker: _Optional[int] = ..., queue: _Optional[str] = ..., tasks: _Optional[int] = ...) -> None: ...

class RelaySettled(_message.Message):
    __slots__ = ("sequence", "refused", "problem", "states")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    refused: _containers.RepeatedScalarFieldContainer[int]
    problem: _task_pb2.Problem
    states: _containers.RepeatedScalarFieldContainer[_task_pb2.TaskState]
    def __init__(self, sequence: _Optional[int] = ..., refused: _Optional[_Iterable[int]] = ..., problem: _Optional[_Union[_task_pb2.Problem, _Mapping]] = ..., states: _Optional[_Iterable[_Union[_task_pb2.TaskState, str]]] = ...) -> None: ...

class RelayExtended(_message.Message):
    __slots__ = ("sequence", "lost")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    lost: bytes
    def __init__(self, sequence: _Optional[int] = ..., lost: _Optional[bytes] = ...) -> None: ...

class RelayResumed(_message.Message):
    __slots__ = ("sequence", "adopted", "lost")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    adopted: bytes
    lost: bytes
    def __init__(self, sequence: _Optional[int] = ..., adopted: _Optional[bytes] = ..., lost: _Optional[bytes] = ...) -> None: ...

class DeliveriesMoved(_message.Message):
    __slots__ = ("worker", "ack_tokens")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    worker: int
    ack_tokens: bytes
    def __init__(self, worker: _Optional[int] = ..., ack_tokens: _Optional[bytes] = ...) -> None: ...

class RelayInterrupt(_message.Message):
    __slots__ = ("worker", "ack_tokens", "reason")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ACK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    worker: int
    ack_tokens: bytes
    reason: _work_service_pb2.InterruptReason
    def __init__(self, worker: _Optional[int] = ..., ack_tokens: _Optional[bytes] = ..., reason: _Optional[_Union[_work_service_pb2.InterruptReason, str]] = ...) -> None: ...
