"""What the caller of this call may do. Where the server asks nobody who calls there is none, and everything is allowed.

A call names its namespace in its message, a stream in those that come later: so services ask here as soon as they know
it. What a stream goes on by (`keep`) is judged again when the principals change.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from timerd.model.errors import Unauthenticated
from timerd.services.transport.principals import Principal

Allow = Callable[[Principal, str | None, str | None], None]


class Permission:
    """Of one call. `caller` finds who it is, as of now; `allow` raises Denied."""

    def __init__(self, caller: Callable[[], Principal | None], allow: Allow) -> None:
        self.caller = caller
        self._allow = allow
        # In the order in which they were asked for.
        self._kept: dict[tuple[str | None, str | None], None] = {}

    def check(self, namespace: str | None, queue: str | None = None) -> None:
        """Raises Unauthenticated or Denied. None as a namespace: the server as a whole; as a queue: whichever."""
        caller = self.caller()
        if caller is None:
            raise Unauthenticated(
                "This server asks who calls, and it does not know this caller: show a token (`token=`, --token-file) "
                "or the client certificate that was agreed on.",
                "UNAUTHENTICATED",
            )
        self._allow(caller, namespace, queue)

    def keep(self, namespace: str | None, queue: str | None = None) -> None:
        """As `check`; what is kept already was judged, and is again when the principals change."""
        if (namespace, queue) not in self._kept:
            self.check(namespace, queue)
            self._kept[namespace, queue] = None

    def check_kept(self) -> None:
        """Whether the call may go on."""
        for namespace, queue in self._kept:
            self.check(namespace, queue)


_THIS: ContextVar[Permission | None] = ContextVar("permission", default=None)


def enter(permission: Permission) -> None:
    """From here on the call is judged by it, with all that it starts."""
    _THIS.set(permission)


def caller_name() -> str:
    """Who calls; empty where the server asks nobody."""
    permission = _THIS.get()
    caller = permission.caller() if permission is not None else None
    return caller.name if caller is not None else ""


def check_namespace(namespace: str) -> None:
    """Raises Unauthenticated or Denied where the caller has no role in this namespace."""
    if (permission := _THIS.get()) is not None:
        permission.check(namespace)


def keep_queue(namespace: str, queue: str | None) -> None:
    """As `check_namespace`, for as long as the stream is open. `queue` None: whichever."""
    if (permission := _THIS.get()) is not None:
        permission.keep(namespace, queue)


__all__ = ["Allow", "Permission", "caller_name", "check_namespace", "enter", "keep_queue"]
