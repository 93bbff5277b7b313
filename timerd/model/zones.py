"""Whose data of time zones are in force, and how far schedules of the zones that they changed are armed anew.

One register for all instances. It has the zones that schedules use, and no others: a start costs nothing where there
are none, and what is read with each creation has some hundred bytes. A creation that brings a zone into use writes it
there first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from timerd.model.codec import check_understood, dump_json, field_names, split_known, with_kept
from timerd.model.registers import RegisterKey, Table
from timerd.model.storage import EntryKey

ZONES = RegisterKey(Table.CLUSTER, b"zones")
# No release changes it, so its schedules ask for nothing.
UTC = "UTC"
# Namespaces that have, or had, schedules.
NAMESPACES = b"schedule_namespaces"


@dataclass(frozen=True, slots=True)
class SweptTo:
    """The last name that a sweep is done with: of a slot of a namespace. At the beginning there is none."""

    namespace: str = ""
    slot: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class Zones:
    """`generation` grows whenever other data come into force, or are asked for again. `tzdata`: their release."""

    generation: int
    tzdata: str
    # From when on the digests say what the zones do.
    from_ms: int
    # Zone -> the digest of its changes of the coming years.
    digests: Mapping[str, str]
    # The zones whose schedules the sweep arms anew; when it is at its end, there are none.
    changed: tuple[str, ...] = ()
    swept_to: SweptTo = SweptTo()
    # By this sweep, or the last one.
    armed: int = 0
    # The zones of the last sweep, for who asks for it again.
    last: tuple[str, ...] = ()
    # By an operator: a newer release does not come into force by itself.
    is_pinned: bool = False
    # The sweep waits for an operator.
    is_held: bool = False
    kept: str = ""

    @property
    def is_sweeping(self) -> bool:
        return bool(self.changed) and not self.is_held

    def with_zones(self, digests: Mapping[str, str]) -> Zones:
        return replace(self, digests={**self.digests, **digests})

    def ended(self) -> Zones:
        return replace(self, changed=(), swept_to=SweptTo(), is_held=False)

    def to_bytes(self) -> bytes:
        stored: dict[str, Any] = {name: getattr(self, name) for name in _ZONES}
        stored["swept_to"] = asdict(self.swept_to)
        stored["digests"] = dict(sorted(self.digests.items()))
        return dump_json(with_kept(stored, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Zones:
        """Raises NotUnderstood."""
        values: dict[str, Any]
        values, kept = split_known(json.loads(stored), _ZONES)
        check_understood("The register of time zones", kept)
        values["swept_to"] = SweptTo(**values["swept_to"])
        for name in ("changed", "last"):
            values[name] = tuple(values[name])
        return cls(**values, kept=kept)


def namespace_entry(namespace: str) -> EntryKey:
    return EntryKey(NAMESPACES, namespace.encode())


_ZONES = field_names(Zones)
