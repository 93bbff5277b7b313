"""What is shipped for tests: of timerd itself, and of what is built on it.

`Server` is an in-process server whose clock the test turns, `server()` the same for tests without asyncio, `Cluster`
several of them on one store; `contracts` holds the suites that every store passes. The names are loaded when first
used, so that a pytest whose tests use none of it does not pay for gRPC.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timerd.testing.async_server import Server, ServerKeywords
    from timerd.testing.clock import SimAlarm, SimClock
    from timerd.testing.cluster import Cluster
    from timerd.testing.sync_server import SyncServer, server
    from timerd.testing.workers import Worker

__all__ = ["Cluster", "Server", "ServerKeywords", "SimAlarm", "SimClock", "SyncServer", "Worker", "server"]
_MODULES = {
    "Cluster": "cluster",
    "Server": "async_server",
    "ServerKeywords": "async_server",
    "SimAlarm": "clock",
    "SimClock": "clock",
    "SyncServer": "sync_server",
    "Worker": "workers",
    "server": "sync_server",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'timerd.testing' has no attribute {name!r}")
    return getattr(import_module(f"timerd.testing.{_MODULES[name]}"), name)
