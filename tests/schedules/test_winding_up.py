"""What a schedule had ahead at a change is withdrawn together, however much it is."""

from __future__ import annotations

from collections import Counter

import grpc
import pytest

from tests.schedules.story import START, Story
from timerd.core.protocol import AskToMove, AskToMoveMany, Procedure, Request, SetMarks, TryCas, TryCasMany, Undecided
from timerd.core.schedules.changes import Name, change, paused
from timerd.model.errors import HolderBusy
from timerd.model.schedules import Schedule
from timerd.services.holding.driving import Performs, drive
from timerd.services.schedules import ticking
from timerd.services.transport.status import problem_of


class Counting:
    """Implements services.holding.driving.Performs."""

    def __init__(self, runner: Performs) -> None:
        self.asked: Counter[type[Request]] = Counter()
        self._runner = runner

    async def perform(self, request: Request) -> object:
        self.asked[type(request)] += 1
        return await self._runner.perform(request)


async def test_a_pause_takes_as_many_requests_whatever_is_ahead(story: Story) -> None:
    """Nearly three minutes of every second: one by one it was eleven requests each."""
    await story.work()
    await story.schedules.create("often", queue="reports", every=1, catch_up="all")
    await story.server.advance(seconds=5)
    before = await story.schedules.get("often")
    sweep, runner = story.server.node.zone_sweep, Counting(story.server.node.scheduler.procedures)
    assert sweep is not None

    def pause() -> Procedure[Schedule]:
        return change(Name("default", "often"), "pause", 0, paused("", 0), sweep.world)

    entry = await drive(pause(), runner)
    withdrawn = before.created - entry.created
    assert withdrawn > 100
    assert not entry.taken
    parts = -(-withdrawn // 128)
    assert runner.asked[AskToMoveMany] == runner.asked[SetMarks] == parts
    assert runner.asked[TryCasMany] == 2 * parts
    assert not runner.asked[AskToMove]
    # The change itself, and that it is wound up.
    assert runner.asked[TryCas] == 2
    assert runner.asked.total() < 50
    await story.server.advance(minutes=5)
    assert len(story.instants()) == 5
    assert (await story.schedules.get("often")).created == 5
    assert story.came[-1][0] <= START.replace(second=5)


async def test_who_is_only_busy_is_told_of_in_a_line_and_its_caller_repeats_the_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ticking, "DEADLINE_S", 0.0)

    async def pause() -> None:
        raise Undecided

    with pytest.raises(HolderBusy) as caught:
        await ticking.until_decided(pause, 0.0)
    problem = problem_of(caught.value)
    assert problem.code == grpc.StatusCode.UNKNOWN.value[0]
    assert not problem.reason
    assert problem.message.startswith("The instances are busy, and within 0 s none has said what became of a task of")
    assert "repeat the call with the same request_id, which is safe." in problem.message
    [line] = caplog.records
    assert (line.levelname, line.exc_info) == ("WARNING", None)
    assert "are busy" in line.message
