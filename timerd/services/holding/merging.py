"""A page into the machine of its partition, in pieces: the loop that does it also fires.

A page has few rows, but any number of marks (a purge may have left a million), and before more is taken in, what was
left to the store has to be let go.

What comes back while its queue is sent is put into the order of all that waits, and each run that waits beside the
others costs every take. So it comes no faster than it leaves. Where it leaves slowly it is not held up: what is due
first, or has the highest priority, may be the last that the store brings. Nor is it where another queue waits to be
brought in again, for that is one queue at a time. Nor where limit keys come back: others may have much in memory.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from timerd.core.partition import PartitionMachine
from timerd.model.storage import Page

MARKS_AT_ONCE = 1_000
# Two pages. What leaves in a look at 50,000/s of 200 bytes is an eighth of one.
AHEAD_BYTES = 2 << 20
LOOK_S = 0.01
# What ends while its queue comes back stays in the index of what has ended until all has come, for the mark cannot pass
# it. Beyond so many it comes as fast as it can: its share of memory fills, the rest is left to the store once more, and
# the mark moves on. At 41 bytes each they take less than the share may be.
MOST_ENDED = 8_000_000
FAST_BYTES = 128 << 10


async def make_room(machine: PartitionMachine) -> None:
    """One run a turn of the loop."""
    for _ in iter(machine.tidy, False):
        await asyncio.sleep(0)


async def keep_pace(machine: PartitionMachine) -> None:
    """While a queue is sent fast, more of it is brought back only when little is left."""
    reload = machine.reload
    if reload is None or reload.keys or machine.settled_rows > MOST_ENDED:
        return
    queue = reload.queue
    size_bytes = machine.lane_bytes(queue)
    while size_bytes > AHEAD_BYTES and not machine.wants_more:
        await asyncio.sleep(LOOK_S)
        before, size_bytes = size_bytes, machine.lane_bytes(queue)
        if before - size_bytes < FAST_BYTES:
            break


async def mark_ahead(machine: PartitionMachine, page: Page) -> Page:
    """Takes in all marks but the last ones, which are left on the page: marks come before the rows that they are on."""
    marks = page.marks
    last = max(0, len(marks) - MARKS_AT_ONCE)
    for at in range(0, last, MARKS_AT_ONCE):
        machine.mark(marks[at : min(at + MARKS_AT_ONCE, last)])
        await asyncio.sleep(0)
    return replace(page, marks=marks[last:]) if last else page
