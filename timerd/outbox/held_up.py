"""Namespaces of which the server takes nothing for now, as the relay has no role there: they hold up no other.

A batch of such a namespace stays sealed, and is sent again now and then. Nothing more is sealed of the namespace until
the server has taken one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from timerd.sdk.values import TimerdError

# What a caller is refused in one namespace, and may be allowed in another.
_CODES = frozenset({"PERMISSION_DENIED"})


class HeldUp:
    """By name: why, and who waits for its end."""

    def __init__(self) -> None:
        self._why: dict[str, TimerdError] = {}
        self._over: dict[str, asyncio.Event] = {}

    def names(self) -> list[str]:
        return sorted(self._why)

    def why(self, namespace: str) -> TimerdError | None:
        return self._why.get(namespace)

    def heard(self, namespace: str, why: TimerdError | None) -> bool:
        """What the server said to a batch of the namespace; None: it was taken. Returns whether that changes it."""
        if why is not None and why.code in _CODES:
            was_held = namespace in self._why
            self._why[namespace] = why
            return not was_held
        if namespace not in self._why or (why is not None and why.code == "UNAVAILABLE"):
            return False
        del self._why[namespace]
        self._over.pop(namespace, asyncio.Event()).set()
        return True

    async def rest(self, namespace: str, pause_s: float) -> None:
        """Until the pause is over, or the namespace is free again."""
        if namespace not in self._why:
            return await asyncio.sleep(pause_s)
        over = self._over.setdefault(namespace, asyncio.Event())
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), pause_s)
        return None
