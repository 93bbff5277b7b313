"""Where the server is and how to speak to it: one gRPC channel, with or without TLS."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc.aio

from timerd.sdk.credentials import (
    channel_credentials,
    check_pair,
    check_token,
    client_context,
    current_token,
    with_token,
)
from timerd.sdk.wakeups import ignore_idle_wakeups

DEFAULT_TARGET = "127.0.0.1:7400"
_LOOPBACK = ("127.", "localhost", "[::1]", "unix:")
# A name or address and a port. What else gRPC takes (dns:///..., unix:..., several addresses) only gRPC can resolve.
_PLAIN_TARGET = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:/,\[\]]+)):([0-9]{1,5})")
_SCHEMES = ("dns", "unix", "unix-abstract", "ipv4", "ipv6", "vsock", "xds")
_MOST_PORT = 65_535
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
OPTIONS: tuple[tuple[str, int], ...] = (
    # gRPC itself would wait up to two minutes before it looks whether a restarted server is back.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # gRPC would ask for the addresses behind a name every 30 s at most; in a rolling restart all are new before that.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.max_receive_message_length", 32 << 20),
    ("grpc.max_send_message_length", 32 << 20),
    # A peer that vanished without a word is noticed within 30 s, also while nothing is under way. A server of ours
    # allows a ping every 5 s; where one does not (a proxy between) it says so, and gRPC then asks less often.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A connection of its own: a burst of deliveries in one client does not hold up the replies of another.
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything needed to open a channel; TLS where `tls` is set or any of its files is given."""

    target: str = DEFAULT_TARGET
    tls: bool = False
    ca_file: str | Path | None = None
    cert_file: str | Path | None = None
    key_file: str | Path | None = None
    tls_server_name: str = ""
    channel_options: Sequence[tuple[str, str | int]] = ()
    token: str = field(default="", repr=False)
    token_file: str | Path | None = None

    def __post_init__(self) -> None:
        check_token(self.token, self.token_file, self.has_tls)
        check_pair(self.cert_file, self.key_file)

    @property
    def has_tls(self) -> bool:
        return bool(self.tls or self.ca_file or self.cert_file)

    def open_channel(self) -> grpc.aio.Channel:
        ignore_idle_wakeups(asyncio.get_running_loop())
        # By name, because gRPC takes the first of two: what the caller wants comes last here.
        options = list(dict([*OPTIONS, *self._local_options(), *self.channel_options]).items())
        if not self.has_tls:
            return grpc.aio.insecure_channel(self.target, options=options)
        credentials = channel_credentials(self.ca_file, self.cert_file, self.key_file)
        shown = with_token(credentials, self.token, self.token_file)
        return grpc.aio.secure_channel(self.target, shown, options=options)

    def direct_address(self) -> tuple[str, int] | None:
        """Host and port, where a plain socket reaches and trusts the server as gRPC would. Without `ca_file` gRPC
        brings authorities of its own."""
        found = _PLAIN_TARGET.fullmatch(self.target)
        through_proxy = not self.target.startswith(_LOOPBACK) and any(map(os.environ.get, _PROXIES))
        if found is None or self.channel_options or through_proxy or (self.has_tls and not self.ca_file):
            return None
        host, port = found[1] or found[2], int(found[3])
        return None if host in _SCHEMES or port > _MOST_PORT else (host, port)

    @property
    def authority(self) -> str:
        return self.tls_server_name or self.target

    def headers(self) -> list[tuple[str, str]]:
        """That say who calls. Raises OSError where the file of the token cannot be read, ValueError where it holds what
        no header may."""
        token = current_token(self.token, self.token_file)
        if not (token.isascii() and token.isprintable()):
            raise ValueError("The token has characters that no header may have.")
        return [("authorization", f"Bearer {token}")] if token else []

    def tls_context(self) -> ssl.SSLContext:
        """Raises OSError, also where a file is not what it is to be."""
        return client_context(self.ca_file, self.cert_file, self.key_file)

    def _local_options(self) -> list[tuple[str, str | int]]:
        options: list[tuple[str, str | int]] = []
        if self.target.startswith(_LOOPBACK):
            # An http_proxy in the environment is not meant for this machine itself.
            options.append(("grpc.enable_http_proxy", 0))
        if self.tls_server_name:
            options.append(("grpc.ssl_target_name_override", self.tls_server_name))
        return options
