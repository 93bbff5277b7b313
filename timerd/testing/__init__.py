"""What is shipped for tests: of timerd itself, and of what is built on it.

`Server` is an in-process server whose clock the test turns, `Cluster` several of them on one store; `contracts` holds
the suites that every store passes.
"""

from timerd.testing.clock import SimAlarm, SimClock
from timerd.testing.cluster import Cluster
from timerd.testing.server import Server
from timerd.testing.workers import Worker

__all__ = ["Cluster", "Server", "SimAlarm", "SimClock", "Worker"]
