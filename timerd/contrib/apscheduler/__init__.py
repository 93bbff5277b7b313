"""APScheduler 3's jobs in timerd: `TimerdJobStore` in a scheduler, and a `JobRunner` where another process runs them.

`add_job`, `reschedule_job`, `pause_job` and the others stay as they are. timerd keeps what they say, and tells when a
job comes; so any number of processes may have such a scheduler, and each run is given to one of them.
"""

try:
    import apscheduler as _apscheduler
except ImportError as error:
    raise ImportError(
        "timerd.contrib.apscheduler needs APScheduler 3, which is not installed: pip install 'timerd[apscheduler]'."
    ) from error

if getattr(_apscheduler, "version_info", ())[:1] != (3,):
    raise ImportError("timerd.contrib.apscheduler is for APScheduler 3, not for this one: pip install 'apscheduler<4'.")

from timerd.contrib.apscheduler.job_store import TimerdJobStore
from timerd.contrib.apscheduler.running import JobRunner
from timerd.contrib.apscheduler.times import NotKept

__all__ = ["JobRunner", "NotKept", "TimerdJobStore"]
