"""How permits are shared where all together want more than there is."""

from __future__ import annotations

from collections.abc import Mapping

# What does not go up evenly goes to others after so long.
TURN_MS = 1_000


def share_of(name: str, wanted: Mapping[str, int], room: int, now_ms: float) -> int | None:
    """What an instance may have now: what it wants, or the same as the others that want more. What does not go up
    evenly is had in turn. `wanted`: by instance, in all. None: there is enough for all."""
    wants = {each: number for each, number in sorted(wanted.items()) if number}
    if sum(wants.values()) <= room:
        return None
    at = int(now_ms // TURN_MS) % max(1, len(wants))
    hungry, shares = [*wants][at:] + [*wants][:at], dict.fromkeys(wants, 0)
    while room and hungry:
        even = max(1, room // len(hungry))
        for each in hungry:
            given = min(even, wants[each] - shares[each], room)
            shares[each] += given
            room -= given
        hungry = [each for each in hungry if shares[each] < wants[each]]
    return shares.get(name, 0)
