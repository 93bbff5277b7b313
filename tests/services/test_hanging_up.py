"""Streams end in order when an instance goes away; one that comes too late for that does not keep it from going."""

from __future__ import annotations

import asyncio

import pytest

from timerd.services.transport.hanging_up import HangingUp


class Call:
    """Reads for ever, then writes what it owes."""

    def __init__(self, hanging_up: HangingUp) -> None:
        self.may_write = asyncio.Event()
        self.task = asyncio.create_task(self._run(hanging_up))

    async def _run(self, hanging_up: HangingUp) -> None:
        with hanging_up.reading():
            await asyncio.Event().wait()
        await self.may_write.wait()


async def test_a_call_writes_what_it_owes_before_it_ends() -> None:
    hanging_up = HangingUp()
    call = Call(hanging_up)
    await asyncio.sleep(0)
    ending = asyncio.create_task(hanging_up.hang_up(timeout_s=60))
    await asyncio.sleep(0)
    assert not ending.done()
    call.may_write.set()
    await ending
    await call.task


async def test_a_call_that_is_never_done_writing_is_cancelled_with_the_server() -> None:
    hanging_up = HangingUp()
    call = Call(hanging_up)
    await asyncio.sleep(0)
    await hanging_up.hang_up(timeout_s=0)
    call.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call.task


async def test_a_call_that_comes_while_this_side_hangs_up_ends_with_the_server() -> None:
    """What it is owed may never come, and the server would wait for it."""
    hanging_up = HangingUp()
    await hanging_up.hang_up()
    late = Call(hanging_up)
    await asyncio.sleep(0)
    late.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(late.task, timeout=5)


async def test_a_call_that_is_cancelled_by_its_other_side_ends_at_once() -> None:
    call = Call(HangingUp())
    await asyncio.sleep(0)
    call.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call.task
