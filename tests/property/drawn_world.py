"""Three instances that draw the tokens of one rate, in a world where calls are late or lost, clocks show different
times, and keepers stand still, die and leave."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from timerd.core.regulation import DrawnTokens, TokenGrant, TokenKeeper
from timerd.model.regulations import QueueLimit

NAMES = ("a", "b", "c")
PROMISE_MS = 1_000
STEP_MS = 5
FAULTY = (0.0, 0.001, 0.004)


class Judge:
    """A bucket that holds the burst and what the rate gives in a second: it runs over where in some window more has
    started than is promised."""

    def __init__(self, limit: QueueLimit) -> None:
        self.limit, self.level, self._at_ms = limit, Fraction(0), 0

    def started(self, tasks: int, now_ms: int) -> None:
        each = Fraction(self.limit.rate, self.limit.period_ms)
        self.level = max(Fraction(0), self.level - each * (now_ms - self._at_ms)) + tasks
        self._at_ms = now_ms
        most = self.limit.burst + each * PROMISE_MS
        assert self.level <= most, f"{float(self.level)} are above the rate, and {float(most)} may be"


@dataclass
class Instance:
    """`ahead_ms`: what its clock shows more than another. `due`: how many of its tasks wait."""

    name: str
    ahead_ms: int
    tokens: DrawnTokens
    due: int = 0
    starts: int = 0
    is_calling: bool = False


@dataclass
class Kept:
    name: str
    keeper: TokenKeeper
    # It stands still until then, or does not know that it was succeeded.
    frozen_ms: int = 0


class World:
    """`late_ms`: how long a message may take. `demand`: how many tasks fall due at each instance in a second."""

    def __init__(
        self,
        seed: int,
        limit: QueueLimit,
        demand: dict[str, int],
        late_ms: int = 30,
        keeper: type[TokenKeeper] = TokenKeeper,
        tokens: type[DrawnTokens] = DrawnTokens,
        trusts_all: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.now_ms, self.limit = 1_000, limit
        self._demand, self._late_ms, self._keeper = demand, late_ms, keeper
        self._trusts_all = trusts_all
        self.faulty = FAULTY[seed % len(FAULTY)]
        self.instances = {name: Instance(name, self.random.randrange(10**6), tokens()) for name in demand}
        self.kept = self._made("a", is_first=True)
        # T4: those that were succeeded; they would still answer.
        self.ghosts: list[Kept] = []
        self.judge = Judge(limit)
        self.changes = 0
        self._messages: list[tuple[int, int, Callable[[], None]]] = []

    def turn(self) -> None:
        self.now_ms += STEP_MS
        while self._messages and self._messages[0][0] <= self.now_ms:
            heapq.heappop(self._messages)[2]()
        for each in self.instances.values():
            each.due += self._falls_due(each.name)
            self._start(each)
        if self.random.random() < self.faulty:
            self.random.choice((self._leave, self._freeze))()

    def shares(self) -> Counter[str]:
        return Counter({each.name: each.starts for each in self.instances.values()})

    # -- who draws ------------------------------------------------------------------------------------------------

    def _falls_due(self, name: str) -> int:
        whole, part = divmod(self._demand[name] * STEP_MS, 1_000)
        return whole + (self.random.randrange(1_000) < part)

    def _start(self, instance: Instance) -> None:
        now_ms = self.now_ms + instance.ahead_ms
        if tasks := min(instance.due, instance.tokens.free(now_ms)):
            instance.tokens.use(tasks, now_ms)
            instance.due -= tasks
            instance.starts += tasks
            self.judge.started(tasks, self.now_ms)
        if instance.due and not instance.tokens.free(now_ms):
            instance.tokens.wants = True
        if instance.tokens.is_due(now_ms) and not instance.is_calling:
            self._call(instance, now_ms)

    def _call(self, instance: Instance, asked_ms: int) -> None:
        instance.is_calling = True
        want, asked = instance.tokens.want(instance.due), self._asked()
        self._send(lambda: self._draw(instance, asked, want, asked_ms), instance)

    def _asked(self) -> Kept:
        """The keeper, or one that was."""
        return self.random.choice([self.kept, *self.ghosts])

    def _draw(self, instance: Instance, asked: Kept, want: int, asked_ms: int) -> None:
        if self.now_ms < asked.frozen_ms or (asked is not self.kept and not self._trusts_all):
            instance.is_calling = False
            return
        now_ms = self.now_ms + self.instances[asked.name].ahead_ms
        grant = asked.keeper.draw(instance.name, want, self.limit, now_ms)
        self._send(lambda: self._heard(instance, asked_ms, grant), instance)

    def _heard(self, instance: Instance, asked_ms: int, grant: TokenGrant) -> None:
        instance.is_calling = False
        instance.tokens.granted(asked_ms, self.now_ms + instance.ahead_ms, grant)

    def _send(self, message: Callable[[], None], instance: Instance) -> None:
        """Now and then it is lost, or is very late."""
        if self.random.random() < 5 * self.faulty:
            message = lambda: setattr(instance, "is_calling", False)  # noqa: E731 - nobody has answered
        late_ms = self.random.randint(0, self._late_ms) * (40 if self.random.random() < 5 * self.faulty else 1)
        heapq.heappush(self._messages, (self.now_ms + late_ms, self.random.getrandbits(60), message))

    # -- who keeps ------------------------------------------------------------------------------------------------

    def _made(self, name: str, *, is_first: bool) -> Kept:
        return Kept(name, self._keeper(self.now_ms + self.instances[name].ahead_ms, is_first=is_first))

    def _leave(self) -> None:
        """In peace, or it is known to be dead: another one is named at once."""
        self.ghosts = [*self.ghosts[-2:], self.kept]
        self.kept = self._made(self.random.choice([*self.instances]), is_first=False)
        self.changes += 1

    def _freeze(self) -> None:
        self.kept.frozen_ms = self.now_ms + self.random.randint(10, 2_000)
