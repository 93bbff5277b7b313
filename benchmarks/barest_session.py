"""A server of Sessions in one thread that keeps each call on disk and does no more: no event loop, no second thread, no
rows, nothing that fires.

The SDK speaks to it as it does to timerd. So what it does is the most that could come of a part of the server, in
whatever language, that only takes in, checks and keeps single calls and leaves it to others to place them: that others
do so afterwards costs on top. `benchmarks.barest` runs it beside the others.
"""

from __future__ import annotations

import os
import selectors
import socket
import sqlite3
import threading
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, cast

from timerd.services.transport.served_stream import ServedStream
from timerd.v1 import timer_service_pb2 as wire

BUCKET_MS = 300_000
_PREFIX_BYTES, _MAC_BYTES = 12, 8
_WINDOW = wire.SessionResponse(
    window=wire.SessionWindow(max_unanswered_bytes=8 << 20, max_unanswered_requests=1_024)
).SerializeToString()


class _Call(NamedTuple):
    visitor: Visitor
    raw: bytes
    answer: bytes


class Visitor:
    """One caller's connection."""

    def __init__(self, link: socket.socket) -> None:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link = link
        self._http = ServedStream()
        self._is_open = False

    def heard(self) -> list[bytes] | None:
        """None: it has hung up."""
        data = self.link.recv(1 << 16)
        if not data:
            return None
        messages = self._http.take(data)
        for message in messages:
            self._http.was_read(len(message))
        if not self._is_open and self._http.fields:
            self._is_open = True
            self._http.accept()
            self.say(_WINDOW)
        return messages

    def say(self, message: bytes) -> None:
        self._http.send(message)
        self.link.sendall(self._http.to_send())


def serve(folder: Path) -> int:
    """Its port, in a thread of its own."""
    door = socket.create_server(("127.0.0.1", 0))
    port: int = door.getsockname()[1]
    threading.Thread(target=_run, args=(door, folder / "calls.db"), daemon=True).start()
    return port


def opened(path: Path) -> sqlite3.Connection:
    store = sqlite3.connect(path, isolation_level=None)
    store.execute("PRAGMA journal_mode = WAL")
    store.execute("PRAGMA synchronous = FULL")
    store.execute("CREATE TABLE calls (id INTEGER PRIMARY KEY, body BLOB)")
    return store


def keep(store: sqlite3.Connection, bodies: list[bytes]) -> None:
    """They are on disk when it returns."""
    store.execute("BEGIN IMMEDIATE")
    store.executemany("INSERT INTO calls (body) VALUES (?)", [(body,) for body in bodies])
    store.execute("COMMIT")


def _run(door: socket.socket, path: Path) -> None:
    store, secret, ready = opened(path), os.urandom(32), selectors.DefaultSelector()
    ready.register(door, selectors.EVENT_READ)
    while True:
        calls = [
            call for key, _ in ready.select() for call in _heard(ready, door, cast(Visitor | None, key.data), secret)
        ]
        if calls:
            keep(store, [call.raw for call in calls])
        for call in calls:
            call.visitor.say(call.answer)


def _heard(ready: selectors.BaseSelector, door: socket.socket, visitor: Visitor | None, secret: bytes) -> list[_Call]:
    if visitor is None:
        link, _ = door.accept()
        ready.register(link, selectors.EVENT_READ, Visitor(link))
        return []
    messages = visitor.heard()
    if messages is None:
        ready.unregister(visitor.link)
        visitor.link.close()
        return []
    return [_Call(visitor, raw, _answer(raw, secret)) for raw in messages]


def _answer(raw: bytes, secret: bytes) -> bytes:
    """With what the SDK makes the id of."""
    request = wire.SessionRequest.FromString(raw)
    columns = request.schedule.columns
    bucket_ms = columns.fire_at_ms[0] // BUCKET_MS * BUCKET_MS
    prefix = blake2b(raw, digest_size=_PREFIX_BYTES).digest()
    mac = blake2b(prefix + bucket_ms.to_bytes(8, "big"), digest_size=_MAC_BYTES, key=secret).digest()
    placement = wire.Placement(
        prefix=prefix, bucket_length_ms=BUCKET_MS, bucket_start_ms=[bucket_ms], shards=[0], macs=mac
    )
    return wire.SessionResponse(
        sequence=request.sequence, schedule=wire.ScheduleBatchResponse(stored=1, placement=placement)
    ).SerializeToString()
