"""Where the server is and how to speak to it: one gRPC channel, with or without TLS."""

from __future__ import annotations

import asyncio

import grpc.aio

from timerd.sdk.transport.addresses import authority_of, server_address
from timerd.sdk.transport.affinity import PROCESS, check_unpatched
from timerd.sdk.transport.credentials import channel_credentials, check_pair, check_token, with_token
from timerd.sdk.transport.options import ConnectOptions
from timerd.sdk.transport.wakeups import ignore_idle_wakeups

_LOOPBACK = ("127.", "localhost", "[::1]", "unix:")
OPTIONS: tuple[tuple[str, int], ...] = (
    # gRPC itself would wait up to two minutes before it looks whether a restarted server is back.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # gRPC would ask for the addresses behind a name every 30 s at most; in a rolling restart all are new before that.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.max_receive_message_length", 32 << 20),
    ("grpc.max_send_message_length", 32 << 20),
    # A peer that vanished without a word is noticed within 6 s, also while nothing is under way: before the server
    # notices (services/server.py), so that a worker can say on a new stream what did not reach it. A server of ours
    # allows a ping a second; where one does not (a proxy between) it says so, and gRPC then asks less often. Without
    # the second timeout gRPC waits a minute for the answer to a ping.
    ("grpc.keepalive_time_ms", 3_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # No more is under way than a slow road (300 KB/s) carries within that time: an answer to a ping waits behind it.
    # gRPC's own estimate of the road asks by pings as well, and lets megabytes wait.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 512 << 10),
    # A connection of its own: a burst of deliveries in one client does not hold up the replies of another.
    ("grpc.use_local_subchannel_pool", 1),
)


class Connection:
    """What opens a channel, as often as it is needed. Raises InvalidTask for options that cannot be right."""

    def __init__(self, options: ConnectOptions) -> None:
        check_unpatched()
        self.target = server_address(options.target)
        self._options = options
        check_token(options.token, options.token_file, options.has_tls)
        check_pair(options.cert_file, options.key_file)

    def __repr__(self) -> str:
        return f"Connection({self._options!r})"

    def open_channel(self) -> grpc.aio.Channel:
        """Raises TimerdError where gRPC cannot be used."""
        given = self._options
        PROCESS.enter()
        ignore_idle_wakeups(asyncio.get_running_loop())
        # By name, because gRPC takes the first of two: what the caller wants comes last here.
        options = list(dict([*OPTIONS, *self._local_options(), *given.channel_options]).items())
        if not given.has_tls:
            return PROCESS.own(grpc.aio.insecure_channel(self.target, options=options))
        credentials = channel_credentials(given.ca_file, given.cert_file, given.key_file)
        shown = with_token(credentials, given.token, given.token_file)
        return PROCESS.own(grpc.aio.secure_channel(self.target, shown, options=options))

    def _local_options(self) -> list[tuple[str, str | int]]:
        options: list[tuple[str, str | int]] = []
        if self.target.startswith(_LOOPBACK):
            # An http_proxy in the environment is not meant for this machine itself.
            options.append(("grpc.enable_http_proxy", 0))
        if authority := authority_of(self.target):
            # gRPC refuses calls for another name than that of the certificate.
            options.append(("grpc.default_authority", self._options.tls_server_name or authority))
        if self._options.tls_server_name:
            options.append(("grpc.ssl_target_name_override", self._options.tls_server_name))
        return options
