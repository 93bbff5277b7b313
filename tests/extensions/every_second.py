"""A gate that holds back every second row for a while."""

from __future__ import annotations

from timerd.core.gates import DueBatch, Fate, Fates, Hold

HOLD_MS = 3_000


class EverySecond:
    """Of the rows that come to it, every second one waits until HOLD_MS after it came, and then goes: to hold it again
    and again would keep it for ever."""

    def __init__(self) -> None:
        self._came = 0
        # By digest, until when it waits.
        self._held_until_ms: dict[bytes, int] = {}

    def judge(self, batch: DueBatch, now_ms: int) -> Fates:
        fates: dict[int, Fate] = {}
        for row in batch.left():
            until_ms = self._until_ms(batch.due.digests[row], now_ms)
            if until_ms > now_ms:
                fates[row] = Hold(until_ms)
        return fates

    def _until_ms(self, digest: bytes, now_ms: int) -> int:
        until_ms = self._held_until_ms.get(digest)
        if until_ms is None:
            self._came += 1
            if self._came % 2:
                return now_ms
            until_ms = self._held_until_ms[digest] = now_ms + HOLD_MS
        elif until_ms <= now_ms:
            del self._held_until_ms[digest]
        return until_ms
