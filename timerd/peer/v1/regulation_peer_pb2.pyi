from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

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
