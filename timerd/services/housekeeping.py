"""What is looked after again and again, whatever befell the time before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from timerd.model.errors import StoreUnknown, Unavailable
from timerd.services.background import note

log = logging.getLogger(__name__)
# So soon after the start, so that a server that is restarted every minute keeps house as well.
FIRST_S = 5.0


async def every(period_s: float, work: Callable[[], Awaitable[None]]) -> NoReturn:
    """What fails now is tried again a period later."""
    await asyncio.sleep(min(period_s, FIRST_S))
    while True:
        try:
            await work()
        except (Unavailable, StoreUnknown) as error:
            log.warning("the store did not answer: %s", error)
        except Exception as error:  # noqa: BLE001 - it is noted
            note("housekeeping", error, "the next round tries again")
        await asyncio.sleep(period_s)
