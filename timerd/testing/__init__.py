"""What is shipped for tests: of timerd itself, and of what is built on it.

`Server` is an in-process server whose clock the test turns; `contracts` holds the suites that every store passes.
"""

from timerd.testing.clock import SimAlarm, SimClock
from timerd.testing.server import Server
from timerd.testing.workers import Worker

__all__ = ["Server", "SimAlarm", "SimClock", "Worker"]
