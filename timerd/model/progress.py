"""How far an attempt has come, as its handler says: a fraction, and what the next attempt needs to go on from there."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import NamedTuple

MAX_CURSOR_BYTES = 1024


class ProgressReport(NamedTuple):
    """What a worker says of an attempt, and so long ago. `text`: as it is kept; empty: its handler begins, or is still
    to begin."""

    text: str
    age_ms: int = 0


class KeptProgress(NamedTuple):
    """`fraction`: 0 to 1. `cursor`: up to MAX_CURSOR_BYTES."""

    fraction: float = 0.0
    cursor: bytes = b""

    def to_text(self) -> str:
        """As it is stored and kept: never empty."""
        return f"{self.fraction!r} {b64encode(self.cursor).decode()}"

    @classmethod
    def from_text(cls, text: str) -> KeptProgress:
        fraction, cursor = text.split(" ")
        return cls(float(fraction), b64decode(cursor))
