"""What the native front door and Python say to each other: the face of the package `timerd_native`, which is written in
Rust (native/src/door.rs has its theory) and may not be installed."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, cast

log = logging.getLogger(__name__)
# Grows with that of native/src/lib.rs.
WIRE_VERSION = 2
# In a certificate that was verified: its alternative names, and its common name, empty where it has none.
NativeNames: TypeAlias = tuple[Sequence[bytes], bytes]
# (what both sides know it by, place of the method, message, headers, peer, names; None: without a certificate)
NativeCall: TypeAlias = tuple[int, int, bytes, bytes, str, NativeNames | None]
# (peer, names)
NativeShown: TypeAlias = tuple[str, NativeNames | None]
# In PEM: certificate, key, and the authority of callers, where they have to show one.
NativePem: TypeAlias = tuple[bytes, bytes, bytes | None]
NativeReply: TypeAlias = tuple[int, bytes]


class NativeFailure(NamedTuple):
    """Texts as the wire has them."""

    number: int
    code: int
    message: bytes
    trailers: Sequence[tuple[str, bytes]]


class NativeWire(Protocol):
    """A door of the package."""

    def listen(self, host: str, port: int) -> int:
        """Calls come from now on; returns the port. Raises OSError."""
        ...

    def bell(self) -> int:
        """A descriptor that is readable while there is something to take."""
        ...

    def take(self, most: int) -> tuple[list[NativeCall], list[int], int]:
        """Calls that have come, at most so many; the numbers of those that nobody waits for any more; and the last
        handshake that waits to be greeted, or 0."""
        ...

    def greet(self, through: int) -> None:
        """Handshakes up to this one go on."""
        ...

    def renew(self, pem: NativePem) -> None:
        """Handshakes that go on from now have these. Raises ValueError, and those before stay in force."""
        ...

    def shown(self, connection: int) -> NativeShown | None:
        """What the caller at the other end has shown. None: there is no such connection."""
        ...

    def answer(self, replies: Sequence[NativeReply], failures: Sequence[NativeFailure]) -> list[int]:
        """Returns the numbers of those that nobody waited for."""
        ...

    def drain(self) -> None:
        """Accepts nobody any more, and asks all to go."""
        ...

    def close(self, wait_ms: int) -> None:
        """Blocks until all is written and hung up, at most so long."""
        ...

    def figures(self) -> Mapping[str, int]: ...


class MakesWire(Protocol):
    """`methods`: the paths of the unary calls that are taken; `upstream`: the socket of who takes all else; `tls` None:
    it is not spoken. Raises ValueError where it cannot be."""

    def __call__(
        self,
        methods: Sequence[str],
        upstream: str,
        *,
        calls_per_connection: int,
        message_bytes: int,
        unread_bytes: int,
        ping_every_ms: int,
        ping_timeout_ms: int,
        tls: NativePem | None,
    ) -> NativeWire: ...


class NativeModule(Protocol):
    """The package."""

    @property
    def Door(self) -> MakesWire: ...

    def wire_version(self) -> int: ...

    def check_tls(self, pem: NativePem) -> None:
        """Raises ValueError where no door could speak TLS with it."""
        ...


def load_native() -> NativeModule | None:
    """None: it is not installed, or cannot be loaded here."""
    try:
        return cast(NativeModule, importlib.import_module("timerd_native"))
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        log.warning("timerd-native is installed and cannot be loaded: %s. Install the wheel for this machine.", error)
        return None
