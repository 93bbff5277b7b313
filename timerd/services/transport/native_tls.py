"""TLS at the native door, from the side of the event loop, which reads its files and judges them.

A handshake waits for a look at the files, as with grpcio, which asks for them at each. All that wait in one turn of the
loop have one look.
"""

from __future__ import annotations

import logging

from timerd.config import TlsConfig
from timerd.services.transport.native_wire import NativeModule, NativeWire
from timerd.services.transport.tls import TlsFiles, read_tls

log = logging.getLogger(__name__)


def tls_objection(config: TlsConfig, native: NativeModule) -> str:
    """What has to be done before the door can speak TLS with these files; empty: nothing. Raises StartupError where
    nobody could."""
    if config.certificate_file is None:
        return ""
    try:
        native.check_tls(read_tls(config))
    except ValueError as error:
        return f"give it TLS files that it can use ({error})"
    return ""


class Greeting:
    """Lets handshakes go on with what is in the files. None: there are no handshakes."""

    def __init__(self, wire: NativeWire, files: TlsFiles | None) -> None:
        self._wire = wire
        self._files = files

    def greet(self, through: int) -> None:
        try:
            self._look()
        finally:
            self._wire.greet(through)

    def _look(self) -> None:
        fresh = self._files.fresh() if self._files is not None else None
        if fresh is None:
            return
        try:
            self._wire.renew(fresh)
        except ValueError as error:
            log.error("The native front door cannot use the new TLS files; the old ones stay in force. %s", error)
