"""The front door in Rust, seen from the event loop: from its opening to its end.

Its thread (native/src/door.rs) takes the unary calls and passes everything else to grpcio's server, which listens on a
socket in a folder that nobody else may open. What is asked, refused and answered is decided behind both in one place.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from timerd.services.transport.decoding import MAX_WIRE_BYTES
from timerd.services.transport.front_door import NATIVE, ServedCalls
from timerd.services.transport.grpcio_door import (
    PING_EVERY_MS,
    PING_TIMEOUT_MS,
    UNREAD_BYTES,
    calls_per_connection,
    cannot_listen,
)
from timerd.services.transport.listen import Address
from timerd.services.transport.native_calls import NativeCalls
from timerd.services.transport.native_wire import NativeModule, NativeWire

# For what is answered and not written yet.
WRITTEN_S = 2.0
# How often an end that is waited for is looked at.
LOOK_S = 0.01


class _Opened(NamedTuple):
    folder: tempfile.TemporaryDirectory[str]
    wire: NativeWire
    calls: NativeCalls


class NativeDoor:
    """A FrontDoor."""

    name = NATIVE

    def __init__(self, served: ServedCalls, native: NativeModule) -> None:
        self._served = served
        self._native = native
        self._opened: _Opened | None = None

    @property
    def figures(self) -> Mapping[str, int]:
        """How many calls came, and which way they went."""
        return self._opened.wire.figures() if self._opened is not None else {}

    async def open(self, address: Address) -> Address:
        """Raises StartupError."""
        folder = tempfile.TemporaryDirectory(prefix="timerd-")
        upstream = str(Path(folder.name, "grpcio"))
        self._served.server.add_insecure_port(f"unix:{upstream}")
        await self._served.server.start()
        wire = _made(self._native, self._served, upstream)
        try:
            port = wire.listen(address.host, address.port)
        except OSError as error:
            await self._served.server.stop(0)
            folder.cleanup()
            raise cannot_listen(address) from error
        self._served.calls.open()
        calls = NativeCalls(self._served, wire)
        self._opened = _Opened(folder, wire, calls)
        asyncio.get_running_loop().add_reader(wire.bell(), calls.rung)
        return address._replace(port=port)

    async def close(self, grace_s: float) -> None:
        """What is passed on and what is answered here have the same grace."""
        opened, self._opened = self._opened, None
        if opened is None:
            await self._served.server.stop(grace_s)
            return
        opened.wire.drain()
        await asyncio.gather(self._served.server.stop(grace_s), _finished(opened.wire, grace_s))
        await opened.calls.give_up(WRITTEN_S)
        self._served.calls.close()
        await asyncio.to_thread(opened.wire.close, round(WRITTEN_S * 1000) if grace_s else 0)
        asyncio.get_running_loop().remove_reader(opened.wire.bell())
        opened.folder.cleanup()


def _made(native: NativeModule, served: ServedCalls, upstream: str) -> NativeWire:
    return native.Door(
        served.methods,
        upstream,
        calls_per_connection=calls_per_connection(served.config),
        message_bytes=MAX_WIRE_BYTES,
        unread_bytes=UNREAD_BYTES,
        ping_every_ms=PING_EVERY_MS,
        ping_timeout_ms=PING_TIMEOUT_MS,
    )


async def _finished(wire: NativeWire, grace_s: float) -> None:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + grace_s
    while wire.figures()["in_hand"] and loop.time() < until_s:  # noqa: ASYNC110 - another thread has them
        await asyncio.sleep(LOOK_S)
