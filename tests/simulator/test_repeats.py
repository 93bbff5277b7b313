"""Of a try that is held up: at which steps."""

from __future__ import annotations

import asyncio

from tests.simulator.repeats import HOLD, Hold, held_up
from timerd.services.background import begin


async def test_what_an_instance_does_by_itself_is_not_held_up_with_the_try_that_made_it_do_so() -> None:
    """A try that takes a partition, and waits for more than one read at a time."""
    hold = Hold(3, 0)
    HOLD.set(hold)
    await begin(held_up("read"), "partitions")
    assert hold.steps == 3
    await asyncio.gather(held_up("read"), held_up("find"))
    assert hold.steps == 1
    await held_up("settled")
    assert hold.steps == 1
