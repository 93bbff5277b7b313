"""The front door in Rust, seen from the event loop: from its opening to its end.

Its thread (native/src/door.rs) takes the unary calls and passes everything else to grpcio's server, which listens on a
socket in a folder that nobody else may open. What is asked, refused and answered is decided behind both in one place.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from timerd.model.errors import StartupError
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
from timerd.services.transport.local_calls import Caller
from timerd.services.transport.native_calls import NativeCalls, caller_of
from timerd.services.transport.native_tls import Greeting
from timerd.services.transport.native_wire import NativeModule, NativeWire
from timerd.services.transport.tls import TlsFiles

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
        tls = self._served.config.tls
        files = TlsFiles(tls) if tls.certificate_file is not None else None
        folder = tempfile.TemporaryDirectory(prefix="timerd-")
        upstream = str(Path(folder.name, "grpcio"))
        try:
            wire = self._made(upstream, files)
            self._served.server.add_insecure_port(f"unix:{upstream}")
            await self._served.server.start()
            port = _listening(wire, address)
        except StartupError:
            await self._served.server.stop(0)
            folder.cleanup()
            raise
        self._served.calls.open()
        calls = NativeCalls(self._served, wire, Greeting(wire, files).greet)
        self._opened = _Opened(folder, wire, calls)
        asyncio.get_running_loop().add_reader(wire.bell(), calls.rung)
        return address._replace(port=port)

    def _made(self, upstream: str, files: TlsFiles | None) -> NativeWire:
        try:
            wire = self._native.Door(
                self._served.methods,
                upstream,
                calls_per_connection=calls_per_connection(self._served.config),
                message_bytes=MAX_WIRE_BYTES,
                unread_bytes=UNREAD_BYTES,
                ping_every_ms=PING_EVERY_MS,
                ping_timeout_ms=PING_TIMEOUT_MS,
                tls=files.current if files is not None else None,
            )
        except ValueError as error:
            raise StartupError(f"The native front door cannot use the TLS files: {error}.") from error
        self._served.passed_on.know(partial(caller_at, wire))
        return wire

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


def _listening(wire: NativeWire, address: Address) -> int:
    try:
        return wire.listen(address.host, address.port)
    except OSError as error:
        raise cannot_listen(address) from error


def caller_at(wire: NativeWire, connection: int) -> Caller | None:
    shown = wire.shown(connection)
    return caller_of(shown) if shown is not None else None


async def _finished(wire: NativeWire, grace_s: float) -> None:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + grace_s
    while wire.figures()["in_hand"] and loop.time() < until_s:  # noqa: ASYNC110 - another thread has them
        await asyncio.sleep(LOOK_S)
