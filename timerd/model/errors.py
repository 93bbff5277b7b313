"""Errors by what a caller may conclude: not stored, or unknown (guarantee G2)."""

from __future__ import annotations


class TimerdError(Exception):
    """Says in a sentence what was wrong, what is allowed and what to do."""


class StartupError(TimerdError):
    """The server cannot start as asked."""


class NotStored(TimerdError):
    """Nothing was written. `reason` is the ErrorInfo reason; `code` the name of the gRPC status."""

    code = "FAILED_PRECONDITION"

    def __init__(self, message: str, reason: str, *, field: str = "", retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.reason = reason
        self.field = field
        self.retry_after_ms = retry_after_ms


class Invalid(NotStored):
    code = "INVALID_ARGUMENT"

    def __init__(self, message: str, field: str, reason: str = "INVALID") -> None:
        super().__init__(message, reason, field=field)


class Unauthenticated(NotStored):
    code = "UNAUTHENTICATED"


class Denied(NotStored):
    code = "PERMISSION_DENIED"


class NotFound(NotStored):
    code = "NOT_FOUND"


class AlreadyExists(NotStored):
    code = "ALREADY_EXISTS"


class Precondition(NotStored):
    code = "FAILED_PRECONDITION"


class Aborted(NotStored):
    code = "ABORTED"


class Overloaded(NotStored):
    code = "RESOURCE_EXHAUSTED"


class Unavailable(NotStored):
    """Nothing was stored because the service cannot take it in now (store down, clock not trusted, draining)."""

    code = "UNAVAILABLE"


class StoreUnavailable(Unavailable):
    """The store refused before writing anything."""


class StoreUnknown(TimerdError):
    """The store did not say whether it wrote. Repeating is safe; concluding is not."""


class CorruptRow(TimerdError):
    """Something stored does not match its checksum: its bytes are never delivered."""

    consequence = "What it holds is not delivered; everything else is."


class CorruptMarks(CorruptRow):
    """What marks say is not known, so their rows count as if they had none."""

    consequence = "What was cancelled, purged or acknowledged by it may be delivered."
