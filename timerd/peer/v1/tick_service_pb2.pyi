from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class WorkTickRequest(_message.Message):
    __slots__ = ("tick", "backfill_tick")
    TICK_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_TICK_FIELD_NUMBER: _ClassVar[int]
    tick: bytes
    backfill_tick: bytes
    def __init__(self, tick: _Optional[bytes] = ..., backfill_tick: _Optional[bytes] = ...) -> None: ...

class WorkTickResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...
