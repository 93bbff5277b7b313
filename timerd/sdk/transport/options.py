"""Where the server is, who asks, and how: what a client and a worker are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

from timerd.sdk.transport.addresses import DEFAULT_TARGET
from timerd.sdk.values import Clock, Span, Traces, check_keywords, flag


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """Connect options say where the server is and how to speak to it; one object serves clients and workers.

    `Client`, `SyncClient` and `Worker` take it in place of the address, and each of its fields as a keyword as well; a
    keyword wins over the object. Making one of them raises InvalidTask for a value of a wrong form. TLS is used
    where `tls` is set or one of the files is given.

    Args:
        target: the address HOST:PORT of the server; a port that is left out is 7400. Also what gRPC has beside it:
            dns:, ipv4: and ipv6: with several addresses, unix:, vsock:, xds:. Default 127.0.0.1:7400.
        namespace: the namespace of all tasks that the client or worker deals with. Default "default".
        timeout: how long a call of a client is repeated before it fails, a timedelta or seconds, more than 0 and at
            most 100 years. Default 30 s. A worker makes no such calls and does not use it.
        tls: whether TLS is used with the certificates that the machine trusts. Default no.
        ca_file: a PEM file of certificates to trust in place of these. Default none.
        cert_file: a PEM file with the certificate of this client; needs `key_file`. Default none.
        key_file: a PEM file with the private key of `cert_file`. Default none.
        tls_server_name: the name in the server's certificate where it is not that of the address. Default the address.
        token: a bearer token in ASCII, which travels over TLS only. Default none.
        token_file: a file that holds the token, read for each call, in place of `token`. Default none.
        channel_options: settings of the gRPC channel as pairs (name, value); they win over those of timerd. Default
            none.
        clock: a function that returns the current time with a zone, for tests; delays count from it, and lateness is
            seen by it. Default the machine's clock.
        tracing: `timerd.tracing.Tracing()`, which takes traces through tasks. Default none.
    """

    target: str = DEFAULT_TARGET
    _: KW_ONLY
    namespace: str = "default"
    timeout: Span = 30.0
    tls: bool = False
    ca_file: str | Path | None = None
    cert_file: str | Path | None = None
    key_file: str | Path | None = None
    tls_server_name: str = ""
    token: str = field(default="", repr=False)
    token_file: str | Path | None = None
    channel_options: Sequence[tuple[str, str | int]] = ()
    clock: Clock | None = None
    tracing: Traces | None = None

    @property
    def has_tls(self) -> bool:
        """Whether the connection is made by TLS."""
        return bool(self.tls or self.ca_file or self.cert_file)


class WorkerKeywords(TypedDict, total=False):
    """These keywords of `Worker` are fields of `ConnectOptions`, which says what each of them means."""

    namespace: str
    tls: bool
    ca_file: str | Path | None
    cert_file: str | Path | None
    key_file: str | Path | None
    tls_server_name: str
    token: str
    token_file: str | Path | None
    channel_options: Sequence[tuple[str, str | int]]
    clock: Clock | None
    tracing: Traces | None


class ClientKeywords(WorkerKeywords, total=False):
    """These keywords of `Client` and `SyncClient` are fields of `ConnectOptions`: those of a worker, and `timeout`."""

    timeout: Span


def connect_options(
    call: str, target: str | ConnectOptions, keywords: Mapping[str, Any], allowed: Set[str]
) -> ConnectOptions:
    """What a user gave to `call`. Raises TypeError for a keyword that is not allowed there."""
    check_keywords(call, keywords, allowed)
    given = replace(target, **keywords) if isinstance(target, ConnectOptions) else ConnectOptions(target, **keywords)
    flag(given.tls, "tls")
    return given
