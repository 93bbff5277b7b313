"""What health checks show: each part by itself, what callers need as a whole, what a restart would cure apart."""

from __future__ import annotations

from timerd.services.health.health_board import API, LIVE, PARTS, READY, SCHEDULER, STORE, HealthBoard


def test_a_part_is_red_while_it_has_a_reason() -> None:
    board = HealthBoard()
    board.set(SCHEDULER, "clock", "it jumped")
    board.set(SCHEDULER, "canary", "it is late")
    board.clear(SCHEDULER, "clock")
    assert not board.is_serving(SCHEDULER)
    assert board.wrong(SCHEDULER) == {"canary": "it is late"}
    board.clear(SCHEDULER, "canary")
    assert board.is_serving(SCHEDULER)


def test_ready_needs_every_part_and_not_more() -> None:
    for part in PARTS:
        board = HealthBoard()
        board.set(part, "any", "something is wrong")
        assert not board.is_serving(READY)
        assert [p for p in PARTS if not board.is_serving(p)] == [part]
        assert board.is_serving(LIVE)
        assert board.everything() == {part: {"any": "something is wrong"}}
    board = HealthBoard()
    board.set(LIVE, "loops", "one has ended")
    assert board.is_serving(READY)
    assert not board.is_serving(LIVE)


def test_a_change_is_told_once() -> None:
    board, told = HealthBoard(), list[dict[str, str]]()
    board.on_change(lambda: told.append(dict(board.wrong(STORE))))
    board.put(STORE, "canary", "")
    board.put(STORE, "canary", "away")
    board.put(STORE, "canary", "away")
    board.put(STORE, "canary", "away for long")
    board.put(STORE, "canary", "")
    assert told == [{"canary": "away"}, {"canary": "away for long"}, {}]
    assert board.is_serving(API)
