from timerd.v1 import regulation_service_pb2 as _regulation_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TellRulesRequest(_message.Message):
    __slots__ = ("namespace", "queue", "rules")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    rules: bytes
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., rules: _Optional[bytes] = ...) -> None: ...

class TellRulesResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TellLimitRequest(_message.Message):
    __slots__ = ("namespace", "name", "limit")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    limit: bytes
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., limit: _Optional[bytes] = ...) -> None: ...

class TellLimitResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LentLimit(_message.Message):
    __slots__ = ("namespace", "queue", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Statement(_message.Message):
    __slots__ = ("sequence", "round", "permits", "moved", "lease_ms", "want")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    round: int
    permits: int
    moved: int
    lease_ms: int
    want: int
    def __init__(self, sequence: _Optional[int] = ..., round: _Optional[int] = ..., permits: _Optional[int] = ..., moved: _Optional[int] = ..., lease_ms: _Optional[int] = ..., want: _Optional[int] = ...) -> None: ...

class BorrowRequest(_message.Message):
    __slots__ = ("limit", "name", "incarnation", "token", "statement")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    limit: LentLimit
    name: str
    incarnation: int
    token: int
    statement: Statement
    def __init__(self, limit: _Optional[_Union[LentLimit, _Mapping]] = ..., name: _Optional[str] = ..., incarnation: _Optional[int] = ..., token: _Optional[int] = ..., statement: _Optional[_Union[Statement, _Mapping]] = ...) -> None: ...

class BorrowResponse(_message.Message):
    __slots__ = ("keeper", "token", "grant")
    KEEPER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    keeper: str
    token: int
    grant: Grant
    def __init__(self, keeper: _Optional[str] = ..., token: _Optional[int] = ..., grant: _Optional[_Union[Grant, _Mapping]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("permits", "most", "round", "lease_ms")
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    permits: int
    most: int
    round: int
    lease_ms: int
    def __init__(self, permits: _Optional[int] = ..., most: _Optional[int] = ..., round: _Optional[int] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class StateRequest(_message.Message):
    __slots__ = ("limit", "token", "round", "keeper")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KEEPER_FIELD_NUMBER: _ClassVar[int]
    limit: LentLimit
    token: int
    round: int
    keeper: str
    def __init__(self, limit: _Optional[_Union[LentLimit, _Mapping]] = ..., token: _Optional[int] = ..., round: _Optional[int] = ..., keeper: _Optional[str] = ...) -> None: ...

class StateResponse(_message.Message):
    __slots__ = ("incarnation", "statement")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    statement: Statement
    def __init__(self, incarnation: _Optional[int] = ..., statement: _Optional[_Union[Statement, _Mapping]] = ...) -> None: ...

class KeyStatement(_message.Message):
    __slots__ = ("limit", "limit_key", "permits", "moved", "want")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    limit: LentLimit
    limit_key: str
    permits: int
    moved: int
    want: int
    def __init__(self, limit: _Optional[_Union[LentLimit, _Mapping]] = ..., limit_key: _Optional[str] = ..., permits: _Optional[int] = ..., moved: _Optional[int] = ..., want: _Optional[int] = ...) -> None: ...

class KeysStatement(_message.Message):
    __slots__ = ("sequence", "round", "lease_ms", "whole", "keys")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    round: int
    lease_ms: int
    whole: bool
    keys: _containers.RepeatedCompositeFieldContainer[KeyStatement]
    def __init__(self, sequence: _Optional[int] = ..., round: _Optional[int] = ..., lease_ms: _Optional[int] = ..., whole: bool = ..., keys: _Optional[_Iterable[_Union[KeyStatement, _Mapping]]] = ...) -> None: ...

class BorrowKeysRequest(_message.Message):
    __slots__ = ("home", "name", "incarnation", "token", "statement")
    HOME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    home: int
    name: str
    incarnation: int
    token: int
    statement: KeysStatement
    def __init__(self, home: _Optional[int] = ..., name: _Optional[str] = ..., incarnation: _Optional[int] = ..., token: _Optional[int] = ..., statement: _Optional[_Union[KeysStatement, _Mapping]] = ...) -> None: ...

class BorrowKeysResponse(_message.Message):
    __slots__ = ("keeper", "token", "grant")
    KEEPER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    keeper: str
    token: int
    grant: KeysGrant
    def __init__(self, keeper: _Optional[str] = ..., token: _Optional[int] = ..., grant: _Optional[_Union[KeysGrant, _Mapping]] = ...) -> None: ...

class KeyGrant(_message.Message):
    __slots__ = ("limit", "limit_key", "permits", "most")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    limit: LentLimit
    limit_key: str
    permits: int
    most: int
    def __init__(self, limit: _Optional[_Union[LentLimit, _Mapping]] = ..., limit_key: _Optional[str] = ..., permits: _Optional[int] = ..., most: _Optional[int] = ...) -> None: ...

class KeysGrant(_message.Message):
    __slots__ = ("round", "lease_ms", "keys")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    round: int
    lease_ms: int
    keys: _containers.RepeatedCompositeFieldContainer[KeyGrant]
    def __init__(self, round: _Optional[int] = ..., lease_ms: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[KeyGrant, _Mapping]]] = ...) -> None: ...

class StateKeysRequest(_message.Message):
    __slots__ = ("home", "token", "round", "keeper")
    HOME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KEEPER_FIELD_NUMBER: _ClassVar[int]
    home: int
    token: int
    round: int
    keeper: str
    def __init__(self, home: _Optional[int] = ..., token: _Optional[int] = ..., round: _Optional[int] = ..., keeper: _Optional[str] = ...) -> None: ...

class StateKeysResponse(_message.Message):
    __slots__ = ("incarnation", "statement")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    statement: KeysStatement
    def __init__(self, incarnation: _Optional[int] = ..., statement: _Optional[_Union[KeysStatement, _Mapping]] = ...) -> None: ...

class DrawRequest(_message.Message):
    __slots__ = ("limit", "name", "want", "hold_ms")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    limit: LentLimit
    name: str
    want: int
    hold_ms: int
    def __init__(self, limit: _Optional[_Union[LentLimit, _Mapping]] = ..., name: _Optional[str] = ..., want: _Optional[int] = ..., hold_ms: _Optional[int] = ...) -> None: ...

class DrawResponse(_message.Message):
    __slots__ = ("keeper", "grant")
    KEEPER_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    keeper: str
    grant: TokenGrant
    def __init__(self, keeper: _Optional[str] = ..., grant: _Optional[_Union[TokenGrant, _Mapping]] = ...) -> None: ...

class TokenGrant(_message.Message):
    __slots__ = ("tokens", "after_ms", "again_ms")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    AGAIN_MS_FIELD_NUMBER: _ClassVar[int]
    tokens: int
    after_ms: int
    again_ms: int
    def __init__(self, tokens: _Optional[int] = ..., after_ms: _Optional[int] = ..., again_ms: _Optional[int] = ...) -> None: ...

class DrawKeysRequest(_message.Message):
    __slots__ = ("home", "name", "keys")
    HOME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    home: int
    name: str
    keys: _containers.RepeatedCompositeFieldContainer[KeyDraw]
    def __init__(self, home: _Optional[int] = ..., name: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[KeyDraw, _Mapping]]] = ...) -> None: ...

class KeyDraw(_message.Message):
    __slots__ = ("limit", "limit_key", "want", "hold_ms")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    limit: LentLimit
    limit_key: str
    want: int
    hold_ms: int
    def __init__(self, limit: _Optional[_Union[LentLimit, _Mapping]] = ..., limit_key: _Optional[str] = ..., want: _Optional[int] = ..., hold_ms: _Optional[int] = ...) -> None: ...

class DrawKeysResponse(_message.Message):
    __slots__ = ("keeper", "grants")
    KEEPER_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    keeper: str
    grants: TokenGrants
    def __init__(self, keeper: _Optional[str] = ..., grants: _Optional[_Union[TokenGrants, _Mapping]] = ...) -> None: ...

class TokenGrants(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[TokenGrant]
    def __init__(self, keys: _Optional[_Iterable[_Union[TokenGrant, _Mapping]]] = ...) -> None: ...

class ListKeptRequest(_message.Message):
    __slots__ = ("namespace", "queue", "limit")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    limit: int
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListKeptResponse(_message.Message):
    __slots__ = ("keys", "halted")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    HALTED_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[_regulation_service_pb2.OrderingKey]
    halted: int
    def __init__(self, keys: _Optional[_Iterable[_Union[_regulation_service_pb2.OrderingKey, _Mapping]]] = ..., halted: _Optional[int] = ...) -> None: ...

class FindBeforeRequest(_message.Message):
    __slots__ = ("namespace", "queue", "ordering_key", "digest")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    ordering_key: str
    digest: bytes
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., ordering_key: _Optional[str] = ..., digest: _Optional[bytes] = ...) -> None: ...

class FindBeforeResponse(_message.Message):
    __slots__ = ("task_id", "halted")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    HALTED_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    halted: bool
    def __init__(self, task_id: _Optional[str] = ..., halted: bool = ...) -> None: ...
