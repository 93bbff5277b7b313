"""Work that nobody awaits: an error that ends it is seen, whatever becomes of the task."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

import timerd.services
from timerd.services.background import begin, noted_by_loop, unforeseen
from timerd.services.holding.tries import surely
from timerd.services.housekeeping import every

pytestmark = pytest.mark.unforeseen
# Begun and awaited by the same call, or handed to a caller who awaits it.
AWAITED = {
    "api.py": "each reply is awaited by the call that it answers",
    "stopping.py": "a step is awaited for as long as it may take",
    "canary.py": "its result is read before the next one begins",
    "zone_reads.py": "it is awaited by all who ask for the register meanwhile",
    "session.py": "its result is read at the end of the stream",
}


async def fails() -> None:
    raise ZeroDivisionError("nobody foresaw this")


async def test_an_error_of_a_task_that_nobody_awaits_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    before = unforeseen["a test"]
    task = begin(fails(), "a test")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert unforeseen["a test"] == before + 1
    [record] = caplog.records
    assert record.exc_info is not None
    assert "a test" in record.getMessage()


async def test_what_is_cancelled_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    task = begin(asyncio.sleep(3600), "a test")
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert not caplog.records


async def test_an_error_in_a_callback_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    before = unforeseen["event_loop"]
    loop, called = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(noted_by_loop)

    def call() -> None:
        called.set()
        raise ZeroDivisionError("nobody foresaw this")

    loop.call_soon(call)
    await called.wait()
    await asyncio.sleep(0)
    assert unforeseen["event_loop"] == before + 1
    assert caplog.records[0].exc_info is not None
    noted_by_loop(loop, {"message": "no error at all"})
    assert unforeseen["event_loop"] == before + 1


async def test_housekeeping_goes_on_with_its_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    before, rounds, third = unforeseen["housekeeping"], 0, asyncio.Event()

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            third.set()
            return
        await fails()

    house = asyncio.create_task(every(0.001, work))
    await third.wait()
    house.cancel()
    await surely(fails())
    assert unforeseen["housekeeping"] == before + 3


def test_every_task_of_the_services_is_awaited_or_begun_where_it_is_watched() -> None:
    """One place begins what nobody awaits."""
    begins = set()
    for path in Path(timerd.services.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr == "create_task" and path.name != "background.py":
                begins.add(path.name)
    assert begins == set(AWAITED)
