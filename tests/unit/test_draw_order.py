"""A queue that may start few, and its limit keys, which have rates as well: no token is drawn that cannot be used, and
nobody waits for one that nobody asks for."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from timerd.core.dispatch import Allowance, DeliveryMachine, HandCount, Slice
from timerd.core.fairness import KeyedRows, LimitKeys
from timerd.core.regulation import (
    AllRules,
    DrawOrder,
    DrawStage,
    KeyAsk,
    KnownRules,
    LentKeyRates,
    LentKeys,
    LentLimits,
    LentRates,
    LimitedKey,
    LimitLabels,
    RuleKeyLimits,
    RuleLimits,
    SharedKeyLimits,
    TokenGrant,
)
from timerd.core.regulation.draw_order import DEADLINE_MS
from timerd.core.regulation.limits import LOOK_MS
from timerd.core.regulation.tokens import SEEN_MS, TOKEN_MS
from timerd.core.taken import QueueKey
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.regulations import KeyRules, QueueLimit, Regulation
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template

MAIL, OF_MAIL = QueueKey("default", "mail"), LimitLabels("default", "mail", "")
SLOW, OF_EACH = QueueLimit(0, 30, 60_000, 1), QueueLimit(0, 20, 60_000, 1)
SOME, NONE = TokenGrant(0, 0, 0), TokenGrant(0, 0, 700)
ONE = TokenGrant(1, 0, 0)


class Rig:
    """One instance of a cluster. A test is the keepers: it sees what they are asked, and answers."""

    def __init__(self, *limit_keys: str, rows: int = 5) -> None:
        self.now_ms = 1_000_000
        boot_ms = lambda: float(self.now_ms - 900_000)  # noqa: E731 - another clock
        self.known, machine = KnownRules(), DeliveryMachine(b"s" * 32, 0)
        self.known.read(AllRules(), self.known.life)
        self.keys = LimitKeys(set())
        self.keys.queues.add(MAIL)
        self.home = KeyedRows(Partition(TIME_SCOPE, 0, 0), self.keys, lambda _: None)
        lent = LentLimits(self.known, lambda _: HandCount(), lambda: 0, lambda: 0)
        lent_keys = LentKeys(self.known, machine.key_hands, lambda: 0, lambda: 0)
        self.rates = LentRates(self.known, lambda _: 10, boot_ms)
        self.key_rates = LentKeyRates(lent_keys.limits, self.keys.waiting, boot_ms)
        parts = self.known, machine, self.keys
        of_queues = RuleKeyLimits(*parts, self.key_rates, lent_keys)
        self.shared = SharedKeyLimits(*parts, of_queues, self.key_rates, lent_keys, self.key_rates)
        self.limits = RuleLimits(self.known, lambda _: HandCount(), lambda _: None, float, lent, self.rates)
        self.limits.draws_by(self.key_rates.draw_order, self.shared.opens_ms)
        self.rule(SLOW)
        for limit_key in limit_keys:
            self.file(limit_key, rows)

    def rule(self, own: QueueLimit | None, of_each: QueueLimit | None = OF_EACH) -> None:
        revision = self.known.of(MAIL).revision + 1
        self.known.heard(MAIL, Regulation(revision, limit=own, keys=KeyRules(of_each, share=1)))
        self.limits.changed()
        self.shared.opened([MAIL])

    def file(self, limit_key: str, rows: int) -> None:
        group = RowGroup(np.zeros(rows, ROW), np.zeros(1, PREFIX), [Template(*MAIL, limit_key=limit_key)], b"", [])
        self.home.file(MAIL, group, rows)

    def cancel(self, limit_key: str) -> None:
        """All that is due of it."""
        self.home.pull(lambda rows: np.array([rows.template_of(n).limit_key == limit_key for n in range(len(rows))]))

    # -- what it does ---------------------------------------------------------------------------------------------

    def allowed(self) -> Allowance:
        return self.limits.allow(MAIL, 10, self.now_ms)

    def sent(self) -> str:
        """A visit, as of delivery."""
        if not (allowed := self.allowed().tasks):
            return ""
        turn = self.keys.turn(MAIL, self.now_ms)
        picks = [chunk.limit_key(row) for chunk, row in turn.pick(allowed)]
        turn.taken(Counter(picks))
        turn.end()
        if picks:
            self.limits.sent(Slice(MAIL, self.now_ms, len(picks), 1, 10, is_dry=False, is_all=False))
        return "".join(picks)

    # -- what it asks ---------------------------------------------------------------------------------------------

    @property
    def wants(self) -> bool:
        """A token of the queue."""
        return bool(self.rates.to_call())

    def asked(self) -> dict[str, KeyAsk]:
        found = [self.key_rates.asks(home) for home in self.key_rates.to_call()]
        return {key.limit_key: ask for asks in found for key, ask in asks.items()}

    @property
    def drawing(self) -> str:
        return "".join(key for key, ask in self.asked().items() if ask.want)

    def hand_out(self, grant: TokenGrant = ONE) -> None:
        """Of the queue."""
        boot_ms = self.rates.boot_ms()
        self.rates.of(OF_MAIL).granted(boot_ms, boot_ms, grant)

    def answer(self, **grants: TokenGrant) -> None:
        for limit_key, grant in grants.items():
            key = LimitedKey(OF_MAIL, limit_key)
            self.key_rates.granted(self.rates.boot_ms(), {key: self.asked()[limit_key]}, {key: grant})
            self.shared.granted([key])


def test_a_queue_draws_nothing_before_a_key_of_it_may_start() -> None:
    rig = Rig("a", "b")
    assert (rig.allowed().tasks, rig.asked(), rig.wants) == (0, {"a": KeyAsk(0, 0), "b": KeyAsk(0, 0)}, False)
    rig.answer(a=NONE, b=NONE)
    assert (rig.allowed(), rig.asked(), rig.wants) == (Allowance(0, rig.now_ms + 700), {}, False)
    rig.now_ms += 700
    rig.allowed()
    rig.answer(a=NONE, b=SOME)
    assert (rig.allowed(), rig.wants) == (Allowance(0, math.inf), True)


def test_one_key_draws_for_a_token_of_the_queue_and_the_next_one_where_there_is_none() -> None:
    rig = Rig("a", "b", "c")
    rig.hand_out()
    assert (rig.sent(), rig.drawing) == ("", "a")
    assert rig.allowed() == Allowance(0, rig.now_ms + LOOK_MS), "the token is for that key"
    rig.answer(a=NONE)
    assert (rig.sent(), rig.drawing) == ("", "b")
    rig.answer(b=ONE)
    assert rig.sent() == "b"
    rig.allowed()
    assert (set(rig.asked()), rig.drawing) == ({"b", "c"}, ""), "nobody draws for a queue that has no token"


def test_a_key_whose_last_task_is_cancelled_leaves_the_token_to_the_next_one() -> None:
    rig = Rig("a", "b")
    rig.hand_out()
    assert (rig.sent(), rig.drawing) == ("", "a")
    rig.cancel("a")
    assert (rig.sent(), rig.drawing) == ("", "ab")
    rig.answer(b=ONE)
    assert rig.sent() == "b"


def test_a_key_that_was_seen_stays_ready_while_the_queue_has_nothing() -> None:
    """So the queue asks on when the key that was to start has nothing due any more."""
    rig = Rig("a", "b")
    rig.allowed()
    rig.answer(a=SOME, b=SOME)
    rig.allowed()
    rig.hand_out(NONE)
    rig.cancel("a")
    assert (rig.allowed(), rig.keys.next_ms(MAIL)) == (Allowance(0, rig.now_ms + 700), -math.inf)
    rig.now_ms += 700
    assert (rig.allowed().tasks, rig.asked()) == (0, {"b": KeyAsk(0, 0)}), "what was seen is true for a moment"
    rig.answer(b=SOME)
    rig.allowed()
    assert rig.wants


def test_a_keeper_that_does_not_answer_keeps_no_other_key_back() -> None:
    rig = Rig("a", "b")
    rig.hand_out()
    rig.sent()
    rig.now_ms += DEADLINE_MS
    assert (rig.sent(), rig.drawing) == ("", "ab")
    rig.answer(b=ONE)
    assert rig.sent() == "b"
    rig.answer(a=ONE)
    assert (rig.allowed().tasks, rig.wants) == (0, True), "there is a token of a key"
    rig.hand_out()
    assert rig.sent() == "a"


def test_keys_draw_theirs_before_the_token_of_the_queue_begins() -> None:
    rig = Rig("a", "b")
    rig.hand_out(TokenGrant(1, 150, 0))
    assert (rig.allowed(), rig.drawing) == (Allowance(0, rig.now_ms + 150), "a")
    rig.answer(a=TokenGrant(1, 100, 0))
    assert (rig.allowed().tasks, rig.drawing) == (0, "")
    rig.now_ms += 150
    assert rig.sent() == "a"


def test_a_token_of_the_queue_that_has_lapsed_is_nobodys() -> None:
    rig = Rig("a", "b")
    rig.hand_out()
    rig.sent()
    rig.now_ms += TOKEN_MS
    assert (rig.allowed().tasks, rig.asked()["b"]) == (0, KeyAsk(0, 0))
    rig.answer(b=SOME)
    rig.hand_out()
    assert (rig.sent(), rig.drawing) == ("", "ab")


def test_some_keys_of_many_are_asked_for_at_a_time() -> None:
    rig = Rig(*(f"k{n}" for n in range(100)), rows=1)
    rig.allowed()
    assert len(rig.asked()) == 16
    rig.answer(**dict.fromkeys(rig.asked(), NONE))
    rig.allowed()
    assert len(rig.asked()) == 16
    rig.answer(**dict.fromkeys(rig.asked(), SOME))
    rig.allowed()
    assert (rig.asked(), rig.wants) == ({}, True)
    rig.now_ms += SEEN_MS
    rig.hand_out()
    rig.sent()
    assert list(rig.asked()) == ["k16"], "its turn came first"


@pytest.mark.parametrize("own", [None, QueueLimit(0, 100, 1_000, 10)])
def test_all_keys_of_a_queue_draw_that_may_start_many(own: QueueLimit | None) -> None:
    """Also where it was another rule that it went by."""
    rig = Rig("a", "b", "c")
    rig.hand_out()
    rig.sent()
    rig.rule(own)
    rig.hand_out(TokenGrant(9, 0, 0))
    assert (rig.sent(), rig.drawing) == ("", "abc")
    rig.answer(a=ONE, b=ONE, c=ONE)
    assert rig.sent() == "abc"
    rig.answer(a=NONE, b=NONE, c=NONE)
    rig.now_ms += TOKEN_MS
    rig.rule(SLOW)
    rig.allowed()
    assert (set(rig.asked()), rig.drawing) == ({"a", "b", "c"}, "")


def test_keys_whose_rate_is_taken_away_wait_for_the_queue_alone() -> None:
    rig = Rig("a", "b")
    rig.hand_out()
    rig.sent()
    rig.rule(SLOW, None)
    assert rig.sent() == "a"
    rig.allowed()
    assert rig.wants


def test_a_queue_that_shares_a_limit_of_each_key_draws_without_a_look() -> None:
    """The other one may have each token of the key as soon as there is one."""
    rig = Rig("a")
    rig.known.heard_limit(LimitName("default", "account"), NamedLimit(1, OF_EACH).by_key(()))
    for queue in (MAIL, QueueKey("default", "news")):
        rig.known.heard(queue, Regulation(9, limit=SLOW, limits=("account",)))
    rig.shared.opened([MAIL])
    assert (rig.allowed().tasks, rig.asked(), rig.wants) == (0, {}, True)


def test_a_key_keeps_the_token_for_its_second_limit() -> None:
    stages = {"a": DrawStage.READY, "b": DrawStage.READY}
    order = DrawOrder(lambda _, limit_key: stages[limit_key], lambda: 0.0)
    assert not order.admit(MAIL, "a"), "nothing is known of the queue"
    assert order.allow(MAIL, 1, 1) == 1
    assert [order.admit(MAIL, each) for each in "aba"] == [True, False, True]
    assert order.allow(MAIL, 1, 1) == 1
    stages["a"] = DrawStage.ASKED
    assert (order.allow(MAIL, 2, 2), order.left(MAIL)) == (1, 1)
    order.sent(MAIL, "b", 1)
    assert (order.left(MAIL), order.admit(MAIL, "b")) == (0, False)
