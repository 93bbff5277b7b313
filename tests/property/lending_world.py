"""Three instances that lend each other permits, in a world where messages are late or lost, instances die, stand still
beyond their lease and leave, and deliveries move or are adopted.

What the permits are of is said by a `Lent`: one limit (`lent_world.py`), or the limit keys of a home
(`lent_keys_world.py`).
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, Protocol, TypeVar

LEASE_MS, TTL_MS = 1_500, 500
NAMES = ("a", "b", "c")
FAULTY = (0.004, 0.01, 0.03)


@dataclass
class Delivery:
    key: Hashable
    lease_until_ms: int


@dataclass
class Kept:
    """The register."""

    token: int = 0
    keeper: str = ""
    incarnation: int = 0
    left: Any = None


@dataclass
class Instance:
    name: str
    incarnation: int
    lent: Lent
    own: list[Delivery] = field(default_factory=list)
    adopted: list[Delivery] = field(default_factory=list)
    # If it believes that it is the keeper.
    keeper: Any = None
    # It stands still, or is dead, since then.
    frozen_ms: int | None = None
    dead_ms: int | None = None

    def __post_init__(self) -> None:
        self.permits = self.lent.borrowed(self)

    def count(self, key: Hashable) -> tuple[int, int]:
        """Of its own, and of those that it has adopted."""
        return sum(each.key == key for each in self.own), sum(each.key == key for each in self.adopted)

    @property
    def runs(self) -> bool:
        return self.frozen_ms is None and self.dead_ms is None


class Lent(Protocol):
    """What instances lend each other: how it is borrowed, stated and lent, and how many may be in hand."""

    @property
    def rest_turns(self) -> int:
        """Until all is free again."""
        ...

    def keeper(self, token: int, now_ms: int, left: Any, *, is_first: bool) -> Any: ...

    def borrowed(self, instance: Instance) -> Any:
        """What it has."""
        ...

    def key(self, random: Random) -> Hashable:
        """Of the next task."""
        ...

    def free(self, instance: Instance, key: Hashable) -> int: ...

    def want(self, instance: Instance, key: Hashable) -> None: ...

    def sent(self, instance: Instance, delivery: Delivery) -> None:
        """It is its own from now on."""
        ...

    def judge(self, key: Hashable, in_hand: int, now_ms: int) -> None:
        """When one has started."""
        ...

    def state(self, instance: Instance, token: int, now_ms: int, heard_round: int = 0) -> Any: ...

    def lend(self, keeper: Any, name: str, said: Any, now_ms: int) -> Any: ...

    def refusal(self, who: Instance, said: Any, token: int) -> Callable[[], None] | None:
        """Hears that its statement did not count. None: nobody says so."""
        ...

    def moved(self, instance: Instance, delivery: Delivery) -> None: ...

    def met(self, instance: Instance, delivery: Delivery) -> None:
        """It was adopted."""
        ...

    def lapse(self, instance: Instance) -> None: ...

    def calm(self, instance: Instance) -> None:
        """Nothing more is due."""
        ...

    def judge_rest(self, keeper: Any) -> None: ...


AnyLent = TypeVar("AnyLent", bound=Lent)


class World(Generic[AnyLent]):
    def __init__(self, seed: int, lent: AnyLent) -> None:
        self.seed, self.random, self.lent = seed, Random(seed), lent
        self.now_ms = 1_000
        self.register = Kept()
        self.incarnations = 0
        self.instances = {name: self.made(name) for name in NAMES}
        # Deliveries whose instance is gone, or has given them away.
        self.out: list[Delivery] = []
        self.messages: list[Callable[[], None]] = []
        self.asked_ms: dict[str, int] = {}
        self.adoptions = self.starts = self.takeovers = 0

    def made(self, name: str) -> Instance:
        self.incarnations += 1
        return Instance(name, self.incarnations, self.lent)

    def running(self) -> list[Instance]:
        return [each for each in self.instances.values() if each.runs]

    def living(self) -> dict[str, int]:
        """As all see it: who stands still is believed for a TTL."""
        seen = {}
        for each in self.instances.values():
            since_ms = min([ms for ms in (each.dead_ms, each.frozen_ms) if ms is not None], default=None)
            if since_ms is None or self.now_ms < since_ms + TTL_MS:
                seen[each.name] = each.incarnation
        return seen

    def all_in_hand(self) -> Iterator[Delivery]:
        for each in self.instances.values():
            yield from each.own
            yield from each.adopted
        yield from self.out

    # -- what happens ---------------------------------------------------------------------------------------------

    def turn(self, *, with_faults: bool = True, with_work: bool = True) -> None:
        self.now_ms += self.random.choice((1, 5, 20, 40))
        self._leases()
        steps: list[Callable[[], None]] = [self.keep, self.ask, self.ask, *[self.hear] * 5, self.look]
        steps += [self.end, self.end]
        if with_work:
            steps += [self.start, self.start, self.start]
        self.random.choice(steps)()
        if self.random.random() < 0.05:
            self.random.choice((self.thaw, self.begin))()
        if with_faults and self.out and self.random.random() < 0.02:
            self.adopt()
        if with_faults and self.random.random() < FAULTY[self.seed % len(FAULTY)]:
            self.random.choice((self.die, self.freeze, self.leave, self.move))()

    def _leases(self) -> None:
        for each in self.instances.values():
            for deliveries in (each.own, each.adopted):
                deliveries[:] = [one for one in deliveries if one.lease_until_ms > self.now_ms]
                if each.runs and self.random.random() < 0.3:
                    for one in deliveries:
                        one.lease_until_ms = self.now_ms + LEASE_MS
        self.out = [one for one in self.out if one.lease_until_ms > self.now_ms]

    def start(self) -> None:
        instance, key = self._any(), self.lent.key(self.random)
        if instance is None:
            return
        if not self.lent.free(instance, key):
            self.lent.want(instance, key)
            return
        self.lent.sent(instance, Delivery(key, self.now_ms + LEASE_MS))
        self.starts += 1
        self.lent.judge(key, sum(each.key == key for each in self.all_in_hand()), self.now_ms)

    def end(self) -> None:
        deliveries = self.random.choice([d for each in self.running() for d in (each.own, each.adopted)] or [self.out])
        if deliveries:
            deliveries.pop(self.random.randrange(len(deliveries)))

    # -- the keeper -----------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Whoever looks takes what nobody keeps, and the keeper looks who lives."""
        instance, living, register = self._any(), self.living(), self.register
        if instance is None:
            return
        if register.token == 0 or living.get(register.keeper) != register.incarnation:
            is_first = register.token == 0
            left, register.left = register.left, None
            register.token += 1
            register.keeper, register.incarnation = instance.name, instance.incarnation
            instance.keeper = self.lent.keeper(register.token, self.now_ms, left, is_first=is_first)
            self.takeovers += 1
        self._look(instance)

    def look(self) -> None:
        for instance in self.running():
            self._look(instance)

    def _look(self, instance: Instance) -> None:
        keeper = instance.keeper
        if keeper is None:
            return
        keeper.lives(self.living(), self.now_ms)
        keeper.step(self.now_ms)
        for name in keeper.unheard():
            if self.now_ms < self.asked_ms.get(name, 0) + 300:
                continue
            self.asked_ms[name] = self.now_ms
            self._send(lambda name=name: self._report(instance, keeper, name))  # type: ignore[misc]

    def _report(self, instance: Instance, keeper: Any, name: str) -> None:
        asked = self.instances[name]
        if not asked.runs:
            return
        said = self.lent.state(asked, keeper.token, self.now_ms, keeper.round)
        incarnation = asked.incarnation
        if said is not None:
            self._send(lambda: self._reported(instance, keeper, name, incarnation, said))

    def _reported(self, instance: Instance, keeper: Any, name: str, incarnation: int, said: Any) -> None:
        if instance.runs and instance.keeper is keeper:
            keeper.stated(name, incarnation, said, self.now_ms)

    # -- who borrows ----------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """As the register names the keeper, or did a moment ago."""
        instance = self._any()
        if instance is None:
            return
        keepers = [each for each in self.running() if each.keeper is not None]
        if not keepers:
            return
        asked = self.random.choice(keepers)
        keeper = asked.keeper
        said = self.lent.state(instance, keeper.token, self.now_ms)
        if said is not None:
            incarnation = instance.incarnation
            self._send(lambda: self._lend(asked, keeper, instance, incarnation, said))

    def _lend(self, asked: Instance, keeper: Any, who: Instance, incarnation: int, said: Any) -> None:
        if not asked.runs or asked.keeper is not keeper:
            return
        if keeper.stated(who.name, incarnation, said, self.now_ms):
            grant = self.lent.lend(keeper, who.name, said, self.now_ms)
            self._send(lambda: self._granted(who, said, keeper.token, grant))
        elif (refusal := self.lent.refusal(who, said, keeper.token)) is not None:
            self._send(refusal)

    def _granted(self, who: Instance, said: Any, token: int, grant: Any) -> None:
        if who.runs and self.instances[who.name] is who:
            who.permits.granted(said.seq, token, grant)

    # -- messages -------------------------------------------------------------------------------------------------

    def _send(self, message: Callable[[], None]) -> None:
        if self.random.random() < 0.9:
            self.messages.append(message)

    def hear(self) -> None:
        if self.messages:
            at = 0 if self.random.random() < 0.7 else self.random.randrange(len(self.messages))
            self.messages.pop(at)()

    # -- faults ---------------------------------------------------------------------------------------------------

    def die(self) -> None:
        if (instance := self._any()) is not None:
            instance.dead_ms = self.now_ms
            self._give_away(instance)

    def begin(self) -> None:
        """One that is known to be dead begins again."""
        for name, each in self.instances.items():
            if each.dead_ms is not None and self.now_ms >= each.dead_ms + TTL_MS:
                self.instances[name] = self.made(name)

    def freeze(self) -> None:
        if (instance := self._any()) is not None:
            instance.frozen_ms = self.now_ms

    def thaw(self) -> None:
        for each in self.instances.values():
            if each.frozen_ms is None or each.dead_ms is not None:
                continue
            if self.now_ms >= each.frozen_ms + TTL_MS - 100:
                self.lent.lapse(each)
                each.keeper = None
                self.incarnations += 1
                each.incarnation = self.incarnations
                self._give_away(each)
            each.frozen_ms = None

    def _give_away(self, instance: Instance) -> None:
        self.out += instance.own + instance.adopted
        instance.own, instance.adopted = [], []

    def leave(self) -> None:
        """The keeper gives up its register in peace, and goes on sending."""
        for each in self.running():
            if each.keeper is not None and each.keeper.token == self.register.token:
                self.register.left = each.keeper.left()
                self.register.keeper, each.keeper = "", None

    def move(self) -> None:
        """A partition with deliveries gets another holder, which hears of them or not."""
        instance = self._any()
        if instance is not None and instance.own:
            moved = instance.own.pop()
            self.out.append(moved)
            self.lent.moved(instance, moved)

    def adopt(self) -> None:
        """A worker says here that it has what was sent by another instance."""
        instance = self._any()
        if instance is not None and self.out:
            adopted = self.out.pop(self.random.randrange(len(self.out)))
            instance.adopted.append(adopted)
            self.lent.met(instance, adopted)
            self.adoptions += 1

    def _any(self) -> Instance | None:
        running = self.running()
        return self.random.choice(running) if running else None

    # -- at rest --------------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Nothing more is due, and all ends. Then all is free again."""
        self.begin()
        self.thaw()
        for _ in range(self.lent.rest_turns):
            self.begin()
            self.turn(with_faults=False, with_work=False)
            for each in self.instances.values():
                self.lent.calm(each)
        keeper = self.instances[self.register.keeper].keeper
        assert keeper is not None
        self.lent.judge_rest(keeper)
