"""The front door that is always there: grpcio's server listens by itself."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
import grpc.aio

from timerd.config import ServerConfig
from timerd.model.errors import StartupError
from timerd.services.transport.decoding import MAX_WIRE_BYTES
from timerd.services.transport.front_door import GRPCIO, ServedCalls
from timerd.services.transport.listen import Address
from timerd.services.transport.tls import TlsFiles, server_credentials

# Calls of one connection beyond the streams: the rest waits in the client.
_UNARY_CALLS_PER_CONNECTION = 1_000
# A peer that vanished is noticed within 10 s, so that its deliveries go elsewhere, and not before the SDK has noticed
# (6 s) and is back: then it says what did not reach it.
PING_EVERY_MS = 3_400
PING_TIMEOUT_MS = 6_500
# As in the SDK: answers to pings do not wait behind megabytes on a slow road.
UNREAD_BYTES = 512 << 10


class GrpcioDoor:
    """A FrontDoor."""

    name = GRPCIO

    def __init__(self, served: ServedCalls) -> None:
        self._config = served.config
        self._server = served.server

    async def open(self, address: Address) -> Address:
        """Raises StartupError."""
        port = self._bind(address)
        await self._server.start()
        return address._replace(port=port)

    def _bind(self, address: Address) -> int:
        tls = self._config.tls
        credentials = server_credentials(TlsFiles(tls)) if tls.certificate_file is not None else None
        try:
            if credentials is None:
                return self._server.add_insecure_port(str(address))
            return self._server.add_secure_port(str(address), credentials)
        except (RuntimeError, ValueError) as error:
            raise cannot_listen(address) from error

    async def close(self, grace_s: float) -> None:
        await self._server.stop(grace_s)


def cannot_listen(address: Address) -> StartupError:
    return StartupError(
        f"Cannot listen on {address}: see whether another program (perhaps another timerd) has the port "
        "already and whether the address is one of this machine; then choose another one."
    )


def grpcio_server(config: ServerConfig, interceptors: Sequence[grpc.aio.ServerInterceptor]) -> grpc.aio.Server:
    """It has no handlers yet, and listens nowhere."""
    return grpc.aio.server(interceptors=interceptors, options=options_of(config))


def calls_per_connection(config: ServerConfig) -> int:
    """As many may be open at one time."""
    return config.max_streams + _UNARY_CALLS_PER_CONNECTION


def options_of(config: ServerConfig) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", MAX_WIRE_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", calls_per_connection(config)),
        # Two servers on one port would share the calls between two data directories.
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", PING_EVERY_MS),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        # Workers and clients do the same from their side (every 3 s). By default gRPC takes that for an attack (it
        # allows one ping in 5 minutes) and hangs up with "too_many_pings".
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", UNREAD_BYTES),
    ]
