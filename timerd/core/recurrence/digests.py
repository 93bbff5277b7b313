"""What a zone does in the coming years, in one word: what a new release of its data may alter."""

from __future__ import annotations

from datetime import tzinfo
from hashlib import blake2b

from timerd.core.recurrence.offsets import DAY_MS, period_at

YEARS = 10


def zone_digest(zone: tzinfo, from_ms: int) -> str:
    """Of the offset there, and of each change of it in the ten years from then on."""
    end_ms, at_ms, offset_ms = from_ms + YEARS * 366 * DAY_MS, from_ms, -1
    digest = blake2b(digest_size=8, person=b"timerd.zone")
    while at_ms < end_ms and (period := period_at(zone, at_ms)) is not None:
        if period.offset_ms != offset_ms:
            digest.update(b"%d:%d," % (at_ms, period.offset_ms))
        at_ms, offset_ms = period.end_ms, period.offset_ms
    return digest.hexdigest()
