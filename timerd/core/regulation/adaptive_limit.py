"""How many deliveries of a queue may be in hand, found out by what its target shows.

One more is let go after each window in which as many succeeded as may be in hand, while most of them were used: else a
quiet night would let the next morning in at once. Three in ten less are let go as soon as the target says that it is
too much: an answer to wait, an attempt out of time, or one in ten that took longer than it should. What was sent before
that says nothing of afterwards: one overload is one step down.

Times of single jobs are compared with a target, never with each other: jobs differ by their kind, not by the load.
"""

from __future__ import annotations

from enum import Enum, auto

from timerd.model.regulations import AdaptiveRules

# A window has as many successes as may be in hand, and at least so many.
LEAST_SUCCESSES = 10
# Of what may be in hand, so much has to be used.
USED = 0.8
LESS = 0.7
# So much of a window is to be within the target.
WITHIN = 0.9


class Sign(Enum):
    """What the end of an attempt says of the load. FAILED: how long it took, no more. NOTHING: another one has it."""

    GOOD = auto()
    FAILED = auto()
    TOO_MUCH = auto()
    NOTHING = auto()


class AdaptiveLimit:
    """Of one queue, from its floor up. What was sent by `now_ms` does not count."""

    def __init__(self, rules: AdaptiveRules, now_ms: int) -> None:
        self.rules = rules
        self.tasks = rules.floor
        # How often it became less.
        self.decreases = 0
        # What was sent later decides.
        self._since_ms = now_ms
        # Of this window: successes, all that have ended and how long they took, and how many were in hand at most.
        self._good = self._ended = 0
        self._took_ms: list[tuple[int, int]] = []
        self._most = 0

    def go_by(self, rules: AdaptiveRules) -> None:
        """By these bounds from now on."""
        if rules != self.rules:
            self.rules = rules
            self.tasks = min(max(self.tasks, rules.floor), rules.ceiling)

    def room(self, in_hand: int) -> int:
        """How many more may go."""
        return max(0, self.tasks - in_hand)

    def begun(self, in_hand: int) -> None:
        """With these so many are in hand."""
        self._most = max(self._most, in_hand)

    def ended(self, sign: Sign, tasks: int, sent_ms: int, now_ms: int) -> None:
        """So many that were sent then."""
        if sent_ms <= self._since_ms or sign is Sign.NOTHING:
            return
        if sign is Sign.TOO_MUCH:
            self._less(now_ms)
            return
        self._good += tasks if sign is Sign.GOOD else 0
        self._ended += tasks
        self._took_ms.append((now_ms - sent_ms, tasks))
        window = max(self.tasks, LEAST_SUCCESSES)
        # One in which most fail has to end as well.
        if self._good >= window or self._ended >= 2 * window:
            self._look(now_ms, is_good=self._good >= window)

    def _look(self, now_ms: int, *, is_good: bool) -> None:
        """The window is over."""
        if self.rules.target_ms and self._within_ms() > self.rules.target_ms:
            self._less(now_ms)
            return
        if is_good and self._most >= USED * self.tasks:
            self.tasks = min(self.rules.ceiling, self.tasks + 1)
        self._begin()

    def _within_ms(self) -> int:
        """How long nine of ten took at most."""
        left = WITHIN * self._ended
        for took_ms, tasks in sorted(self._took_ms):
            left -= tasks
            if left <= 0:
                return took_ms
        return 0

    def _less(self, now_ms: int) -> None:
        self.decreases += 1
        self.tasks = max(self.rules.floor, int(self.tasks * LESS))
        self._since_ms = now_ms
        self._begin()

    def _begin(self) -> None:
        self._good = self._ended = self._most = 0
        self._took_ms.clear()
