"""The task of a slot, which says whose turn it is: the cycle, the slot, and its range of hashes."""

from __future__ import annotations

from timerd.core.slots import slot_range
from timerd.model.codec import dump_json
from timerd.model.cycles import CYCLE, CycleShape, RosterTurn, turn_at


def slot_payload(schedule_id: str, uid: str, shape: CycleShape, instant_ms: int) -> bytes:
    """A SlotTask in the JSON form of protobuf, in which numbers of 64 bits are texts."""
    turn = turn_at(shape, instant_ms)
    if shape.has_roster:
        return RosterTurn(shape.members.namespace, schedule_id, uid, turn.cycle, turn.slot).to_bytes()
    lo, hi = slot_range(turn.slot, shape.slots).signed
    said = {
        "cycle_id": schedule_id.removeprefix(CYCLE),
        "cycle": str(turn.cycle),
        "slot": turn.slot,
        "of": shape.slots,
        "lo": str(lo),
        "hi": str(hi),
    }
    return dump_json(said)
