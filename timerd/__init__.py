"""timerd: a durable timer service. At this instant, do this.

The names are loaded when first used, so that the command line and the core do not pay for gRPC.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timerd.client import CancelOutcome, Client, ConnectOptions, SyncClient, Task, TaskOptions, TimerdError
    from timerd.worker import Delivery, Interrupted, Reject, Retry, Throttled, Worker

__version__ = "0.1.0"
__all__ = [
    "CancelOutcome",
    "Client",
    "ConnectOptions",
    "Delivery",
    "Interrupted",
    "Reject",
    "Retry",
    "Throttled",
    "SyncClient",
    "Task",
    "TaskOptions",
    "TimerdError",
    "Worker",
    "__version__",
]
_WORKER = frozenset({"Delivery", "Interrupted", "Reject", "Retry", "Throttled", "Worker"})


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'timerd' has no attribute {name!r}")
    return getattr(import_module("timerd.worker" if name in _WORKER else "timerd.client"), name)
