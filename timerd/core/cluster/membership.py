"""Who lives, and who one is oneself (protocol section 4, lease trust; section 1, instances).

`Members` is one instance's knowledge of the others, by its own serial reads alone. The procedures change the instance's
own register and the roster. Nothing here is needed for correctness (the fenced control row is): it says whose
partitions may be taken over, and who should hold which.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from timerd.core.cluster.lease_trust import Observation
from timerd.core.protocol import Procedure, ReadRegister, ReadRegisters, TryCas
from timerd.model.instance import ROSTER, InstanceEntry, InstanceState, instance_key, roster_bytes, roster_of
from timerd.model.storage import Cas, CasResult, CasStatus

# A dead instance stays on the roster so much longer than its lease: it may come back, and people look for it.
FORGOTTEN_AFTER_MS = 600_000
# The register of one that left may be forgotten after so long.
LEFT_KEPT_MS = 86_400_000
Stored = Mapping[str, bytes | None]


class HeldBy(Protocol):
    """What an instance holds, as its register names it; an empty name: nobody does."""

    @property
    def holder(self) -> str: ...

    @property
    def incarnation(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Timing:
    """`heartbeat_ms`: how often an instance says that it lives, and looks who else does. `ttl_ms`: how long it is
    believed without saying so."""

    heartbeat_ms: int = 2_000
    ttl_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class Seen:
    """One instance as another one, or itself, sees it; `age_ms`: of its last sign of life."""

    entry: InstanceEntry
    is_dead: bool
    age_ms: float


class Members:
    """`read` is called after each successful serial read of an entry, whichever part asked for it."""

    def __init__(self, me: str, timing: Timing) -> None:
        self.roster: tuple[str, ...] = ()
        self._me = me
        self._ttl_ms = timing.ttl_ms
        self._entries: dict[str, InstanceEntry | None] = {}
        self._seen: dict[str, Observation] = {}
        # Whose signs of life are not all from before this instance came.
        self._moved: set[str] = set()
        self._has_looked = False

    def looked(self, roster: tuple[str, ...], stored: Stored, started_ms: float, ended_ms: float) -> None:
        """At all of them."""
        self.roster = roster
        for name, entry in stored.items():
            self.read(name, entry, started_ms, ended_ms)
        self._has_looked = True

    def read(self, name: str, stored: bytes | None, started_ms: float, ended_ms: float) -> None:
        """The boot clock's times of the read: what it saw is from between them."""
        entry = InstanceEntry.from_bytes(stored) if stored is not None else None
        known = self._entries.get(name)
        if entry != known and (name in self._entries or self._has_looked):
            self._moved.add(name)
        self._entries[name] = entry
        if entry is None or known is None or known.incarnation != entry.incarnation:
            self._seen.pop(name, None)
        if entry is not None:
            self._seen.setdefault(name, Observation(self._ttl_ms)).read(entry.counter, started_ms, ended_ms)

    def entry(self, name: str) -> InstanceEntry | None:
        return self._entries.get(name)

    def others(self) -> list[str]:
        """Those that get partitions: not about to leave, and living, as one does that was first seen a moment ago."""
        return [name for name in self.roster if name != self._me and self._serves(name)]

    def present(self) -> list[str]:
        """Those that live, also the ones that are about to leave."""
        return [name for name in self.roster if name != self._me and self._lives(name)]

    def announced(self) -> dict[str, tuple[str, ...]]:
        """What each of the others that live understands; of one that was not read yet: nothing."""
        if not self._has_looked:
            return {"": ()}
        names = [n for n in self.roster if n != self._me and (n not in self._entries or self._lives(n))]
        return {name: entry.knows if (entry := self._entries.get(name)) is not None else () for name in names}

    def has_moved(self, name: str) -> bool:
        """Whether it has given a sign of life since this instance came. Who has not may be dead for long, and still
        be taken for living: nothing should be given to it that somebody has."""
        return name == self._me or name in self._moved

    def is_over(self, name: str, incarnation: int) -> bool:
        """Whether what this incarnation held is free. Never, of one that was not read yet."""
        if name not in self._entries:
            return False
        entry = self._entries[name]
        if entry is None or entry.incarnation != incarnation or entry.state is InstanceState.LEFT:
            return True
        return self._seen[name].is_dead

    def is_dead(self, entry: InstanceEntry) -> bool:
        """Whether this very sign of life is older than a lease, as far as is known."""
        known = self._entries.get(entry.name)
        if known is None or (known.incarnation, known.counter) != (entry.incarnation, entry.counter):
            return False
        return self._seen[entry.name].is_dead

    def may_take(self, held: HeldBy) -> bool:
        """Under one's own name stands what an earlier incarnation held, or one's own let go of."""
        return held.holder in ("", self._me) or self.is_over(held.holder, held.incarnation)

    def incarnations(self) -> dict[str, int]:
        """Of those that are present."""
        found = ((name, self._entries[name]) for name in self.present())
        return {name: entry.incarnation for name, entry in found if entry is not None}

    def seen(self, boot_ms: float) -> list[Seen]:
        """All on the roster that were read."""
        known = [(self._entries.get(name), self._seen.get(name)) for name in self.roster if name != self._me]
        return [Seen(entry, seen.is_dead, seen.age_ms(boot_ms)) for entry, seen in known if entry and seen]

    def watched(self) -> list[str]:
        """Not on the roster, but named in a control row, and not known to be dead yet."""
        return [name for name, seen in self._seen.items() if name not in self.roster and not seen.is_dead]

    def forgotten(self) -> list[str]:
        """Names that nobody needs on the roster any more."""
        return [name for name in self.roster if name != self._me and self._is_forgotten(name)]

    def next_look_ms(self) -> float | None:
        """When the next death can be known, if nobody gives a sign of life."""
        due = [seen.dead_at_ms for name, seen in self._seen.items() if not seen.is_dead and self._serves(name)]
        return min(due, default=None)

    def _serves(self, name: str) -> bool:
        entry = self._entries.get(name)
        return entry is not None and entry.state is InstanceState.SERVING and not self._seen[name].is_dead

    def _lives(self, name: str) -> bool:
        entry = self._entries.get(name)
        return entry is not None and entry.state is not InstanceState.LEFT and not self._seen[name].is_dead

    def _is_forgotten(self, name: str) -> bool:
        if name not in self._entries:
            return False
        entry = self._entries[name]
        if entry is None or entry.state is InstanceState.LEFT:
            return True
        return self._seen[name].stood_still_ms >= self._ttl_ms + FORGOTTEN_AFTER_MS


class Predecessor:
    """An entry under one's own name that was there before: it must be dead before the name is used again."""

    def __init__(self, entry: InstanceEntry, timing: Timing) -> None:
        self.entry = entry
        self._seen = Observation(timing.ttl_ms)

    def lives(self, now: InstanceEntry, started_ms: float, ended_ms: float) -> bool:
        """Whether it has moved since it was first seen."""
        self._seen.read(now.counter, started_ms, ended_ms)
        return (now.incarnation, now.counter) != (self.entry.incarnation, self.entry.counter)

    @property
    def is_dead(self) -> bool:
        return self._seen.is_dead


def claim(me: InstanceEntry, before: bytes | None) -> Procedure[bool]:
    """Takes the name. False: somebody else was quicker."""
    result: CasResult = yield TryCas(Cas(instance_key(me.name), before, me.to_bytes()))
    return result.status is CasStatus.APPLIED


def beat(stored: InstanceEntry, wanted: InstanceEntry) -> Procedure[InstanceEntry | None]:
    """A sign of life: `wanted` with the next counter. None: the name has another owner now."""
    before: InstanceEntry | None = stored
    while True:
        value = replace(wanted, counter=(before.counter if before else stored.counter) + 1)
        expected = before.to_bytes() if before is not None else None
        expires_ms = value.beat_at_ms + LEFT_KEPT_MS if value.state is InstanceState.LEFT else 0
        result: CasResult = yield TryCas(Cas(instance_key(value.name), expected, value.to_bytes(), expires_ms))
        if result.status is CasStatus.APPLIED:
            return value
        # An earlier try may have been applied after all, or the register was lost.
        before = InstanceEntry.from_bytes(result.current) if result.current is not None else None
        if before is not None and before.incarnation not in (stored.incarnation, wanted.incarnation):
            return None


def enlist(joining: Collection[str], leaving: Collection[str] = ()) -> Procedure[tuple[str, ...]]:
    """The roster with the one and without the other; it is only written where it changes."""
    current: bytes | None = yield ReadRegister(ROSTER)
    while True:
        names = roster_of(current)
        changed = tuple(sorted({*names, *joining} - set(leaving)))
        if changed == names:
            return names
        result: CasResult = yield TryCas(Cas(ROSTER, current, roster_bytes(changed)))
        if result.status is CasStatus.APPLIED:
            return changed
        current = result.current


def look(me: str, watched: Collection[str] = ()) -> Procedure[tuple[tuple[str, ...], Stored]]:
    """(the roster, what stands in the registers of the others and of those that are watched)."""
    roster = roster_of((yield ReadRegister(ROSTER)))
    others = sorted({*roster, *watched} - {me})
    stored: Sequence[bytes | None] = (yield ReadRegisters([instance_key(name) for name in others])) if others else []
    return roster, dict(zip(others, stored, strict=True))
