"""An instance that is stopped by SIGSTOP, and goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from tests.simulator.cluster.pausing import PausingLoop, Stoppable
from tests.simulator.cluster.story import ClusterStory
from tests.simulator.story import Errors
from timerd.services.stopping import bounded


@pytest.fixture
def loop() -> Iterator[PausingLoop]:
    loop = PausingLoop()
    yield loop
    loop.close()


def errors_of_a_stop(loop: PausingLoop, paused_s: float) -> list[BaseException]:
    """Of one step of it, which never ends."""
    story, owner, logger = ClusterStory(0), Stoppable(loop), logging.getLogger("timerd.stopping")
    story.loop.close()
    handler = Errors(story)
    logger.addHandler(handler)
    if paused_s:
        loop.later(1_000, owner.pause)
        loop.later(1_000 + paused_s * 1_000, owner.go_on)
    loop.run_until_complete(asyncio.wait([owner.spawn(bounded(asyncio.Event().wait()))]))
    logger.removeHandler(handler)
    return story.errors


def test_a_step_of_a_stop_that_does_not_end_is_an_error_unless_it_was_paused_meanwhile(loop: PausingLoop) -> None:
    assert len(errors_of_a_stop(loop, 0)) == 1
    assert errors_of_a_stop(loop, 10) == []
    assert errors_of_a_stop(loop, 20) == []
