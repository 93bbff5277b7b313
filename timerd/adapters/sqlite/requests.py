"""Which messages were stored, and what was answered: so that a repeat within a day stores nothing (protocol section 5).

The prefixes are random, so each lands on its own page of the index: it holds only them and the commit. The replies of a
commit lie together in one block, which also names its prefixes: that is how they are found again when they expire.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib

from timerd.model.identity import PREFIX_BYTES

KEEP_MS = 86_400_000
_MOST_EXPIRED = 3
_HEAD = struct.Struct(f"<{PREFIX_BYTES}sI")


class Requests:
    """The writer's view."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._pending: dict[bytes, bytes] = {}
        # When the oldest block expires, as far as it is known.
        self._expires_ms = 0

    def reply_to(self, prefix: bytes) -> bytes | None:
        """None: it is not known."""
        if prefix in self._pending:
            return self._pending[prefix]
        found = self._connection.execute("SELECT block FROM requests WHERE prefix = ?", (prefix,)).fetchone()
        if found is None:
            return None
        row = self._connection.execute("SELECT body FROM replies WHERE block = ?", found).fetchone()
        return _unpack(row[0]).get(prefix) if row else None

    def remember(self, prefix: bytes, reply: bytes) -> None:
        self._pending[prefix] = reply

    def flush(self, now_ms: int) -> None:
        if not self._pending:
            return
        row = (now_ms + KEEP_MS, _pack(self._pending))
        block = self._connection.execute("INSERT INTO replies (expires_ms, body) VALUES (?,?)", row).lastrowid
        rows = [(prefix, block) for prefix in sorted(self._pending)]
        self._connection.executemany("INSERT OR REPLACE INTO requests VALUES (?,?)", rows)
        self._pending.clear()

    def forget(self) -> None:
        self._pending.clear()
        self._expires_ms = 0

    def expire(self, now_ms: int) -> None:
        """At each commit, so that as much goes as comes."""
        if now_ms < self._expires_ms:
            return
        query = "SELECT block, expires_ms, body FROM replies ORDER BY block LIMIT ?"
        for block, expires_ms, body in self._connection.execute(query, (_MOST_EXPIRED,)).fetchall():
            self._expires_ms = expires_ms
            if now_ms < expires_ms:
                return
            rows = [(prefix, block) for prefix in _unpack(body)]
            self._connection.executemany("DELETE FROM requests WHERE prefix = ? AND block = ?", rows)
            self._connection.execute("DELETE FROM replies WHERE block = ?", (block,))


def _pack(replies: dict[bytes, bytes]) -> bytes:
    heads = b"".join([_HEAD.pack(prefix, len(reply)) for prefix, reply in replies.items()])
    return zlib.compress(len(replies).to_bytes(4, "little") + heads + b"".join(replies.values()), 1)


def _unpack(body: bytes) -> dict[bytes, bytes]:
    raw = zlib.decompress(body)
    count = int.from_bytes(raw[:4], "little")
    at = 4 + count * _HEAD.size
    out: dict[bytes, bytes] = {}
    for prefix, size in _HEAD.iter_unpack(raw[4:at]):
        out[prefix] = raw[at : at + size]
        at += size
    return out
