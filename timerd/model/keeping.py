"""Who keeps a limit in a cluster: a register for each limit that ever was lent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from timerd.model.codec import check_understood, dump_json, field_names, split_known, with_kept
from timerd.model.registers import RegisterKey, Table

_KEEPER = "keeper"


class LimitLabels(NamedTuple):
    """What a limit is told by: the queue whose own it is, or its name; the other one is empty."""

    namespace: str
    queue: str
    limit: str


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
