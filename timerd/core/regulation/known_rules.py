"""What one instance knows of the rules of queues (rule Q2 of docs/understand/protocol.md).

Pure: what was read and heard goes in, what a queue may do comes out. Nothing is sent before all rules were read, and
again not from the moment at which the lease was lost until they were read anew: an instance that changed a rule
meanwhile did not wait for this one.
"""

from __future__ import annotations

from collections.abc import Mapping

from timerd.core.taken import QueueKey
from timerd.model.regulations import NO_RULES, Mode, Regulation

UNREAD = Regulation(mode=Mode.STOPPED)


class KnownRules:
    """`life` grows whenever what was known may be out of date; what was read in an earlier one does not count."""

    def __init__(self) -> None:
        self.life = 0
        self.is_read = self._was_read = False
        self._rules: dict[QueueKey, Regulation] = {}
        # Queues of which something was due before the rules were read.
        self._asked: set[QueueKey] = set()
        # Those that had rules at the first look.
        self._before: frozenset[QueueKey] = frozenset()

    @property
    def was_read(self) -> bool:
        """Whether the rules were ever read, and may be of before."""
        return self._was_read

    def of(self, queue: QueueKey) -> Regulation:
        return self._rules.get(queue, NO_RULES)

    def mode(self, queue: QueueKey, now_ms: int) -> Mode:
        rules = self._rules.get(queue)
        return Mode.RUNNING if rules is None else rules.mode_at(now_ms)

    def find(self, queue: QueueKey) -> Regulation | None:
        """By what the queue goes now; None: it has no rules, as most have."""
        if not self.is_read and not queue.is_internal:
            self._asked.add(queue)
            return UNREAD
        return self._rules.get(queue)

    def opens_ms(self, queue: QueueKey, now_ms: int) -> float:
        """When rows of the queue may be sent: `now_ms`, or later; infinite: when more is heard."""
        rules = self.find(queue)
        return now_ms if rules is None else rules.opens_ms(now_ms)

    def is_from_before(self, queue: QueueKey) -> bool:
        """Whether it had rules when this instance began."""
        return queue in self._before

    def heard(self, queue: QueueKey, rules: Regulation) -> bool:
        """From the instance that changed them. Whether they are news: what comes late changes nothing."""
        known = self._rules.get(queue, NO_RULES)
        if rules.revision <= known.revision:
            return False
        self._rules[queue] = rules
        return True

    def read(self, found: Mapping[QueueKey, Regulation], life: int) -> set[QueueKey]:
        """All rules, as they were read in that life. Returns the queues that may send now and could not before, and
        others."""
        if life != self.life:
            return set()
        news = {queue for queue, rules in found.items() if self.heard(queue, rules)}
        if not self.is_read:
            news |= self._asked
            self._asked.clear()
        if not self._was_read:
            self._before = frozenset(found)
        self.is_read = self._was_read = True
        return news

    def lapse(self) -> None:
        """The lease was lost: nothing is sent until all rules were read again."""
        self.life += 1
        self.is_read = False
