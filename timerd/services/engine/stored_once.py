"""A call is carried out where the store does not know it when it comes again (core/protocol/message_place.py): it is
asked for as long as somebody may have taken in what nobody says it has."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import numpy as np

from timerd.core.protocol import Call, Forgotten, Inserted, NotTakenIn, origin_of_delays, place_message
from timerd.model.errors import Invalid, StoreUnknown
from timerd.model.first_reply import Times
from timerd.model.instants import shown
from timerd.model.storage import Append
from timerd.services.engine.verbs import NewTasks
from timerd.services.holding.driving import Performs, after_a_write, drive

DEADLINE_S = 2.0
ASK_AGAIN_S = 0.1
# As far as a caller's clock may be ahead, no try of its call came before.
CLOCKS_DIFFER_MS = 60_000
# What is kept of a call that came too late for its instants.
KEPT_MS = 25 * 3_600_000


class OutcomesForgotten(Invalid):
    """Nothing is carried out, for an earlier try may have been."""

    only_this_try = True


def first_places(tasks: NewTasks, asked_ms: Times, now_ms: int) -> Times:
    """The same for each try of the call: the instants that are asked for, but none that had passed long before the call
    was made. Raises Invalid."""
    since_ms = tasks.request_time_ms - CLOCKS_DIFFER_MS
    if not len(asked_ms) or int(asked_ms.min()) >= since_ms:
        return asked_ms
    if since_ms > now_ms:
        raise Invalid(
            f"The request_time {shown(tasks.request_time_ms)} (the caller's clock) is more than 60 s ahead of "
            f"{shown(now_ms)} (the server's clock), so a task that is due already would wait for it: set the caller's "
            "clock right.",
            "request_time",
            "CLOCKS_DIFFER",
        )
    return np.maximum(asked_ms, since_ms)


async def at_their_origin(tasks: NewTasks, call: Call, runner: Performs) -> None:
    """Delays of a call that does not say when it was made count from its first try."""
    if len(tasks.delayed):
        later_ms = await drive(origin_of_delays(call), runner) - tasks.counted_from_ms
        for name in ("fire_at_ms", "position_ms"):
            tasks.rows.columns[name][np.asarray(tasks.delayed, np.intp)] += later_ms


async def stored_once(message: Append, call: Call, runner: Performs) -> Inserted:
    """Raises StoreUnknown where who holds a task's place does not say that it has it, and OutcomesForgotten where an
    earlier try may have ended longer ago than outcomes are kept."""
    loop = asyncio.get_running_loop()
    until_s, is_first = loop.time() + DEADLINE_S, True
    while is_first or loop.time() < until_s:
        try:
            with nullcontext() if is_first else after_a_write():
                return await drive(place_message(message, call), runner)
        except NotTakenIn:
            is_first = False
            await asyncio.sleep(ASK_AGAIN_S)
        except Forgotten as error:
            raise OutcomesForgotten(
                "The task was due longer ago than outcomes are kept, so it cannot be told whether an earlier try of "
                "this call has stored it: nothing was stored now. Give a request_time with calls for instants that "
                "have passed.",
                "request_time",
                "REQUEST_TOO_OLD",
            ) from error
    raise StoreUnknown("The instance that holds the task's partition has not said that it has taken the task in.")
