"""Row keys side by side, as of what was sent together."""

from __future__ import annotations

from tests.unit.partition_rig import key

KEYS = [key(n, after_ms=1_000 + n) for n in range(40)]
