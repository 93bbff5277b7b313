"""What operators do, in the store: so all instances tell of it, and it outlives the machine of each.

A call is two notes, as in the file (audit_log.py): `asked` is durable before anything is done, `ended` follows. They
lie in a place for each day, the newest first, and go after 90 days.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from itertools import count

from timerd.ports import Entry, EntryKey, Store
from timerd.services.transport.audit_log import AuditedCall, AuditRecord, audited_call

KEPT_DAYS = 90
DAY_MS = 86_400_000
# The names of the days of which there are any.
_DAYS = b"audit/days"
_AT_ONCE = 500
_MOST_DAYS = 1_000
# From it the time is subtracted, so that the newest is the first by name.
_LAST_MS = (1 << 48) - 1
_ASKED, _ENDED, _AFTER = b"/asked", b"/ended", b"/~"
_TIME_CHARS = 12
_MOST_OF_A_MS = 1 << 20
_numbers = count()


class AuditRecords:
    """`now_ms`: engine time."""

    def __init__(self, store: Store, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms
        # Which days this instance has announced, and when it last looked for what is too old.
        self._announced: set[int] = set()
        self._looked_day = 0

    def now_ms(self) -> int:
        return self._now_ms()

    async def write(self, record: AuditRecord) -> None:
        """Durable when it returns. Raises StoreUnavailable, StoreUnknown."""
        day, name = _time_ms(record["id"]) // DAY_MS, record["id"].encode()
        if day not in self._announced:
            await self._store.write_entries([Entry(EntryKey(_DAYS, b"%06d" % day), b"")])
            self._announced.add(day)
        suffix = _ASKED if record["stage"] == "asked" else _ENDED
        value = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
        await self._store.write_entries([Entry(EntryKey(_place(day), name + suffix), value)])

    async def calls(self, start_ms: int, end_ms: int, after: str) -> AsyncIterator[AuditedCall]:
        """The newest first, of those behind `after` (an id; empty: all)."""
        first = min(end_ms - 1, _time_ms(after)) if after else end_ms - 1
        for day in reversed(await self._days()):
            if start_ms // DAY_MS <= day <= first // DAY_MS:
                behind = after.encode() + _AFTER if after else b"%012x" % (_LAST_MS - (end_ms - 1))
                async for call in self._of_day(day, behind):
                    if _time_ms(call.id) < start_ms:
                        return
                    yield call

    async def _of_day(self, day: int, behind: bytes) -> AsyncIterator[AuditedCall]:
        asked: AuditRecord | None = None
        async for entry in self._entries(_place(day), behind):
            record: AuditRecord = json.loads(entry.value)
            if entry.key.name.endswith(_ASKED):
                if asked is not None:
                    yield audited_call(asked, None)
                asked = record
            elif asked is not None and asked["id"] == record["id"]:
                yield audited_call(asked, record)
                asked = None
        if asked is not None:
            yield audited_call(asked, None)

    async def _entries(self, place: bytes, behind: bytes) -> AsyncIterator[Entry]:
        while entries := await self._store.list_entries(place, behind, _AT_ONCE):
            for entry in entries:
                yield entry
            behind = entries[-1].key.name

    async def drop_expired(self) -> None:
        """Once a day: what is older than 90 days."""
        today = self.now_ms() // DAY_MS
        if today == self._looked_day:
            return
        for day in await self._days():
            if day < today - KEPT_DAYS:
                while old := await self._store.list_entries(_place(day), b"\0", _AT_ONCE):
                    await self._store.remove_entries([entry.key for entry in old])
                await self._store.remove_entries([EntryKey(_DAYS, b"%06d" % day)])
        self._looked_day = today

    async def _days(self) -> list[int]:
        return [int(entry.key.name) for entry in await self._store.list_entries(_DAYS, b"\0", _MOST_DAYS)]


def new_call_id(now_ms: int) -> str:
    """A later one comes before it in the order of names; of one instance also those of one millisecond."""
    return f"{_LAST_MS - now_ms:012x}{_MOST_OF_A_MS - next(_numbers) % _MOST_OF_A_MS:06x}{secrets.token_hex(5)}"


def is_call_id(text: str) -> bool:
    return len(text) == _TIME_CHARS + 16 and not set(text) - set("0123456789abcdef")


def _time_ms(call_id: str) -> int:
    return _LAST_MS - int(call_id[:_TIME_CHARS], 16)


def _place(day: int) -> bytes:
    return b"audit/%06d" % day


def iso_of(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
