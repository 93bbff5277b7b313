"""Tokens of a rate in a cluster, through late and lost calls, clocks that differ, pauses and changes of the keeper:
never more starts than are promised, the rate is reached and shared; and each rule that is left out is found out."""

from __future__ import annotations

import math
from functools import partial

import pytest

from tests.property.drawn_world import NAMES, STEP_MS, Judge, World
from timerd.core.regulation import AHEAD_MS, DrawnTokens, TokenGrant, TokenKeeper
from timerd.core.regulation import token_keeper as keeping
from timerd.core.regulation import tokens as drawing
from timerd.core.regulation.rate import RateLimit
from timerd.model.regulations import QueueLimit

THOUSAND = QueueLimit(0, 1_000, 1_000, 100)
LIMITS = (THOUSAND, QueueLimit(0, 40, 1_000, 60), QueueLimit(0, 5, 1_000, 1), QueueLimit(0, 30, 10_000, 30))
HISTORIES = 24


def history(
    seed: int,
    keeper: type[TokenKeeper] = TokenKeeper,
    tokens: type[DrawnTokens] = DrawnTokens,
    *,
    trusts_all: bool = False,
    seconds: int = 8,
) -> World:
    limit = LIMITS[seed % len(LIMITS)]
    each = limit.rate * 1_000 // limit.period_ms
    demand = {"a": 2 * each + 1, "b": each // 2 + 1, "c": each + 1}
    world = World(seed, limit, demand, 30, keeper, tokens, trusts_all)
    for _ in range(seconds * 1_000 // STEP_MS):
        world.turn()
    return world


def test_never_more_than_is_promised() -> None:
    worlds = [history(seed) for seed in range(HISTORIES)]
    assert sum(world.changes for world in worlds) > HISTORIES
    assert all(sum(world.shares().values()) for world in worlds)


class FullBurst(TokenKeeper):
    """T3: the burst of a new keeper is full."""

    def __init__(self, now_ms: int, *, is_first: bool) -> None:
        super().__init__(now_ms, is_first=True)


class NoCount(TokenKeeper):
    """T1: a bunch is counted as one."""

    def _served(self, name: str, tokens: int, rate: RateLimit, now_ms: int) -> TokenGrant:
        return super()._served(name, 1, rate, now_ms)._replace(tokens=tokens)


BROKEN = {
    "NOCOUNT": partial(history, keeper=NoCount),
    "FULLBURST": partial(history, keeper=FullBurst),
    "GHOST": partial(history, trusts_all=True),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_that_is_left_out_is_found_out(rule: str) -> None:
    def histories() -> None:
        for seed in range(10 * HISTORIES):
            BROKEN[rule](seed)

    with pytest.raises(AssertionError, match="are above the rate"):
        histories()


class NoEnd(DrawnTokens):
    """T2: tokens do not lapse."""

    def granted(self, asked_ms: float, now_ms: float, grant: TokenGrant) -> None:
        super().granted(math.inf, now_ms, grant)


class EndHeard(DrawnTokens):
    """T2: their end is counted from the answer."""

    def granted(self, asked_ms: float, now_ms: float, grant: TokenGrant) -> None:
        super().granted(now_ms, now_ms, grant)


def hoarded(made: type[DrawnTokens], *, is_late: bool) -> Judge:
    """Twenty instances draw one after the other, and all start what they have at the end. `is_late`: they hear of it
    then."""
    kept, judge, calls = keeper(), Judge(THOUSAND), list[tuple[int, DrawnTokens, TokenGrant]]()
    for number in range(20):
        asked_ms = 2_000 * number
        calls.append((asked_ms, made(), kept.draw(f"{number}", 100, THOUSAND, asked_ms)))
    last_ms = calls[-1][0]
    for asked_ms, tokens, grant in calls:
        tokens.granted(asked_ms, last_ms if is_late else asked_ms, grant)
    for _, tokens, _ in calls:
        judge.started(tokens.free(last_ms), last_ms)
    return judge


@pytest.mark.parametrize("is_late", [False, True])
def test_what_was_hoarded_lapses_however_late_its_answer_was(is_late: bool) -> None:
    assert hoarded(DrawnTokens, is_late=is_late).level == 100
    with pytest.raises(AssertionError, match="are above the rate"):
        hoarded(EndHeard if is_late else NoEnd, is_late=is_late)


@pytest.mark.parametrize("rate", [40, 1_000])
def test_three_hungry_instances_reach_the_rate_and_share_it_alike(rate: int) -> None:
    world = World(0, QueueLimit(0, rate, 1_000, max(1, rate // 10)), dict.fromkeys(NAMES, rate))
    for _ in range(20_000 // STEP_MS):
        world.turn()
    shares = world.shares()
    assert sum(shares.values()) >= 0.98 * 20 * rate
    assert max(shares.values()) <= 1.1 * min(shares.values())


def test_who_has_little_due_gets_it_and_the_others_have_the_rest() -> None:
    world = World(0, THOUSAND, {"a": 2_000, "b": 50, "c": 0})
    for _ in range(20_000 // STEP_MS):
        world.turn()
    shares = world.shares()
    assert shares["b"] >= 0.97 * 20 * 50
    assert sum(shares.values()) >= 0.98 * 20 * 1_000


def test_of_a_low_rate_each_gets_one_in_turn_and_none_lapses() -> None:
    world = World(0, QueueLimit(0, 60, 60_000, 1), dict.fromkeys(NAMES, 5))
    for _ in range(60_000 // STEP_MS):
        world.turn()
    shares = world.shares()
    assert sum(shares.values()) >= 59
    assert max(shares.values()) <= min(shares.values()) + 2
    assert sum(each.tokens.lapsed for each in world.instances.values()) <= 1


def keeper(limit: QueueLimit = THOUSAND, *, is_first: bool = True) -> TokenKeeper:
    found = TokenKeeper(0, is_first=is_first)
    found.draw("nobody", 0, limit, 0)
    return found


def test_a_new_keeper_hands_out_nothing_that_the_one_before_may_have_counted() -> None:
    """T3: that was up to AHEAD_MS ahead, and all of the burst."""
    new = keeper(is_first=False)
    grant = new.draw("a", 10, THOUSAND, 0)
    assert grant.tokens == 0
    found = new.draw("a", 10, THOUSAND, grant.again_ms)
    assert grant.again_ms + found.after_ms >= AHEAD_MS + 1
    assert 0 < found.tokens <= 10


def test_a_held_limit_hands_out_nothing_before_it_is_over() -> None:
    held = keeper()
    held.hold(30_000, 0)
    grant = held.draw("a", 10, THOUSAND, 0)
    assert grant == TokenGrant(0, 0, 30_000 - AHEAD_MS)
    assert held.draw("a", 10, THOUSAND, grant.again_ms) == TokenGrant(10, AHEAD_MS, 0)


def test_a_change_counts_on_what_was_counted() -> None:
    changed = keeper()
    assert changed.draw("a", 100, THOUSAND, 0) == TokenGrant(100, 0, 0)
    slow = QueueLimit(0, 10, 1_000, 100)
    grant = changed.draw("a", 100, slow, 0)
    assert (grant.tokens, grant.after_ms) == (1, 100)
    assert changed.draw("a", 1, QueueLimit(3), 0) == TokenGrant(0, 0, keeping.UNRULED_MS)


@pytest.mark.parametrize("looks", [False, True])
def test_who_was_told_to_wait_for_an_hour_hears_of_a_higher_rate_within_a_minute(looks: bool) -> None:
    kept, tokens = keeper(), DrawnTokens()
    hourly, minutely = QueueLimit(0, 1, 3_600_000, 1), QueueLimit(0, 10, 60_000, 1)
    assert kept.draw("b", 1, hourly, 0).tokens == 1
    grant = kept.draw("a", 0 if looks else 1, hourly, 1_000)
    assert grant.again_ms > 3_590_000
    tokens.wants = True
    if looks:
        tokens.seen(1_000, grant.again_ms)
    else:
        tokens.granted(1_000, 1_000, grant)
    tokens.wants = True
    assert (tokens.is_due(60_000), tokens.is_due(61_000)) == (False, True)
    assert kept.draw("a", 1, minutely, 61_000).tokens == 1


def test_who_looks_hears_whether_there_are_any_and_nothing_is_counted() -> None:
    kept, slow = keeper(), QueueLimit(0, 1, 1_000, 2)
    assert [kept.draw("b", 0, slow, 0) for _ in range(9)] == [TokenGrant(0, 0, 0)] * 9
    assert [kept.draw("a", 2, slow, 0).tokens for _ in range(2)] == [1, 1]
    assert kept.draw("b", 0, slow, 0) == TokenGrant(0, 0, 1_000 - AHEAD_MS)
    assert kept.draw("a", 1, slow, 0) == TokenGrant(0, 0, 1_000 - AHEAD_MS), "who looks is in nobody's way"
    assert kept.draw("b", 0, slow, 1_000 - AHEAD_MS) == TokenGrant(0, 0, 0)


def test_what_was_seen_is_true_for_a_moment() -> None:
    tokens = DrawnTokens()
    tokens.looks = True
    assert (tokens.is_due(0), tokens.want(due=5)) == (True, 0)
    tokens.seen(0, 0)
    assert (tokens.is_due(0), tokens.is_seen(0), tokens.is_seen(drawing.SEEN_MS)) == (False, True, False)
    tokens.seen(200, 300)
    assert (tokens.is_seen(200), tokens.begins_ms(200)) == (False, 500)


def test_who_uses_little_of_what_it_draws_draws_less() -> None:
    tokens, now_ms = DrawnTokens(), 0
    for drawn in (1, 2, 4, 8):
        tokens.wants = True
        assert tokens.want(due=1_000) == drawn
        tokens.granted(now_ms, now_ms, TokenGrant(drawn, 0, 0))
        tokens.use(drawn, now_ms)
    tokens.wants = True
    assert tokens.want(due=5) == 5
    tokens.granted(now_ms, now_ms, TokenGrant(16, 0, 0))
    tokens.use(3, now_ms)
    assert tokens.free(now_ms + drawing.TOKEN_MS) == 0
    tokens.wants = True
    assert (tokens.want(due=1_000), tokens.lapsed) == (3, 13)


def test_a_bunch_begins_after_its_answer_was_heard_and_ends_by_when_it_was_asked_for() -> None:
    tokens = DrawnTokens()
    tokens.wants = True
    assert tokens.is_due(0)
    tokens.granted(100, 400, TokenGrant(5, 50, 0))
    assert (tokens.free(449), tokens.begins_ms(449), tokens.free(450)) == (0, 450, 5)
    assert (tokens.free(100 + 50 + drawing.TOKEN_MS - 1), tokens.free(100 + 50 + drawing.TOKEN_MS)) == (5, 0)
    tokens.granted(2_000, 2_000, TokenGrant(5, 0, 0))
    tokens.lapse()
    assert tokens.free(2_000) == 0


def test_the_keeper_hears_of_a_hold_until_it_has_said_so() -> None:
    tokens = DrawnTokens()
    tokens.hold(5_000)
    assert (tokens.is_due(0), tokens.held_for_ms(1_000)) == (True, 4_000)
    tokens.told(1_000, 4_000)
    assert (tokens.is_due(1_000), tokens.held_for_ms(1_000)) == (False, 0)
