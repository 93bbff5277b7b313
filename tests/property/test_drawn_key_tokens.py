"""Rates of limit keys in a cluster: the keeper of a home counts each key by itself and forgets those that are over, and
an instance asks for the keys that are held back, and for no others."""

from __future__ import annotations

import math
from random import Random

import pytest

from tests.property.drawn_world import Judge
from timerd.core.regulation import (
    AHEAD_MS,
    AllRules,
    DrawnTokens,
    KeyAsk,
    KeyTokenKeeper,
    KnownRules,
    LentKeyRates,
    LimitedKey,
    LimitLabels,
    LimitsOfKeys,
    TokenGrant,
    TokenKeeper,
)
from timerd.core.regulation import key_token_keeper as keeping
from timerd.core.regulation.key_rates import SLACK_RATES
from timerd.core.taken import QueueKey
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.regulations import KeyRules, QueueLimit, Regulation

MAIL = QueueKey("default", "mail")
OF_MAIL, OF_POST = LimitLabels("default", "mail", ""), LimitLabels("default", "", "post")
LIMITS = (QueueLimit(0, 5, 1_000, 3), QueueLimit(0, 30, 60_000, 2), QueueLimit(0, 100, 1_000, 20))
CUSTOMERS, HISTORIES, TURNS = 40, 20, 2_000


class Home:
    """Instances draw tokens of many keys from one keeper, which is succeeded now and then, and use each at once."""

    def __init__(self, seed: int, keeper: type[KeyTokenKeeper] = KeyTokenKeeper) -> None:
        self.random, self.now_ms, self._made = Random(seed), 1_000, keeper
        self.limit = LIMITS[seed % len(LIMITS)]
        self.keeper = keeper(self.now_ms, is_first=True)
        self.keys = [LimitedKey(OF_MAIL, f"{n}") for n in range(CUSTOMERS)]
        self.judges = {key: Judge(self.limit) for key in self.keys}
        self.starts = self.forgotten = 0

    def turn(self) -> None:
        self.now_ms += self.random.choice((5, 20, 300))
        if self.random.random() < 0.002:
            self.keeper = self._made(self.now_ms, is_first=False)
        # Some are idle for long.
        key, name = self.keys[min(self.random.choices(range(CUSTOMERS), k=3))], self.random.choice("abc")
        before = len(self.keeper)
        grant = self.keeper.draw(key, name, self.random.randint(1, 30), 0, self.limit, self.now_ms)
        self.forgotten += max(0, before - len(self.keeper))
        tokens = DrawnTokens()
        tokens.granted(self.now_ms, self.now_ms, grant)
        if grant.tokens:
            self.judges[key].started(grant.tokens, self.now_ms + grant.after_ms)
            self.starts += grant.tokens


def history(seed: int, keeper: type[KeyTokenKeeper] = KeyTokenKeeper) -> Home:
    home = Home(seed, keeper)
    for _ in range(TURNS):
        home.turn()
    return home


@pytest.fixture(autouse=True)
def _forgets_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "SLACK_KEYS", 2)


def test_no_key_starts_more_than_is_promised_and_those_that_are_over_are_forgotten() -> None:
    homes = [history(seed) for seed in range(HISTORIES)]
    assert sum(home.starts for home in homes) > 100 * HISTORIES
    assert sum(home.forgotten for home in homes) > 10 * HISTORIES


class ForgetsBegun(KeyTokenKeeper):
    """T5: what has begun is forgotten, whether it is made up for or not."""

    def _prune(self, now_ms: int) -> None:
        self._keys.clear()


class FullBurst(KeyTokenKeeper):
    """T3: each key of a new keeper has its whole burst."""

    def __init__(self, now_ms: int, *, is_first: bool) -> None:
        super().__init__(now_ms, is_first=True)


@pytest.mark.parametrize("keeper", [ForgetsBegun, FullBurst], ids=lambda each: each.__name__)
def test_a_rule_that_is_left_out_is_found_out(keeper: type[KeyTokenKeeper]) -> None:
    def histories() -> None:
        for seed in range(5 * HISTORIES):
            history(seed, keeper)

    with pytest.raises(AssertionError, match="are above the rate"):
        histories()


def test_a_held_key_is_not_forgotten_and_holds_no_other() -> None:
    keeper, (acme, globex) = (
        KeyTokenKeeper(0, is_first=True),
        (LimitedKey(OF_MAIL, each) for each in ("acme", "globex")),
    )
    limit = LIMITS[0]
    assert keeper.draw(acme, "a", 0, 9_000, limit, 0) == TokenGrant(0, 0, 9_000 - AHEAD_MS)
    for n in range(9):
        keeper.draw(LimitedKey(OF_MAIL, f"{n}"), "a", 1, 0, limit, 0)
    assert keeper.draw(globex, "a", 3, 0, limit, 0).tokens == 1
    assert keeper.draw(acme, "b", 1, 0, limit, 100) == TokenGrant(0, 0, 9_000 - AHEAD_MS - 100)


def test_one_says_that_it_is_over_when_it_says_what_a_new_one_would() -> None:
    limit, kept = QueueLimit(0, 1, 1_000, 2), TokenKeeper(0, is_first=True)
    assert kept.is_over(0)
    kept.draw("a", 2, limit, 0)
    kept.draw("a", 2, limit, 0)
    assert [kept.is_over(ms) for ms in (0, 1_000, 1_999)] == [False] * 3
    assert kept.is_over(3_500)


class Rig:
    """A queue whose keys have a rate, and list another one; five rows of each key are due."""

    def __init__(self) -> None:
        self.boot_ms, self.asked = 5_000.0, list[int]()
        known = KnownRules()
        known.read(AllRules(), known.life)
        known.heard_limit(LimitName("default", "post"), NamedLimit(1, QueueLimit(0, 1, 1_000, 1)).by_key(()))
        rules = KeyRules(QueueLimit(0, 10, 1_000, 5), overrides=(("free", None),))
        known.heard(MAIL, Regulation(1, limits=("post",), keys=rules))
        self.limits = LimitsOfKeys(known)
        self.rates = LentKeyRates(self.limits, lambda _, __: 5, lambda: self.boot_ms)
        self.rates.on_want(self.asked.append)

    def free(self, key: LimitedKey) -> int:
        limit = self.limits.limit_of(key)
        rate = self.rates.of(key, limit, 0, lambda: True) if limit is not None else None
        return -1 if rate is None else rate.free(0)

    def answer(self, home: int, *grants: TokenGrant) -> None:
        asks = self.rates.asks(home)
        self.rates.granted(self.boot_ms, asks, dict(zip(asks, grants, strict=True)))


def test_of_two_rates_the_lowest_is_drawn_from_first() -> None:
    rig = Rig()
    slow, fast = LimitedKey(OF_POST, "acme"), LimitedKey(OF_MAIL, "acme")
    rig.rates.want(MAIL, "acme")
    assert rig.rates.asks(slow.home) == {slow: KeyAsk(1, 0)}
    rig.answer(slow.home, TokenGrant(1, 0, 0))
    rig.rates.want(MAIL, "acme")
    assert rig.rates.asks(slow.home) == {fast: KeyAsk(1, 0)}
    rig.answer(slow.home, TokenGrant(1, 0, 0))
    assert (rig.free(slow), rig.free(fast), set(rig.asked)) == (1, 1, {slow.home})
    rig.rates.want(MAIL, "acme")
    assert rig.rates.to_call() == []
    rig.boot_ms += 2_000
    assert (rig.free(slow), rig.free(fast)) == (0, 0)
    assert rig.rates.counted() == {OF_POST: (1, 1), OF_MAIL: (1, 1)}


def test_what_was_drawn_of_a_key_that_is_forgotten_counts_on() -> None:
    rig = Rig()
    keys = [LimitedKey(OF_POST, f"{n}") for n in range(2 * SLACK_RATES)]
    for key in keys:
        rig.rates.want(MAIL, key.limit_key)
        rig.answer(key.home, TokenGrant(1, 0, 0))
        rig.boot_ms += 10
    assert len(rig.rates) < 1.5 * SLACK_RATES
    assert rig.rates.counted()[OF_POST][0] == len(keys)


def test_what_is_wanted_is_asked_for_until_it_is_answered_also_over_a_lost_lease() -> None:
    rig = Rig()
    slow = LimitedKey(OF_POST, "acme")
    rig.rates.want(MAIL, "acme")
    rig.rates.lapse()
    assert rig.rates.to_call() == [slow.home]
    rig.answer(slow.home, TokenGrant(0, 0, 700))
    assert rig.rates.to_call() == []
    rate = rig.rates.of(slow, QueueLimit(0, 1), 0, lambda: True)
    assert rate is not None
    assert rate.next_ms(0) == 700
    rig.boot_ms += 700
    assert rate.next_ms(0) == math.inf


def test_a_key_without_a_rate_and_a_task_without_a_key_draw_nothing() -> None:
    rig = Rig()
    assert rig.rates.of(LimitedKey(OF_MAIL, ""), QueueLimit(0, 1), 0, lambda: True) is None
    assert rig.rates.of(LimitedKey(OF_MAIL, "acme"), QueueLimit(3), 0, lambda: True) is None
    rig.rates.want(MAIL, "")
    rig.rates.hold(LimitedKey(OF_MAIL, "free"), 1_000)
    rig.rates.leave()
    rig.rates.want(MAIL, "acme")
    assert (rig.asked, len(rig.rates)) == ([], 0)


def test_the_keeper_hears_for_how_long_a_key_is_held() -> None:
    rig = Rig()
    fast = LimitedKey(OF_MAIL, "acme")
    rig.rates.hold(fast, 3_000)
    rig.boot_ms += 500
    assert rig.rates.asks(fast.home) == {fast: KeyAsk(0, 2_500)}
    rig.answer(fast.home, TokenGrant(0, 0, 0))
    assert rig.rates.to_call() == []
