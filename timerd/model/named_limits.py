"""Limits with a name, which queues share: a register for each that ever was, listed with the queues that have rules."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, replace
from typing import Any, NamedTuple

from timerd.model.codec import (
    KEYED_LIMITS,
    dump_json,
    field_names,
    lacking,
    split_known,
    with_kept,
    with_need,
    without_need,
)
from timerd.model.registers import RegisterKey, Table
from timerd.model.regulations import REGULATED, REMEMBERED, QueueLimit
from timerd.model.storage import EntryKey

# So many limits may a queue list.
MOST_LISTED = 8
_LIMIT = "limit"


# Limits of some keys in the place of that of the others; None: no limit.
KeyOverrides = tuple[tuple[str, QueueLimit | None], ...]


class LimitName(NamedTuple):
    namespace: str
    limit: str


@dataclass(frozen=True, slots=True)
class NamedLimit:
    """`limit`: None where there is none, or none any more. `requests`: as of the rules of a queue. `keyed`: each limit
    key has it for itself, over all queues that list it; `overrides`: of some keys another one in its place."""

    revision: int = 0
    limit: QueueLimit | None = None
    requests: tuple[str, ...] = ()
    keyed: bool = False
    overrides: KeyOverrides = ()
    kept: str = ""

    @property
    def is_understood(self) -> bool:
        """Else a later release wrote it, and it lets nothing go."""
        return not lacking(self.kept)

    def each(self) -> list[QueueLimit]:
        """That of all, and those of some keys."""
        limits = [self.limit, *(limit for _, limit in self.overrides)]
        return [limit for limit in limits if limit is not None] if self.limit is not None else []

    def by_key(self, overrides: KeyOverrides | None) -> NamedLimit:
        """Each key has it for itself; None: all have it together."""
        if overrides is None:
            return replace(self, keyed=False, overrides=(), kept=without_need(self.kept, KEYED_LIMITS))
        return replace(self, keyed=True, overrides=overrides, kept=with_need(self.kept, KEYED_LIMITS))

    def asked(self, request: str) -> NamedLimit:
        return replace(self, requests=(*self.requests, request)[-REMEMBERED:])

    def to_bytes(self) -> bytes:
        stored: dict[str, Any] = {"revision": self.revision}
        if self.limit is not None:
            stored["limit"] = astuple(self.limit)
        if self.requests:
            stored["requests"] = self.requests
        if self.keyed:
            stored["keyed"] = True
        if self.overrides:
            stored["overrides"] = [(key, limit and astuple(limit)) for key, limit in self.overrides]
        return dump_json(with_kept(stored, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> NamedLimit:
        values, kept = split_known(json.loads(stored), _KNOWN, frozenset({"revision"}))
        if "limit" in values:
            values["limit"] = QueueLimit(*values["limit"])
        values["requests"] = tuple(values.get("requests", ()))
        overrides = values.get("overrides", ())
        values["overrides"] = tuple((key, QueueLimit(*own) if own else None) for key, own in overrides)
        return cls(**values, kept=kept)


NO_LIMIT = NamedLimit()
_KNOWN = field_names(NamedLimit)


def read_limit(stored: bytes | None) -> NamedLimit:
    return NO_LIMIT if stored is None else NamedLimit.from_bytes(stored)


def limit_key(name: LimitName) -> RegisterKey:
    return RegisterKey(Table.REGULATIONS, name_of_limit(*name))


def limit_entry(name: LimitName) -> EntryKey:
    return EntryKey(REGULATED, name_of_limit(*name))


def name_of_limit(namespace: str, limit: str) -> bytes:
    """Those of a namespace lie side by side, in the order of their names, before its queues."""
    return f"{namespace}\0{_LIMIT}\0{limit}".encode()


def named_limit(name: bytes) -> LimitName | None:
    """None: it is the name of something else."""
    namespace, kind, limit = name.decode().split("\0")
    return LimitName(namespace, limit) if kind == _LIMIT else None
