"""A Session of one blocking caller: a socket, one message under way, and no thread or event loop on the way.

It is the short way and never the only one. Whatever it meets that is not an answer (a server that is not there or goes,
a stream that is refused, silence, a message too large for now) it drops its connection and says so by NoAnswer; whoever
called asks again through gRPC, which says what is wrong or waits until the server is back. So there are no errors here
to tell apart, and for a while after one the short way is not tried.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Any

from google.protobuf.message import DecodeError

from timerd.sdk.backoff import Backoff
from timerd.sdk.connection import Connection
from timerd.sdk.one_stream import OneStream
from timerd.sdk.side_door import SESSION_PATH, Door, door_in, may_have_one
from timerd.v1 import timer_service_pb2 as pb

# Whoever listens and has not answered by then is asked once more, by the long way.
PATIENCE_S = 2.0
# A server hangs up on who leaves its pings unanswered; the first comes after 20 s.
MOST_IDLE_S = 15.0
_READ_BYTES = 65_536
_LEAST_WAIT_S = 0.001


class NoAnswer(Exception):
    """`may_be_done`: the server may have got the request."""

    def __init__(self, *, may_be_done: bool) -> None:
        super().__init__()
        self.may_be_done = may_be_done


# (family, type, protocol, canonical name, address), as getaddrinfo has them.
Resolve = Callable[[str, int], Sequence[tuple[Any, ...]]]


class BlockingStream:
    """For one thread at a time. `resolve` finds the addresses of a name in so much time as the caller has."""

    def __init__(self, connection: Connection, timeout_s: float, resolve: Resolve = socket.getaddrinfo) -> None:
        self._connection = connection
        self._address = connection.direct_address()
        self._resolve = resolve
        # For the connection, and for an answer. The rest of the timeout is left for the long way.
        self._patience_s = min(PATIENCE_S, timeout_s / 4)
        self._sequence = 0
        self._socket: socket.socket | None = None
        self._readable = select.poll()
        self._http = OneStream()
        self._owner = 0
        self._used_s = 0.0
        self._backoff = Backoff()
        self._not_before_s = 0.0 if self._address is not None else inf

    def ask(self, request: pb.SessionRequest) -> pb.SessionResponse:
        """Raises NoAnswer."""
        now_s = time.monotonic()
        link = self._open(now_s)
        self._sequence += 1
        request.sequence = self._sequence
        self._http.send(request.SerializeToString(deterministic=True))
        self._used_s = now_s
        try:
            link.sendall(self._http.to_send())
            answer = _hear(self._http, link, now_s + self._patience_s, lambda said: said.sequence == self._sequence)
        except (OSError, DecodeError) as lost:
            self._give_up()
            raise NoAnswer(may_be_done=True) from lost
        except BaseException:
            # Interrupted half-way: what comes next on this connection would be half an answer.
            self.close()
            raise
        self._backoff.reset()
        return answer

    def close(self) -> None:
        """The next call opens it again."""
        link, self._socket = self._socket, None
        if link is not None:
            with suppress(KeyError):
                self._readable.unregister(link)
            link.close()

    def hang_up(self) -> None:
        """In any thread, and for good: a call that waits has no answer then."""
        self._not_before_s = inf
        link = self._socket
        if link is not None and self._owner == os.getpid():
            with suppress(OSError):
                # Not by the method of a TLS socket, which would pull away what another thread reads with.
                socket.socket.shutdown(link, socket.SHUT_RDWR)

    def _open(self, now_s: float) -> socket.socket:
        if self._socket is not None and self._is_usable(self._socket, now_s):
            return self._socket
        self.close()
        if now_s < self._not_before_s:
            raise NoAnswer(may_be_done=False)
        try:
            self._socket = link = self._connect(now_s + self._patience_s)
        except (OSError, ValueError, OverflowError, DecodeError) as failed:
            self._give_up()
            raise NoAnswer(may_be_done=False) from failed
        self._readable.register(link, select.POLLIN)
        return link

    def _is_usable(self, link: socket.socket, now_s: float) -> bool:
        """A child that was forked has its parent's connection, which is the parent's. What a server said meanwhile that
        went away lies here unread."""
        if self._owner != os.getpid() or now_s - self._used_s >= MOST_IDLE_S:
            return False
        try:
            while self._readable.poll(0) and not self._http.ended:
                self._http.take(_received(link))
        except OSError:
            return False
        return not (self._http.is_leaving or self._http.ended)

    def _connect(self, until_s: float) -> socket.socket:
        assert self._address is not None
        self._owner = os.getpid()
        connection, (host, port) = self._connection, self._address
        link = _dialled(self._resolve(host, port), until_s)
        try:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if connection.has_tls:
                link = _with_tls(link, connection, host)
            self._http = self._opened(link, until_s, ())
            link = self._beside(link, until_s)
            link.settimeout(self._patience_s)
        except BaseException:
            link.close()
            raise
        return link

    def _opened(self, link: socket.socket, until_s: float, headers: Sequence[tuple[str, str]]) -> OneStream:
        http = OneStream()
        link.sendall(http.opening(SESSION_PATH, self._connection, headers))
        # It says how much it takes. Who is refused is so before that, and then nothing was asked for.
        _hear(http, link, until_s, lambda said: said.HasField("window"))
        return http

    def _beside(self, link: socket.socket, until_s: float) -> socket.socket:
        """By the side door, where there is one and it opens. Whoever is silent there leaves time for an answer by the
        ordinary port."""
        door = door_in(self._http.header_blocks) if may_have_one(self._connection) else None
        if door is None:
            return link
        until_s -= (until_s - time.monotonic()) / 2
        with suppress(OSError, DecodeError):
            beside = _entered(door, until_s)
            try:
                self._http = self._opened(beside, until_s, door.headers)
            except BaseException:
                beside.close()
                raise
            link.close()
            return beside
        return link

    def _give_up(self) -> None:
        self.close()
        self._not_before_s = max(self._not_before_s, time.monotonic() + self._backoff.next_s())


def _dialled(addresses: Sequence[tuple[Any, ...]], until_s: float) -> socket.socket:
    """The first of them that answers."""
    failed: OSError = ConnectionError("The name has no address.")
    for family, kind, protocol, _, address in addresses:
        link = socket.socket(family, kind, protocol)
        try:
            link.settimeout(max(_LEAST_WAIT_S, until_s - time.monotonic()))
            link.connect(address)
            return link
        except OSError as error:
            failed = error
            link.close()
        except BaseException:
            link.close()
            raise
    raise failed


def _entered(door: Door, until_s: float) -> socket.socket:
    link = socket.create_connection((door.host, door.port), max(_LEAST_WAIT_S, until_s - time.monotonic()))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def _hear(
    http: OneStream, link: socket.socket, until_s: float, is_it: Callable[[pb.SessionResponse], bool]
) -> pb.SessionResponse:
    while True:
        messages = http.take(_received(link))
        if data := http.to_send():
            link.sendall(data)
        for message in messages:
            response = pb.SessionResponse.FromString(message)
            if is_it(response):
                return response
        if http.ended or time.monotonic() > until_s:
            raise ConnectionError(http.ended)


def _received(link: socket.socket) -> bytes:
    data = link.recv(_READ_BYTES)
    if not data:
        raise ConnectionError("The server hung up.")
    return data


def _with_tls(link: socket.socket, connection: Connection, host: str) -> socket.socket:
    secured = connection.tls_context().wrap_socket(link, server_hostname=connection.tls_server_name or host)
    if secured.selected_alpn_protocol() != "h2":
        secured.close()
        raise ssl.SSLError("The other side does not speak HTTP/2.")
    return secured
