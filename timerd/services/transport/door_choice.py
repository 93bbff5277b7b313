"""Which front door serves: chosen once, at start, by the setting `front_door` and by what is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from timerd.config import ServerConfig
from timerd.model.errors import StartupError
from timerd.services.transport.front_door import GRPCIO, NATIVE, FrontDoor, ServedCalls
from timerd.services.transport.grpcio_door import GrpcioDoor
from timerd.services.transport.listen import is_loopback
from timerd.services.transport.native_door import NativeDoor
from timerd.services.transport.native_tls import tls_objection
from timerd.services.transport.native_wire import WIRE_VERSION, NativeModule, load_native

log = logging.getLogger(__name__)


def make_door(served: ServedCalls, load: Callable[[], NativeModule | None] = load_native) -> FrontDoor:
    """Raises StartupError where the native door is asked for and cannot serve."""
    config = served.config
    if config.front_door == GRPCIO:
        return GrpcioDoor(served)
    native = load()
    objection = _objection(config, native)
    if native is not None and not objection:
        return NativeDoor(served, native)
    if config.front_door == NATIVE:
        raise StartupError(f"The native front door cannot serve: {objection}, or set front_door to auto or grpcio.")
    log.log(_level(config, native), "The front door is grpcio: for the native one, %s.", objection)
    return GrpcioDoor(served)


def _level(config: ServerConfig, native: NativeModule | None) -> int:
    """On a machine by itself, as of somebody who tries timerd, what could be installed is not said at each start."""
    host = config.listen.rpartition(":")[0].strip("[]")
    return logging.DEBUG if native is None and is_loopback(host) else logging.INFO


def _objection(config: ServerConfig, native: NativeModule | None) -> str:
    """What has to be done for the native door; empty: nothing. Raises StartupError where no door could serve."""
    if native is None:
        return "install timerd-native"
    if native.wire_version() != WIRE_VERSION:
        return "install the timerd-native that belongs to this timerd"
    return tls_objection(config.tls, native)
