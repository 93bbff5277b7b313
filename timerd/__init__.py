"""timerd: a durable timer service. At this instant, do this."""

from timerd.client import CancelOutcome, Client, SyncClient, Task, TimerdError
from timerd.worker import Delivery, Reject, Retry, Worker

__version__ = "0.1.0"
__all__ = [
    "CancelOutcome",
    "Client",
    "Delivery",
    "Reject",
    "Retry",
    "SyncClient",
    "Task",
    "TimerdError",
    "Worker",
    "__version__",
]
