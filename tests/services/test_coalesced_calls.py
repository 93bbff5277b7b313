"""One call of a thing at a time: what is wanted meanwhile goes with the next one."""

from __future__ import annotations

import asyncio
from collections import Counter

from timerd.services.regulation.coalesced_calls import CoalescedCalls


class Rig:
    """Calls that end when they are told to."""

    def __init__(self) -> None:
        self.made = Counter[str]()
        self.gates: dict[str, asyncio.Event] = {}
        self.calls = CoalescedCalls(self._call, "calling")

    async def _call(self, called: str) -> None:
        self.made[called] += 1
        await self.gates.setdefault(called, asyncio.Event()).wait()

    async def end(self, called: str) -> None:
        self.gates.pop(called).set()
        await turns()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_is_wanted_meanwhile_goes_with_one_call_more() -> None:
    rig = Rig()
    for _ in range(3):
        rig.calls.want("a")
        await turns()
    assert (rig.made["a"], "a" in rig.calls, len(rig.calls.tasks())) == (1, True, 1)
    await rig.end("a")
    assert rig.made["a"] == 2
    await rig.end("a")
    assert (rig.made["a"], "a" in rig.calls) == (2, False)


async def test_calls_of_two_things_do_not_wait_for_each_other() -> None:
    rig = Rig()
    rig.calls.want("a")
    rig.calls.want("b")
    await turns()
    assert rig.made == {"a": 1, "b": 1}
    await rig.end("b")
    assert ("a" in rig.calls, "b" in rig.calls) == (True, False)
    await rig.end("a")


async def test_who_was_cancelled_calls_no_more() -> None:
    rig = Rig()
    rig.calls.want("a")
    rig.calls.want("a")
    await turns()
    for task in rig.calls.tasks():
        task.cancel()
    await turns()
    assert (rig.made["a"], "a" in rig.calls) == (1, False)
