"""Who keeps a key shard in a cluster, and sends the tasks of its ordering keys: a register for each of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from timerd.model.codec import check_understood, dump_json, field_names, split_known, with_kept
from timerd.model.registers import RegisterKey, Table


@dataclass(frozen=True, slots=True)
class ShardKeeper:
    """`token` grows with each keeper, which is `holder` in that `incarnation`; empty: it has left in peace, all of its
    deliveries were started until `last_ms`, and nothing is to start before `from_ms`."""

    token: int = 0
    holder: str = ""
    incarnation: int = 0
    from_ms: int = 0
    last_ms: int = 0
    kept: str = ""

    def taken_by(self, name: str, incarnation: int) -> ShardKeeper:
        return replace(self, token=self.token + 1, holder=name, incarnation=incarnation)

    def left(self, from_ms: int, last_ms: int) -> ShardKeeper:
        """Nobody keeps it."""
        latest = max(self.from_ms, from_ms), max(self.last_ms, last_ms)
        return replace(self, holder="", incarnation=0, from_ms=latest[0], last_ms=latest[1])

    def to_bytes(self) -> bytes:
        return dump_json(with_kept({name: getattr(self, name) for name in _KEEPER}, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> ShardKeeper:
        """Raises NotUnderstood."""
        values, kept = split_known(json.loads(stored), _KEEPER)
        check_understood("The keeper of a key shard", kept)
        return cls(**values, kept=kept)


NOBODY = ShardKeeper()
_KEEPER = field_names(ShardKeeper)


def keeper_key(shard: int) -> RegisterKey:
    return RegisterKey(Table.CLUSTER, b"key shard %d" % shard)
