"""Instants in sentences: whatever floor refuses something shows it the same way."""

from __future__ import annotations

from datetime import UTC, datetime

LAST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z, the end of Timestamp's range


def shown(at_ms: int) -> str:
    if not 0 <= at_ms <= LAST_SECOND * 1000:
        return f"{at_ms} ms since 1970"
    text = datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{at_ms % 1000:03d}Z"
