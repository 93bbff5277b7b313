"""What one instance of a cluster may start by the rates of its limits: as much as it has drawn tokens for."""

from __future__ import annotations

import math
from collections.abc import Callable

from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.tokens import DrawnTokens
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitLabels
from timerd.model.named_limits import LimitName
from timerd.model.regulations import QueueLimit


class LentRate:
    """Of one limit, in the place of a `RateLimit`: it is asked by engine time, and its tokens go by the boot clock."""

    def __init__(self, tokens: DrawnTokens, boot_ms: Callable[[], float]) -> None:
        self._tokens = tokens
        self._boot_ms = boot_ms

    def free(self, now_ms: int) -> int:
        return self._tokens.free(self._boot_ms())

    def sent(self, tasks: int, now_ms: int) -> None:
        self._tokens.use(tasks, self._boot_ms())

    def next_ms(self, now_ms: int) -> float:
        """Infinite: when the keeper has answered."""
        boot_ms = self._boot_ms()
        if self._tokens.free(boot_ms):
            return now_ms
        begins_ms = self._tokens.begins_ms(boot_ms)
        return begins_ms if begins_ms == math.inf else now_ms + max(1, math.ceil(begins_ms - boot_ms))

    @property
    def counted(self) -> tuple[int, int]:
        """How many tokens were drawn so far, and how many of them have lapsed."""
        return self._tokens.drawn, self._tokens.lapsed

    def changed(self, limit: QueueLimit, now_ms: int) -> LentRate:
        """What was drawn may be used; it lapses in a second."""
        return self


class LentRates:
    """Of one instance. `due`: how many tasks of a queue are due here, or soon will be, and were not sent. `boot_ms`: a
    clock that is never set. `ask` is told of limits whose keeper is to be called."""

    def __init__(self, known: KnownRules, due: Callable[[QueueKey], int], boot_ms: Callable[[], float]) -> None:
        self._known = known
        self._due = due
        self.boot_ms = boot_ms
        self._ask: Callable[[LimitLabels], None] = lambda _: None
        self._is_leaving = False
        self.drawn: dict[LimitLabels, DrawnTokens] = {}

    def on_want(self, ask: Callable[[LimitLabels], None]) -> None:
        self._ask = ask

    def of(self, labels: LimitLabels) -> DrawnTokens:
        found = self.drawn.get(labels)
        if found is None:
            found = self.drawn[labels] = DrawnTokens()
        return found

    def rate(self, labels: LimitLabels) -> LentRate:
        return LentRate(self.of(labels), self.boot_ms)

    def want(self, labels: LimitLabels) -> None:
        """Something is held back, by this limit alone."""
        if not self._is_leaving:
            tokens = self.of(labels)
            tokens.wants = True
            self._call(labels, tokens)

    def asks(self, labels: LimitLabels) -> int:
        """How many to draw now."""
        queues = (
            (QueueKey(labels.namespace, labels.queue),)
            if labels.queue
            else self._known.listed_by(LimitName(labels.namespace, labels.limit))
        )
        return self.of(labels).want(sum(map(self._due, queues)))

    def coming(self, labels: LimitLabels) -> int:
        """How many may start by it now, or when their tokens begin."""
        return self.of(labels).coming(self.boot_ms())

    def hold(self, labels: LimitLabels, for_ms: int) -> None:
        """A handler was throttled by it: its keeper is to hold all instances."""
        tokens = self.of(labels)
        tokens.hold(self.boot_ms() + for_ms)
        self._call(labels, tokens)

    def lapse(self) -> None:
        """The lease was lost."""
        for each in self.drawn.values():
            each.lapse()

    def leave(self) -> None:
        """Nothing is sent any more."""
        self._is_leaving = True
        self.lapse()

    def to_call(self) -> list[LimitLabels]:
        """Those whose keeper is to be called."""
        now_ms = self.boot_ms()
        return [labels for labels, each in self.drawn.items() if each.is_due(now_ms)]

    def _call(self, labels: LimitLabels, tokens: DrawnTokens) -> None:
        if tokens.is_due(self.boot_ms()):
            self._ask(labels)
