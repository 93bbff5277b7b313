"""A name whose addresses change, as that of a headless Service does in a rolling restart."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.sdk.fake_server import FakeServer
from timerd.client import Client

_ANSWERED, _A, _IN = 0x8180, 1, 1
_PATIENCE_S = 20


class NameServer:
    """Answers the first question with an address where nobody listens, and all others with the right one."""

    def __init__(self) -> None:
        self.asked = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            question, sender = self._socket.recvfrom(512)
            if not question:
                return
            self._socket.sendto(self._answer(question), sender)

    def _answer(self, message: bytes) -> bytes:
        question = message[12 : message.index(b"\0", 12) + 5]
        kind = struct.unpack("!H", question[-4:-2])[0]
        found = kind == _A
        address = "127.0.0.1" if self.asked else "127.0.0.2"
        self.asked += found
        head = message[:2] + struct.pack("!HHHHH", _ANSWERED, 1, int(found), 0, 0)
        row = struct.pack("!HHHIH", 0xC00C, _A, _IN, 0, 4) + socket.inet_aton(address)
        return head + question + (row if found else b"")

    def close(self) -> None:
        self._socket.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()


@pytest.fixture
def names() -> Iterator[NameServer]:
    server = NameServer()
    yield server
    server.close()


async def test_new_addresses_of_a_name_are_asked_for_soon(names: NameServer, server: FakeServer) -> None:
    """gRPC by itself would go on with what it knows for half a minute."""
    port = server.target.rpartition(":")[2]
    target = f"dns://127.0.0.1:{names.port}/instances.example:{port}"
    async with Client(target, timeout=_PATIENCE_S) as client:
        assert (await client.schedule("mails", b"hello", delay=60)).id
    assert names.asked >= 2
