from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Known(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KNOWN_UNSPECIFIED: _ClassVar[Known]
    KNOWN_WAITING: _ClassVar[Known]
    KNOWN_OPEN: _ClassVar[Known]
    KNOWN_ENDED: _ClassVar[Known]
    KNOWN_UNKNOWN: _ClassVar[Known]

class OfferAnswer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OFFER_ANSWER_UNSPECIFIED: _ClassVar[OfferAnswer]
    OFFER_ANSWER_NOT_HELD: _ClassVar[OfferAnswer]
    OFFER_ANSWER_ADOPTED: _ClassVar[OfferAnswer]
    OFFER_ANSWER_ALREADY_HAVE: _ClassVar[OfferAnswer]
    OFFER_ANSWER_BELOW_FLOOR: _ClassVar[OfferAnswer]
    OFFER_ANSWER_NOT_NOW: _ClassVar[OfferAnswer]
KNOWN_UNSPECIFIED: Known
KNOWN_WAITING: Known
KNOWN_OPEN: Known
KNOWN_ENDED: Known
KNOWN_UNKNOWN: Known
OFFER_ANSWER_UNSPECIFIED: OfferAnswer
OFFER_ANSWER_NOT_HELD: OfferAnswer
OFFER_ANSWER_ADOPTED: OfferAnswer
OFFER_ANSWER_ALREADY_HAVE: OfferAnswer
OFFER_ANSWER_BELOW_FLOOR: OfferAnswer
OFFER_ANSWER_NOT_NOW: OfferAnswer

class Partition(_message.Message):
    __slots__ = ("scope", "bucket_start_ms", "shard")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    BUCKET_START_MS_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    scope: int
    bucket_start_ms: int
    shard: int
    def __init__(self, scope: _Optional[int] = ..., bucket_start_ms: _Optional[int] = ..., shard: _Optional[int] = ...) -> None: ...

class Holding(_message.Message):
    __slots__ = ("partition", "holder", "fencing_token")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    partition: Partition
    holder: str
    fencing_token: int
    def __init__(self, partition: _Optional[_Union[Partition, _Mapping]] = ..., holder: _Optional[str] = ..., fencing_token: _Optional[int] = ...) -> None: ...

class RowKey(_message.Message):
    __slots__ = ("position_ms", "digest", "version")
    POSITION_MS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    position_ms: int
    digest: bytes
    version: int
    def __init__(self, position_ms: _Optional[int] = ..., digest: _Optional[bytes] = ..., version: _Optional[int] = ...) -> None: ...

class Rows(_message.Message):
    __slots__ = ("partition", "keys", "payloads", "source")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    partition: Partition
    keys: bytes
    payloads: bytes
    source: int
    def __init__(self, partition: _Optional[_Union[Partition, _Mapping]] = ..., keys: _Optional[bytes] = ..., payloads: _Optional[bytes] = ..., source: _Optional[int] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("known", "outcome", "request")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    known: Known
    outcome: int
    request: bytes
    def __init__(self, known: _Optional[_Union[Known, str]] = ..., outcome: _Optional[int] = ..., request: _Optional[bytes] = ...) -> None: ...

class HintRequest(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Rows]
    def __init__(self, rows: _Optional[_Iterable[_Union[Rows, _Mapping]]] = ...) -> None: ...

class HintResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OfferRequest(_message.Message):
    __slots__ = ("holding", "rows", "is_repeat")
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    IS_REPEAT_FIELD_NUMBER: _ClassVar[int]
    holding: Holding
    rows: Rows
    is_repeat: bool
    def __init__(self, holding: _Optional[_Union[Holding, _Mapping]] = ..., rows: _Optional[_Union[Rows, _Mapping]] = ..., is_repeat: bool = ...) -> None: ...

class OfferResponse(_message.Message):
    __slots__ = ("answer",)
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    answer: OfferAnswer
    def __init__(self, answer: _Optional[_Union[OfferAnswer, str]] = ...) -> None: ...

class EndedRow(_message.Message):
    __slots__ = ("key", "outcome", "request", "lease_until_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    key: RowKey
    outcome: int
    request: bytes
    lease_until_ms: int
    def __init__(self, key: _Optional[_Union[RowKey, _Mapping]] = ..., outcome: _Optional[int] = ..., request: _Optional[bytes] = ..., lease_until_ms: _Optional[int] = ...) -> None: ...

class AskToEndRequest(_message.Message):
    __slots__ = ("holding", "rows")
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    holding: Holding
    rows: _containers.RepeatedCompositeFieldContainer[EndedRow]
    def __init__(self, holding: _Optional[_Union[Holding, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[EndedRow, _Mapping]]] = ...) -> None: ...

class AskToEndResponse(_message.Message):
    __slots__ = ("held", "answers")
    HELD_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    held: bool
    answers: _containers.RepeatedCompositeFieldContainer[Answer]
    def __init__(self, held: bool = ..., answers: _Optional[_Iterable[_Union[Answer, _Mapping]]] = ...) -> None: ...

class AskToMoveRequest(_message.Message):
    __slots__ = ("holding", "keys")
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    holding: Holding
    keys: _containers.RepeatedCompositeFieldContainer[RowKey]
    def __init__(self, holding: _Optional[_Union[Holding, _Mapping]] = ..., keys: _Optional[_Iterable[_Union[RowKey, _Mapping]]] = ...) -> None: ...

class AskToMoveResponse(_message.Message):
    __slots__ = ("held", "answers")
    HELD_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    held: bool
    answers: _containers.RepeatedCompositeFieldContainer[Answer]
    def __init__(self, held: bool = ..., answers: _Optional[_Iterable[_Union[Answer, _Mapping]]] = ...) -> None: ...

class LookedAtRow(_message.Message):
    __slots__ = ("key", "lease_until_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    key: RowKey
    lease_until_ms: int
    def __init__(self, key: _Optional[_Union[RowKey, _Mapping]] = ..., lease_until_ms: _Optional[int] = ...) -> None: ...

class LookRequest(_message.Message):
    __slots__ = ("holding", "rows")
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    holding: Holding
    rows: _containers.RepeatedCompositeFieldContainer[LookedAtRow]
    def __init__(self, holding: _Optional[_Union[Holding, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[LookedAtRow, _Mapping]]] = ...) -> None: ...

class LookResponse(_message.Message):
    __slots__ = ("held", "in_hand", "may_return")
    HELD_FIELD_NUMBER: _ClassVar[int]
    IN_HAND_FIELD_NUMBER: _ClassVar[int]
    MAY_RETURN_FIELD_NUMBER: _ClassVar[int]
    held: bool
    in_hand: _containers.RepeatedScalarFieldContainer[bool]
    may_return: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, held: bool = ..., in_hand: _Optional[_Iterable[bool]] = ..., may_return: _Optional[_Iterable[bool]] = ...) -> None: ...

class RecheckRequest(_message.Message):
    __slots__ = ("partition", "digests")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    partition: Partition
    digests: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, partition: _Optional[_Union[Partition, _Mapping]] = ..., digests: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RecheckResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HandOverRequest(_message.Message):
    __slots__ = ("partitions", "controls")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONTROLS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    controls: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., controls: _Optional[_Iterable[bytes]] = ...) -> None: ...

class HandOverResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadClockRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadClockResponse(_message.Message):
    __slots__ = ("engine_time_ms",)
    ENGINE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    engine_time_ms: float
    def __init__(self, engine_time_ms: _Optional[float] = ...) -> None: ...

class AskForEndsRequest(_message.Message):
    __slots__ = ("instance", "digests")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    digests: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, instance: _Optional[str] = ..., digests: _Optional[_Iterable[bytes]] = ...) -> None: ...

class AskForEndsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TellEndsRequest(_message.Message):
    __slots__ = ("digests",)
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    digests: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, digests: _Optional[_Iterable[bytes]] = ...) -> None: ...

class TellEndsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
