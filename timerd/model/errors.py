"""Errors by what a caller may conclude: not stored, or unknown (guarantee G2)."""

from __future__ import annotations

from collections.abc import Collection


class TimerdError(Exception):
    """Says in a sentence what was wrong, what is allowed and what to do."""


class StartupError(TimerdError):
    """The server cannot start as asked."""


class NotStored(TimerdError):
    """Nothing was written. `reason` is the ErrorInfo reason; `code` the name of the gRPC status. `only_this_try`: it
    was said before it was known whether an earlier try of the call had stored anything."""

    code = "FAILED_PRECONDITION"
    only_this_try = False

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
    only_this_try = True
    code = "UNAUTHENTICATED"


class Denied(NotStored):
    only_this_try = True
    code = "PERMISSION_DENIED"


class NotFound(NotStored):
    code = "NOT_FOUND"


class AlreadyExists(NotStored):
    code = "ALREADY_EXISTS"


class Precondition(NotStored):
    code = "FAILED_PRECONDITION"


class QueueShut(Precondition):
    """The rules of the queue take no tasks in now. A repeat of a call that was stored is answered all the same."""


class Aborted(NotStored):
    code = "ABORTED"


class Overtaken(NotStored):
    """A call that was made later was carried out, which this one would undo."""

    code = "ABORTED"


class Overloaded(NotStored):
    only_this_try = True
    code = "RESOURCE_EXHAUSTED"


class QuotaExceeded(Overloaded):
    """A namespace has scheduled as much as it may. A repeat of a call that was stored is answered all the same."""

    only_this_try = False


class Unavailable(NotStored):
    """Nothing was stored because the service cannot take it in now (store down, clock not trusted, draining)."""

    code = "UNAVAILABLE"
    only_this_try = True


class StoreUnavailable(Unavailable):
    """The store refused before writing anything."""


class StoreUnknown(TimerdError):
    """The store did not say whether it wrote. Repeating is safe; concluding is not."""


class HolderBusy(StoreUnknown):
    """Who holds a row has not said in time what became of it. Its sentence is for callers: what was asked goes on with
    a repeat."""


class CorruptRow(TimerdError):
    """Something stored does not match its checksum: its bytes are never delivered."""

    consequence = "What it holds is not delivered; everything else is."


class NotUnderstood(TimerdError):
    """Something stored was written by a later release in a form that this one must not guess at: an instance of that
    release reads it. `lacks` names what this one would have to understand."""

    def __init__(self, what: str, lacks: Collection[str]) -> None:
        self.lacks = frozenset(lacks)
        super().__init__(
            f"{what} was written by a later release of timerd and needs what this one does not understand "
            f"({', '.join(sorted(lacks))}): it waits for an instance that does, so upgrade this one."
        )


class CorruptMarks(CorruptRow):
    """What marks say is not known, so their rows count as if they had none."""

    consequence = "What was cancelled, purged or acknowledged by it may be delivered."
