"""A page into the machine of its partition, in pieces: the loop that does it also fires.

A page has few rows, but any number of marks (a purge may have left a million), and before more is taken in, what was
left to the store has to be let go.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from timerd.core.partition_machine import PartitionMachine
from timerd.model.storage import Page

MARKS_AT_ONCE = 1_000


async def make_room(machine: PartitionMachine) -> None:
    """One run a turn of the loop."""
    for _ in iter(machine.rows.waiting.tidy, False):
        await asyncio.sleep(0)


async def mark_ahead(machine: PartitionMachine, page: Page) -> Page:
    """Takes in all marks but the last ones, which are left on the page: marks come before the rows that they are on."""
    marks = page.marks
    last = max(0, len(marks) - MARKS_AT_ONCE)
    for at in range(0, last, MARKS_AT_ONCE):
        machine.rows.mark(marks[at : min(at + MARKS_AT_ONCE, last)])
        await asyncio.sleep(0)
    return replace(page, marks=marks[last:]) if last else page
