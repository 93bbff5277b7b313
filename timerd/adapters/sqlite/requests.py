"""Which messages were stored, and what was answered: so that a repeat within a day stores nothing (protocol section 5),
nor one that comes while its tasks are still to fire, or have fired within a day.

The prefixes are random, so each lands on its own page of the index: it holds only them and the commit. The replies of a
commit lie together in one block, which also names its prefixes: that is how they are found again when they expire.

What has to be known for longer than a day stands among the registers, where each has a time of its own.

Hardly a message is a repeat. So what a commit will answer is written at once, and what is known is read only where that
shows that something is: a statement less, and at each the thread gives the interpreter away and waits for a busy loop.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice

from timerd.adapters.sqlite.inserts import delete_rows, insert_rows
from timerd.model.identity import PREFIX_BYTES
from timerd.model.registers import Table, request_name

# A call is remembered for a day, and its tasks may be due some time after it was made.
_MARGIN_MS = 3_600_000
KEEP_MS = 86_400_000 + _MARGIN_MS
_MOST_EXPIRED = 3
_MOST_ASKED = 512
_KIND: str = Table.KEYS.value
# By the index, which holds those that expire.
_ANY_BETWEEN = "SELECT EXISTS (SELECT 1 FROM registers WHERE expires_ms > 0 AND expires_ms BETWEEN ? AND ?)"
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
        # Of what is remembered in this commit, until when beyond a day.
        self._kept_until_ms: Mapping[bytes, int] = {}
        # The registers for that, which are written together.
        self._kept: list[tuple[object, ...]] = []
        # When the oldest block expires, as far as it is known.
        self._expires_ms = 0
        self._soon = _ComingDue(connection)

    def look_up(
        self, replies: Mapping[bytes, bytes], now_ms: int, due_ms: Mapping[bytes, int], late: Set[bytes]
    ) -> None:
        """Before `reply_to` is asked of messages: prefix -> what each is answered if it is not known, which is then to
        be remembered before the next `flush`. `due_ms`: prefix -> when its last task is due; `late`: the messages that
        come after some of their instants."""
        far_ms = now_ms + _MARGIN_MS
        self._kept_until_ms = {prefix: ms + KEEP_MS for prefix, ms in due_ms.items() if ms > far_ms}
        if may_be_kept := due_ms.keys() if self._soon.are_any(now_ms) else self._kept_until_ms.keys() | late:
            self._stored.update(_read_kept(self._connection, may_be_kept))
        fresh = {prefix: reply for prefix, reply in replies.items() if prefix not in self._stored}
        if fresh and not self._claim(fresh, now_ms):
            self._read(fresh)

    def reply_to(self, prefix: bytes) -> bytes | None:
        """None: it is not known."""
        stored = self._stored.get(prefix)
        return self._remembered.get(prefix) if stored is None else stored

    def known_of(self, prefixes: Sequence[bytes]) -> dict[int, bytes]:
        """As `reply_to` of each of many messages, no two of which are equal: which of them are known -> their
        replies."""
        if not self._stored and not self._remembered:
            return {}
        said = enumerate(map(self.reply_to, prefixes))
        return {n: reply for n, reply in said if reply is not None}

    def remember(self, prefix: bytes, reply: bytes) -> None:
        self._remembered[prefix] = reply
        if until_ms := self._kept_until_ms.get(prefix):
            self._kept.append((_KIND, request_name(prefix), until_ms, reply))

    def flush(self, now_ms: int) -> None:
        insert_rows(self._connection, "INSERT OR IGNORE INTO registers", self._kept)
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
        self._stored.update(_read(self._connection, prefixes))

    def _write(self, verb: str, replies: Mapping[bytes, bytes], now_ms: int) -> int:
        """Returns the name of the block."""
        row = (now_ms + KEEP_MS, _pack(replies))
        block = self._connection.execute("INSERT INTO replies (expires_ms, body) VALUES (?,?)", row).lastrowid
        assert block is not None
        insert_rows(self._connection, f"{verb} INTO requests", [(prefix, block) for prefix in sorted(replies)])
        return block

    def _delete(self, block: int, prefixes: Iterable[bytes]) -> None:
        delete_rows(self._connection, "DELETE FROM requests WHERE block = ? AND prefix", prefixes, block)
        self._connection.execute("DELETE FROM replies WHERE block = ?", (block,))

    def _forget_commit(self) -> None:
        self._remembered.clear()
        self._stored.clear()
        self._kept.clear()
        self._claimed, self._kept_until_ms = {}, {}

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


class _ComingDue:
    """Messages of more than a day ago whose tasks are due within the hour: their repeats look as if they were known for
    a day only. Hardly ever are there any, so one look an hour tells it for all."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._looked_ms = -_MARGIN_MS
        self._are_any = False

    def are_any(self, now_ms: int) -> bool:
        """What was stored since the look is known anyway."""
        if not self._looked_ms <= now_ms < self._looked_ms + _MARGIN_MS:
            between_ms = now_ms + KEEP_MS, now_ms + KEEP_MS + 2 * _MARGIN_MS
            [found] = self._connection.execute(_ANY_BETWEEN, between_ms).fetchone()
            self._looked_ms, self._are_any = now_ms, bool(found)
        return self._are_any


def read_replies(connection: sqlite3.Connection, prefixes: Sequence[bytes], now_ms: int) -> list[bytes | None]:
    """Without those that may be forgotten in a moment: who is told that a message is known sends it once more."""
    lasting_ms = now_ms + _MARGIN_MS // 2
    stored = _read(connection, prefixes, lasting_ms) | _read_kept(connection, prefixes, lasting_ms)
    return [stored.get(prefix) for prefix in prefixes]


def _read_kept(connection: sqlite3.Connection, prefixes: Iterable[bytes], lasting_ms: int = 0) -> dict[bytes, bytes]:
    """Of many messages by one statement: at each one the thread may wait for a busy loop."""
    stored: dict[bytes, bytes] = {}
    named = iter([(request_name(prefix), prefix) for prefix in prefixes])
    while part := dict(islice(named, _MOST_ASKED)):
        places = ",".join("?" * len(part))
        query = f"SELECT name, value FROM registers WHERE kind = ? AND name IN ({places}) AND expires_ms > ?"
        rows = connection.execute(query, (_KIND, *part, lasting_ms)).fetchall()
        stored.update((part[name], value) for name, value in rows)
    return stored


def _read(connection: sqlite3.Connection, prefixes: Iterable[bytes], lasting_ms: int = 0) -> dict[bytes, bytes]:
    stored: dict[bytes, bytes] = {}
    waiting = iter(prefixes)
    while part := list(islice(waiting, _MOST_ASKED)):
        query = f"SELECT prefix, block FROM requests WHERE prefix IN ({','.join('?' * len(part))})"
        for prefix, block in connection.execute(query, part).fetchall():
            row = connection.execute(
                "SELECT body FROM replies WHERE block = ? AND expires_ms > ?", (block, lasting_ms)
            ).fetchone()
            if row is not None:
                stored[prefix] = _unpack(row[0])[prefix]
    return stored


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
