"""Slots of a cycle: what the task of one says, and the hash by which keys are in it.

A slot is a range of that hash, so a database finds its members by an index (docs/use/cycles.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

from timerd.sdk.values.checks import invalid

MemberKey = int | str | UUID
SLOT_CONTENT = "application/vnd.timerd.slot+json"
_SIGN = 1 << 63


def key_text(key: MemberKey) -> str:
    """Raises InvalidTask. The text by which a server knows the key."""
    if isinstance(key, UUID | str):
        return str(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(int(key))
    raise invalid(f"A key is an int, a UUID or a text: {key!r:.200} is of type {type(key).__name__}.", "keys")


def slot_hash(key: MemberKey) -> int:
    """The hash of a key as a signed number of 64 bits, as a column of a database has it.

    It is the first 8 bytes of the SHA-256 of the key's text, the highest byte first, less 2^63. The text is the decimal
    number of an integer, a UUID in lower case with dashes, and any other text as it is, in UTF-8. A slot has the
    members with lo <= slot_hash <= hi.

    Args:
        key: the key, an int, a UUID or a text.

    Raises:
        InvalidTask: it is of another type.
    """
    return int.from_bytes(sha256(key_text(key).encode()).digest()[:8], "big") - _SIGN


@dataclass(frozen=True, slots=True)
class SlotPlace:
    """A place of a cycle in a slot: who has this kind of turn then.

    Args:
        name: the name of the place.
        lo: the least `slot_hash` of such a member.
        hi: the greatest `slot_hash` of such a member, which belongs to it as well.
    """

    name: str
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a cycle has its turn: this is what its task says.

    Args:
        cycle_id: the id of the cycle.
        cycle: the number of the cycle, counted from its origin.
        slot: the number of the slot, 0 to `of` - 1.
        of: how many slots the cycle has.
        lo: the least `slot_hash` of a member of the slot.
        hi: the greatest `slot_hash` of a member of the slot, which belongs to it as well.
        places: of a cycle with places, the members of each; `lo` and `hi` are those of the first one.
    """

    cycle_id: str
    cycle: int
    slot: int
    of: int
    lo: int
    hi: int
    places: tuple[SlotPlace, ...] = ()

    @classmethod
    def of_payload(cls, payload: bytes) -> Slot:
        """The slot says what the payload `payload` of its task says: a SlotTask in the JSON form of protobuf."""
        said: dict[str, Any] = json.loads(payload)
        numbers = {name: int(said[name]) for name in ("cycle", "slot", "of", "lo", "hi")}
        places = [SlotPlace(each["name"], int(each["lo"]), int(each["hi"])) for each in said.get("places", ())]
        return cls(said["cycle_id"], **numbers, places=tuple(places))
