"""Who belongs to the cluster: one register for each instance, and one, the roster, that lists their names.

An incarnation is one uninterrupted belief of an instance in what it holds. A restart begins another one, and so does
the return of an instance that could not be sure of its lease for a while: what an earlier incarnation held is free.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

from timerd.model.codec import dump_json, field_names, split_known, with_kept
from timerd.model.registers import RegisterKey, Table

# No instance is called so, and not every store takes an empty name.
ROSTER = RegisterKey(Table.INSTANCES, b"\0roster")


class InstanceState(StrEnum):
    SERVING = "serving"
    # It hands over what it holds and gets nothing new.
    LEAVING = "leaving"
    # It holds nothing.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class InstanceEntry:
    """`counter` grows with every heartbeat; `beat_at_ms` is the instance's engine time at the last one; `knows`: the
    capabilities that it announces (model/codec.py)."""

    name: str
    address: str
    incarnation: int
    counter: int
    state: InstanceState = InstanceState.SERVING
    beat_at_ms: int = 0
    knows: tuple[str, ...] = ()
    kept: str = ""

    def to_bytes(self) -> bytes:
        values = asdict(self)
        del values["kept"]
        if not self.knows:
            del values["knows"]
        return dump_json(with_kept(values, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> InstanceEntry:
        """Of an instance in a state that this release does not know only this is sure: it lives, and gets nothing."""
        values, kept = split_known(json.loads(stored), _NAMES)
        state = values["state"]
        values["state"] = InstanceState(state) if state in _STATES else InstanceState.LEAVING
        return cls(**values | {"knows": tuple(values.get("knows", ()))}, kept=kept)


_NAMES = field_names(InstanceEntry)
_STATES = frozenset(InstanceState)


def instance_key(name: str) -> RegisterKey:
    return RegisterKey(Table.INSTANCES, name.encode())


def roster_bytes(names: Iterable[str]) -> bytes:
    return dump_json(sorted(set(names)))


def roster_of(stored: bytes | None) -> tuple[str, ...]:
    return tuple(json.loads(stored)) if stored is not None else ()
