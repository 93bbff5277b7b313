"""The rules of queues on one instance, without a store that answers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from timerd.core.dispatch import HandCount
from timerd.core.protocol import Request
from timerd.core.regulation import AdaptiveLimits, Breakers, KnownRules, RuleLimits, Standstills
from timerd.core.taken import QueueKey
from timerd.model.errors import QueueShut, StoreUnavailable, Unavailable
from timerd.model.regulations import Mode, Regulation
from timerd.services.holding.single_instance import SingleInstance
from timerd.services.regulation.regulating import Regulating

MAIL = QueueKey("default", "mail")
NOW_MS = 1_000


class Runner:
    """A store with no rules, or none at all."""

    def __init__(self) -> None:
        self.is_down = False
        self.asked = 0

    async def perform(self, _: Request) -> object:
        self.asked += 1
        if self.is_down:
            raise StoreUnavailable("The store does not answer.", "STORE_UNAVAILABLE")
        return [[]]


class Rig:
    def __init__(self) -> None:
        self.boot_ms = 0.0
        self.opened: list[Any] = []
        self.runner, self.known = Runner(), KnownRules()
        self.regulating = Regulating(
            self.known,
            RuleLimits(self.known, lambda _: HandCount(), self.opened.append),
            self.runner,
            cast(Any, SingleInstance("here")),
            None,
            self.opened.append,
            lambda: self.boot_ms,
            Standstills(
                self.known,
                Breakers(self.known, lambda _: HandCount(), self.opened.append, "here"),
                AdaptiveLimits(self.known, lambda _: HandCount(), self.opened.append),
            ),
        )


async def test_before_the_rules_were_read_nothing_is_taken_in() -> None:
    rig = Rig()
    rig.runner.is_down = True
    await rig.regulating.begin()
    with pytest.raises(Unavailable, match="has just started"):
        rig.regulating.check_intake(MAIL, NOW_MS)
    assert rig.known.opens_ms(MAIL, NOW_MS) > NOW_MS
    rig.runner.is_down = False
    await rig.regulating.step()
    rig.regulating.check_intake(MAIL, NOW_MS)
    assert rig.opened == [{MAIL}]


async def test_while_the_store_is_down_the_rules_of_before_hold() -> None:
    rig = Rig()
    await rig.regulating.begin()
    rig.regulating.heard(MAIL, Regulation(1, Mode.STOPPED))
    rig.runner.is_down = True
    rig.boot_ms = 60_000
    await rig.regulating.step()
    with pytest.raises(QueueShut, match="STOPPED"):
        rig.regulating.check_intake(MAIL, NOW_MS)
    assert rig.known.opens_ms(QueueKey("default", "other"), NOW_MS) == NOW_MS


async def test_the_store_is_asked_every_ten_seconds_and_not_more_often() -> None:
    rig = Rig()
    await rig.regulating.begin()
    asked = rig.runner.asked
    for rig.boot_ms in (1_000, 9_999):
        await rig.regulating.step()
    assert rig.runner.asked == asked
    rig.boot_ms = 10_000
    await rig.regulating.step()
    assert rig.runner.asked == 2 * asked
