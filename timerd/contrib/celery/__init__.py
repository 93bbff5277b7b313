"""Celery's `eta` and `countdown` through timerd: `install` in the application, a `Publisher` beside it.

A call that is for later is caught where Celery would publish it, and stored in timerd. At its instant a publisher hands
it to the broker as Celery would have done without the delay, so workers, ids, results and canvas stay as they are.
"""

try:
    import celery as _celery  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise ImportError(
        "timerd.contrib.celery needs Celery, which is not installed: pip install 'timerd[celery]'."
    ) from error

from timerd.contrib.celery.beat import Imported, import_beat
from timerd.contrib.celery.installing import install
from timerd.contrib.celery.publisher import Publisher

__all__ = ["Imported", "Publisher", "import_beat", "install"]
