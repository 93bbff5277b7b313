"""A rate, by the generic cell rate algorithm: one number says all that was sent.

That number is the instant at which all of it would have been due at the rate (the theoretical arrival time). It counts
in parts of a millisecond of which `rate` make one, so nothing is ever rounded, however long it goes on.
"""

from __future__ import annotations

from timerd.model.regulations import QueueLimit


class RateLimit:
    """Of one queue. `is_full`: all of the burst may go at once at first, else none of it, as after a start: then what
    was sent before counts with what is sent from now on."""

    def __init__(self, limit: QueueLimit, now_ms: int, *, is_full: bool) -> None:
        self._rate, self._each, self._burst = limit.rate, limit.period_ms, limit.burst
        self._arrival = now_ms * self._rate + (0 if is_full else self._burst * self._each)

    def free(self, now_ms: int) -> int:
        """How many may go."""
        now = now_ms * self._rate
        ahead = max(self._arrival - now, 0)
        # More than a burst ahead is only a clock that was set back.
        return (self._burst * self._each - min(ahead, self._burst * self._each)) // self._each

    def sent(self, tasks: int, now_ms: int) -> None:
        now = now_ms * self._rate
        begun = min(max(self._arrival, now), now + self._burst * self._each)
        self._arrival = begun + tasks * self._each

    def next_ms(self, now_ms: int, tasks: int = 1) -> int:
        """When so many more may go, no more than the burst: `now_ms`, or later."""
        now = now_ms * self._rate
        ahead = min(self._arrival - now, self._burst * self._each) - (self._burst - tasks) * self._each
        return now_ms + max(0, -(-ahead // self._rate))

    def changed(self, limit: QueueLimit, now_ms: int) -> RateLimit:
        """By another rate or burst: what was sent counts on, to the task."""
        used = -(-max(self._arrival - now_ms * self._rate, 0) // self._each)
        fresh = RateLimit(limit, now_ms, is_full=True)
        fresh.sent(used, now_ms)
        return fresh
