"""What is tried until the store has done it: soon again at first, for most stores come back within the second, then
with longer pauses, for a damaged page does not."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from timerd.model.errors import CorruptRow, NotUnderstood, StoreUnavailable, StoreUnknown
from timerd.services.background import note

FIRST_S, LONGEST_S = 0.25, 2.0
MOST_TRIES = 6
_LOG = logging.getLogger("timerd.scheduler")


class Tries:
    """Of one piece of work, `what`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._failed = 0

    @property
    def are_over(self) -> bool:
        """Of what nobody foresaw: it has failed too often."""
        return self._failed >= MOST_TRIES

    def failed(self, error: Exception) -> float:
        """How long to wait now. Said in the log at the 1st, 2nd, 4th, 8th time and so on."""
        self._failed += 1
        if self._failed & (self._failed - 1) == 0:
            _LOG.warning("%s: %s; trying again (tries so far: %d)", self._what, error, self._failed)
        return min(LONGEST_S, FIRST_S * 2.0 ** min(self._failed - 1, 16))


async def surely(work: Awaitable[None]) -> None:
    """Housekeeping that the next round repeats."""
    try:
        await work
    except (StoreUnavailable, StoreUnknown) as error:
        _LOG.warning("the store did not answer: %s", error)
    except (CorruptRow, NotUnderstood) as error:
        _LOG.error("%s", error)
    except Exception as error:  # noqa: BLE001 - it is noted
        note("housekeeping", error, "the next round tries again")
