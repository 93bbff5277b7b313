"""What one instance knows of the rules of queues, and of limits with names (rule Q2 of docs/understand/protocol.md).

Pure: what was read and heard goes in, what a queue may do comes out. Nothing is sent before all rules were read, and
again not from the moment at which the lease was lost until they were read anew: an instance that changed a rule
meanwhile did not wait for this one.
"""

from __future__ import annotations

from collections.abc import Set

from timerd.core.regulation.changing import AllRules
from timerd.core.taken import QueueKey
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.ordering import OnFailure
from timerd.model.regulations import NO_RULES, Mode, Regulation

UNREAD = Regulation(mode=Mode.STOPPED)
_NOBODY: Set[QueueKey] = frozenset()


class KnownRules:
    """`life` grows whenever what was known may be out of date; what was read in an earlier one does not count. `news`
    grows with each rule that is another one than before."""

    def __init__(self) -> None:
        self.life = self.news = 0
        self.is_read = self._was_read = False
        self._rules: dict[QueueKey, Regulation] = {}
        self._limits: dict[LimitName, NamedLimit] = {}
        # Queues by the limits that they list.
        self._listed_by: dict[LimitName, set[QueueKey]] = {}
        # Queues of which something was due before the rules were read.
        self._asked: set[QueueKey] = set()
        # What there was at the first look.
        self._before = AllRules()

    @property
    def was_read(self) -> bool:
        """Whether the rules were ever read, and may be of before."""
        return self._was_read

    def of(self, queue: QueueKey) -> Regulation:
        return self._rules.get(queue, NO_RULES)

    def mode(self, queue: QueueKey, now_ms: int) -> Mode:
        rules = self._rules.get(queue)
        return Mode.RUNNING if rules is None else rules.mode_at(now_ms)

    def on_failure(self, queue: QueueKey) -> OnFailure:
        """What becomes of an ordering key of the queue when a task of it fails."""
        return self._rules.get(queue, NO_RULES).on_failure

    def find(self, queue: QueueKey) -> Regulation | None:
        """By what the queue goes now; None: it has no rules, as most have."""
        if not self.is_read and not queue.is_internal:
            self._asked.add(queue)
            return UNREAD
        return self._rules.get(queue)

    def limit(self, name: LimitName) -> NamedLimit | None:
        return self._limits.get(name)

    def limits(self) -> list[LimitName]:
        """Those that there are."""
        return [name for name, kept in self._limits.items() if kept.limit is not None]

    def counts_hands(self) -> bool:
        """Whether there is a limit of what is in hand."""
        limits = [rules.limit for rules in self._rules.values()]
        limits += [limit for kept in self._limits.values() for limit in kept.each()]
        if any(limit is not None and limit.max_in_hand for limit in limits):
            return True
        return any(rules.keys is not None and rules.keys.counts_hands() for rules in self._rules.values())

    def is_keyed(self, name: LimitName) -> bool:
        """Whether each limit key has the limit for itself."""
        kept = self._limits.get(name)
        return kept is not None and kept.limit is not None and kept.keyed and kept.is_understood

    def listed_by(self, name: LimitName) -> Set[QueueKey]:
        """The queues that list a limit."""
        return self._listed_by.get(name, _NOBODY)

    def opens_ms(self, queue: QueueKey, now_ms: int) -> float:
        """When rows of the queue may be sent: `now_ms`, or later; infinite: when more is heard."""
        rules = self.find(queue)
        return now_ms if rules is None else rules.opens_ms(now_ms)

    def is_from_before(self, queue: QueueKey) -> bool:
        """Whether it had rules when this instance began."""
        return queue in self._before.queues

    def was_there_before(self, name: LimitName) -> bool:
        """Whether there was such a limit when this instance began."""
        return name in self._before.limits

    def heard(self, queue: QueueKey, rules: Regulation) -> bool:
        """From the instance that changed them. Whether they are news: what comes late changes nothing."""
        known = self._rules.get(queue, NO_RULES)
        if rules.revision <= known.revision:
            return False
        self._rules[queue] = rules
        for name in known.limits:
            self._listed_by[LimitName(queue.namespace, name)].discard(queue)
        for name in rules.limits:
            self._listed_by.setdefault(LimitName(queue.namespace, name), set()).add(queue)
        self.news += 1
        return True

    def heard_limit(self, name: LimitName, kept: NamedLimit) -> bool:
        """As `heard`, of a limit with a name."""
        known = self._limits.get(name)
        if known is not None and kept.revision <= known.revision:
            return False
        self._limits[name] = kept
        self.news += 1
        return True

    def read(self, found: AllRules, life: int) -> set[QueueKey]:
        """All rules, as they were read in that life. Returns the queues that may send now and could not before, and
        others."""
        if life != self.life:
            return set()
        news = {queue for queue, rules in found.queues.items() if self.heard(queue, rules)}
        for name in [name for name, kept in found.limits.items() if self.heard_limit(name, kept)]:
            news |= self.listed_by(name)
        if not self.is_read:
            news |= self._asked
            self._asked.clear()
        if not self._was_read:
            self._before = found
        self.is_read = self._was_read = True
        return news

    def lapse(self) -> None:
        """The lease was lost: nothing is sent until all rules were read again."""
        self.life += 1
        self.is_read = False
