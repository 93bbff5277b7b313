"""Which messages were stored, and what was answered: so that a repeat within a day stores nothing (protocol section 5).

The prefixes are random, so each lands on its own page of the index: it holds only them and the commit. The replies of a
commit lie together in one block, which also names its prefixes: that is how they are found again when they expire.

Hardly a message is a repeat. So what a commit will answer is written at once, and what is known is read only where that
shows that something is: a statement less, and at each the thread gives the interpreter away and waits for a busy loop.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Iterable, Mapping
from itertools import islice

from timerd.adapters.sqlite.inserts import insert_rows
from timerd.model.identity import PREFIX_BYTES

KEEP_MS = 86_400_000
_MOST_EXPIRED = 3
_MOST_ASKED = 512
_HEAD = struct.Struct(f"<{PREFIX_BYTES}sI")
# No compressed body begins so, as earlier versions wrote them. There is nothing to gain: prefixes are random, and
# replies are written in few bytes.
_PLAIN = b"\0"


class Requests:
    """The writer's view."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        # What is remembered in this commit, and what of it is written already.
        self._remembered: dict[bytes, bytes] = {}
        self._claimed: Mapping[bytes, bytes] = {}
        self._stored: dict[bytes, bytes] = {}
        # When the oldest block expires, as far as it is known.
        self._expires_ms = 0

    def look_up(self, replies: Mapping[bytes, bytes], now_ms: int) -> None:
        """Before `reply_to` is asked of messages: prefix -> what each is answered if it is not known, which is then to
        be remembered before the next `flush`."""
        if replies and not self._claim(replies, now_ms):
            self._read(replies)

    def reply_to(self, prefix: bytes) -> bytes | None:
        """None: it is not known."""
        stored = self._stored.get(prefix)
        return self._remembered.get(prefix) if stored is None else stored

    def remember(self, prefix: bytes, reply: bytes) -> None:
        self._remembered[prefix] = reply

    def flush(self, now_ms: int) -> None:
        left = {prefix: reply for prefix, reply in self._remembered.items() if prefix not in self._claimed}
        self._forget_commit()
        if left:
            self._write("INSERT OR REPLACE", left, now_ms)

    def _claim(self, replies: Mapping[bytes, bytes], now_ms: int) -> bool:
        """False: one of them is known, and nothing is written."""
        changes = self._connection.total_changes
        block = self._write("INSERT OR IGNORE", replies, now_ms)
        if self._connection.total_changes - changes == len(replies) + 1:
            self._claimed = replies
            return True
        self._delete(block, replies)
        return False

    def _read(self, prefixes: Iterable[bytes]) -> None:
        waiting = iter(prefixes)
        while part := list(islice(waiting, _MOST_ASKED)):
            query = f"SELECT prefix, block FROM requests WHERE prefix IN ({','.join('?' * len(part))})"
            for prefix, block in self._connection.execute(query, part).fetchall():
                row = self._connection.execute("SELECT body FROM replies WHERE block = ?", (block,)).fetchone()
                if row is not None:
                    self._stored[prefix] = _unpack(row[0])[prefix]

    def _write(self, verb: str, replies: Mapping[bytes, bytes], now_ms: int) -> int:
        """Returns the name of the block."""
        row = (now_ms + KEEP_MS, _pack(replies))
        block = self._connection.execute("INSERT INTO replies (expires_ms, body) VALUES (?,?)", row).lastrowid
        assert block is not None
        insert_rows(self._connection, f"{verb} INTO requests", [(prefix, block) for prefix in sorted(replies)])
        return block

    def _delete(self, block: int, prefixes: Iterable[bytes]) -> None:
        rows = [(prefix, block) for prefix in prefixes]
        self._connection.executemany("DELETE FROM requests WHERE prefix = ? AND block = ?", rows)
        self._connection.execute("DELETE FROM replies WHERE block = ?", (block,))

    def _forget_commit(self) -> None:
        self._remembered.clear()
        self._stored.clear()
        self._claimed = {}

    def forget(self) -> None:
        self._forget_commit()
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
            self._delete(block, _unpack(body))


def _pack(replies: Mapping[bytes, bytes]) -> bytes:
    heads = b"".join([_HEAD.pack(prefix, len(reply)) for prefix, reply in replies.items()])
    return b"".join((_PLAIN, len(replies).to_bytes(4, "little"), heads, *replies.values()))


def _unpack(body: bytes) -> dict[bytes, bytes]:
    raw = body[1:] if body[:1] == _PLAIN else zlib.decompress(body)
    count = int.from_bytes(raw[:4], "little")
    at = 4 + count * _HEAD.size
    out: dict[bytes, bytes] = {}
    for prefix, size in _HEAD.iter_unpack(raw[4:at]):
        out[prefix] = raw[at : at + size]
        at += size
    return out
