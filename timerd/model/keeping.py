"""Who keeps a limit in a cluster: a register for each limit that ever was lent, and one for each home of limit keys."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from timerd.model.codec import check_understood, dump_json, field_names, split_known, with_kept
from timerd.model.registers import RegisterKey, Table

_KEEPER, _HOME = "keeper", "keys"
# Limit keys lie in so many homes, for ever.
HOMES = 64


class LimitLabels(NamedTuple):
    """What a limit is told by: the queue whose own it is, or its name; the other one is empty."""

    namespace: str
    queue: str
    limit: str


class LimitedKey(NamedTuple):
    """A limit key, and a limit that it has for itself."""

    limit: LimitLabels
    limit_key: str

    @property
    def home(self) -> int:
        """The limits of a key lie together."""
        return _home_of(self.limit.namespace, self.limit_key)


@lru_cache(maxsize=4096)
def _home_of(namespace: str, limit_key: str) -> int:
    name = f"{namespace}\0{limit_key}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(name, digest_size=4).digest()) % HOMES


@dataclass(frozen=True, slots=True)
class Keeping:
    """`token` grows with each keeper, which is `holder` in that `incarnation`; empty: it has left in peace. `lease_ms`:
    no delivery under the limit has a longer lease. By who has left: `old` deliveries of others that were gone, and the
    `borrowers`, (name, incarnation, moved) each."""

    token: int = 0
    holder: str = ""
    incarnation: int = 0
    lease_ms: int = 0
    is_left: bool = False
    old: int = 0
    borrowers: tuple[tuple[str, int, int], ...] = ()
    kept: str = ""

    def to_bytes(self) -> bytes:
        return dump_json(with_kept({name: getattr(self, name) for name in _KEEPING}, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Keeping:
        """Raises NotUnderstood."""
        values, kept = split_known(json.loads(stored), _KEEPING)
        check_understood("The keeper of a limit", kept)
        values["borrowers"] = tuple((name, incarnation, moved) for name, incarnation, moved in values["borrowers"])
        return cls(**values, kept=kept)


NOBODY = Keeping()
_KEEPING = field_names(Keeping)


def keeping_key(labels: LimitLabels) -> RegisterKey:
    """No queue and no limit has an empty name."""
    return RegisterKey(Table.REGULATIONS, "\0".join((labels.namespace, _KEEPER, labels.queue, labels.limit)).encode())


@dataclass(frozen=True, slots=True)
class HomeKeeping:
    """As `Keeping`, of a home of limit keys. `old`: (namespace, queue, limit, limit key, deliveries) each;
    `borrowers`: (name, incarnation) each."""

    token: int = 0
    holder: str = ""
    incarnation: int = 0
    lease_ms: int = 0
    is_left: bool = False
    old: tuple[tuple[str, str, str, str, int], ...] = ()
    borrowers: tuple[tuple[str, int], ...] = ()
    kept: str = ""

    def to_bytes(self) -> bytes:
        return dump_json(with_kept({name: getattr(self, name) for name in _HOME_KEEPING}, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> HomeKeeping:
        """Raises NotUnderstood."""
        values, kept = split_known(json.loads(stored), _HOME_KEEPING)
        check_understood("The keeper of limit keys", kept)
        values["old"] = tuple((*names, deliveries) for *names, deliveries in values["old"])
        values["borrowers"] = tuple((name, incarnation) for name, incarnation in values["borrowers"])
        return cls(**values, kept=kept)


HOME_OF_NOBODY = HomeKeeping()
_HOME_KEEPING = field_names(HomeKeeping)


def home_key(home: int) -> RegisterKey:
    """No namespace is empty."""
    return RegisterKey(Table.REGULATIONS, f"\0{_HOME}\0{home}".encode())
