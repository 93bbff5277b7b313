"""How the SDK reaches a server: addresses, channels, calls that are repeated, and the stream that callers share."""

from timerd.sdk.transport.addresses import DEFAULT_TARGET, host_and_port, server_address
from timerd.sdk.transport.affinity import Affinity, forked
from timerd.sdk.transport.backoff import Backoff
from timerd.sdk.transport.calls import Calls, pages
from timerd.sdk.transport.connection import Connection
from timerd.sdk.transport.duplex import Duplex, opener
from timerd.sdk.transport.options import ClientKeywords, ConnectOptions, WorkerKeywords, connect_options
from timerd.sdk.transport.session import Answer, Session

__all__ = [
    "Affinity",
    "Answer",
    "Backoff",
    "Calls",
    "ClientKeywords",
    "ConnectOptions",
    "Connection",
    "DEFAULT_TARGET",
    "Duplex",
    "Session",
    "WorkerKeywords",
    "connect_options",
    "forked",
    "host_and_port",
    "opener",
    "pages",
    "server_address",
]
