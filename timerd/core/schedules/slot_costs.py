"""What a slot has cost: members that were named for it in the last cycle in which there were any, and their weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b

from timerd.core.protocol import Procedure, ReadRegister, TryCas
from timerd.core.schedules.member_tasks import CycleRun, SlotMember
from timerd.model.codec import dump_json, field_names, split_known
from timerd.model.cycles import cost_key
from timerd.model.storage import Cas, CasResult, CasStatus

# Calls that are told apart, so that a repeat is not counted again.
MOST_BATCHES = 256
TRIES = 20


@dataclass(frozen=True, slots=True)
class Cost:
    """`batches`: the hashes of what was named."""

    cycle: int
    members: int = 0
    batches: tuple[str, ...] = ()
    weight: float = 0.0

    def to_bytes(self) -> bytes:
        return dump_json(asdict(self))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Cost:
        values, _ = split_known(json.loads(stored), _COST)
        return cls(
            values["cycle"], values["members"], tuple(values["batches"]), values.get("weight", values["members"])
        )


def note_cost(cycle: CycleRun, slot: int, members: Sequence[SlotMember]) -> Procedure[None]:
    """Once for the same members. It is a figure for people: where many write at once, some of it may be left out."""
    key, batch = cost_key(cycle.uid, slot), _hash([each.key for each in members])
    weight = sum(each.weight for each in members)
    for _ in range(TRIES):
        stored: bytes | None = yield ReadRegister(key)
        cost = Cost.from_bytes(stored) if stored is not None else Cost(cycle.number)
        if cost.cycle < cycle.number:
            cost = Cost(cycle.number)
        if cost.cycle > cycle.number or batch in cost.batches:
            return
        batches = (*cost.batches, batch)[-MOST_BATCHES:]
        more = Cost(cost.cycle, cost.members + len(members), batches, cost.weight + weight)
        kept_until_ms = cycle.begin_ms + 3 * cycle.shape.period_ms + 86_400_000
        result: CasResult = yield TryCas(Cas(key, stored, more.to_bytes(), kept_until_ms))
        if result.status is CasStatus.APPLIED:
            return


def _hash(keys: Sequence[str]) -> str:
    return blake2b("\0".join(keys).encode(), digest_size=6).hexdigest()


_COST = field_names(Cost)
