"""What lets nothing of a queue go for a while: its mode, or a limit that is held since a handler was throttled, a
breaker, or that its target bears no more now."""

from __future__ import annotations

from collections.abc import Sequence

from timerd.core.dispatch import Limit
from timerd.core.regulation.adaptive_limits import AdaptiveLimits
from timerd.core.regulation.breakers import Breakers
from timerd.core.regulation.holds import Holds
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.limits import HeldBack
from timerd.core.taken import QueueKey


class Standstills:
    """Of one instance."""

    def __init__(self, known: KnownRules, breakers: Breakers, adaptive: AdaptiveLimits) -> None:
        self._known = known
        self.holds = Holds(known)
        self.breakers = breakers
        self.adaptive = adaptive
        # Any queue may be held, also one without rules.
        self.by_rules: Sequence[Limit] = (breakers, adaptive)

    def opens_ms(self, queue: QueueKey, now_ms: int) -> float:
        """When rows of the queue may be sent: `now_ms`, or later; infinite: when more is heard."""
        held = self.held_back(queue, now_ms)
        opens_ms = self._known.opens_ms(queue, now_ms)
        return opens_ms if held is None else max(opens_ms, held.until_ms)

    def held_back(self, queue: QueueKey, now_ms: int) -> HeldBack | None:
        """By what is no rule. None: by nothing."""
        found = [each.held_back(queue, now_ms) for each in (self.holds, self.breakers, self.adaptive)]
        return max((each for each in found if each is not None), default=None)
