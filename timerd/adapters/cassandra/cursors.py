"""A place in the table of tasks as one number: between two pages of a scan the store keeps nothing in mind.

It is negative. A cursor says that everything up to it has been read, for ever; a place only where this scan goes on.
"""

from __future__ import annotations

import struct

_PLACE = struct.Struct(">q16sqb")
Place = tuple[int, bytes, int, int]


def cursor_after(place: Place | tuple[()]) -> int:
    """Less than 0; the next page begins behind (position_ms, digest, version, kind)."""
    return -int.from_bytes(b"\1" + _PLACE.pack(*place)) if place else 0


def place_of(cursor: int) -> Place | tuple[()]:
    """Nothing where the scan begins."""
    if not cursor:
        return ()
    position_ms, digest, version, kind = _PLACE.unpack((-cursor).to_bytes(_PLACE.size + 1)[1:])
    return position_ms, digest, version, kind
