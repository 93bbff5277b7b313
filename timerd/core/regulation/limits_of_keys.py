"""By what a limit key goes that has limits for itself: the rules of its queue, and those with a name that it lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from timerd.core.regulation.holds import labels_of
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitedKey, LimitLabels
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.regulations import KeyRules, QueueLimit, part_of


class _OfKeys(NamedTuple):
    """What a limit allows each key, made of `rules`; `own`: of keys that have another limit than the others."""

    rules: object
    limit: QueueLimit | None
    own: dict[str, QueueLimit | None]


class LimitsOfKeys:
    """Where several instances send by them."""

    def __init__(self, known: KnownRules) -> None:
        self._known = known
        self._made: dict[LimitLabels, _OfKeys] = {}

    def of(self, queue: QueueKey, limit_key: str) -> Iterator[LimitedKey]:
        """By what a limit key of the queue goes, or would go. Tasks without one are no customer's."""
        for limit in ("", *self._known.of(queue).limits) if limit_key else ():
            yield LimitedKey(labels_of(queue, limit), limit_key)

    def limit_of(self, key: LimitedKey) -> QueueLimit | None:
        """None: the key has no such limit for itself, or nobody knows it."""
        of_keys = self._of_keys(key.limit)
        return of_keys.own.get(key.limit_key, of_keys.limit) if of_keys is not None else None

    def most_of(self, key: LimitedKey) -> int:
        """How many may be in hand; 0: any number, or nobody knows such a limit."""
        limit = self.limit_of(key)
        own = limit.max_in_hand if limit is not None else 0
        share = self.share(QueueKey(key.limit.namespace, key.limit.queue)) if key.limit.queue else 0
        return min(own or share, share or own)

    def share(self, queue: QueueKey) -> int:
        """How many a key may have of what the queue may have in hand; 0: any number, for nobody counts the slots of all
        instances."""
        rules = self._known.of(queue)
        whole = rules.limit.max_in_hand if rules.limit is not None else 0
        share = rules.keys.share if rules.keys is not None else 1
        return part_of(share, whole) if share < 1 and whole else 0

    def queues(self, limit: LimitLabels) -> Collection[QueueKey]:
        """Whose tasks count for it."""
        if limit.queue:
            return (QueueKey(limit.namespace, limit.queue),)
        return self._known.listed_by(LimitName(limit.namespace, limit.limit))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _of_keys(self, limit: LimitLabels) -> _OfKeys | None:
        """None: it is none of keys."""
        rules, found = self._rules(limit), self._made.get(limit)
        if rules is None:
            return None
        if found is None or found.rules is not rules:
            found = self._made[limit] = _OfKeys(rules, rules.limit, dict(rules.overrides))
        return found

    def _rules(self, limit: LimitLabels) -> KeyRules | NamedLimit | None:
        if limit.queue:
            return self._known.of(QueueKey(limit.namespace, limit.queue)).keys
        name = LimitName(limit.namespace, limit.limit)
        return self._known.limit(name) if self._known.is_keyed(name) else None
