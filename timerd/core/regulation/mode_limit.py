"""A queue that is paused or stopped sends nothing: one look-up a slice, of all queues.

It is a limit and not a gate: a gate would take each due row out of its run to put it back, again and again, and a limit
leaves all of them where they are.
"""

from __future__ import annotations

from timerd.core.dispatch import Allowance, Slice
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.taken import QueueKey


class ModeLimit:
    """Implements core.dispatch.Limit."""

    def __init__(self, known: KnownRules) -> None:
        self._known = known

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        opens_ms = self._known.opens_ms(queue, now_ms)
        return Allowance(tasks if opens_ms <= now_ms else 0, opens_ms)

    def sent(self, sent: Slice) -> float:
        return sent.now_ms

    def forget(self, queue: QueueKey) -> None:
        """Rules hold whether there are workers or not."""
