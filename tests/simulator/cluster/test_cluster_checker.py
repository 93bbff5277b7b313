"""What the judge of a cluster excuses, each beside a neighbour that it does not excuse."""

from __future__ import annotations

from tests.simulator.cluster.checker import ClusterChecker
from tests.simulator.events import Delivered, Fenced, Overdrawn
from tests.simulator.tale import LEASE_MS, Tale

TTL_MS = 10_000
SCOPE = "0.0.0"


class Town(Tale):
    """A tale of several instances."""

    way_ms = 0.0

    @property
    def wrong(self) -> list[str]:
        return [sentence for _, sentence in ClusterChecker(TTL_MS, way_ms=self.way_ms).judge(self.events)]

    def fenced(self, at_ms: float, token: int) -> None:
        self.events.append(Fenced(at_ms, SCOPE, token, "b"))

    def sent(self, sent_ms: float, at_ms: float, token: int = 1, worker: str = "w1") -> None:
        self.events.append(Delivered(at_ms, worker, "m", b"m", 1, 100, SCOPE, token, LEASE_MS, sent_ms))

    def ends(self) -> None:
        self.acked(90_000, "m")
        self.over(100_000, m="ACKED")


def _stored() -> Town:
    town = Town()
    town.stored(10, "m", 100)
    town.fenced(50, 1)
    return town


def test_a_delivery_starts_when_it_is_sent() -> None:
    for sent_ms, is_wrong in ((150, False), (170, True)):
        town = _stored()
        town.cancelled(155, "m", "IN_FLIGHT")
        town.sent(sent_ms, 400)
        town.ends()
        assert bool(town.wrong) is is_wrong


def test_an_older_token_is_stale_and_may_come_late() -> None:
    for newest, is_wrong in ((2, False), (1, True)):
        town = _stored()
        town.cancelled(155, "m", "CANCELLED")
        if newest == 2:
            town.fenced(160, 2)
        town.sent(400, 400)
        town.over(100_000, m="CANCELLED")
        assert bool(town.wrong) is is_wrong


def test_the_token_of_a_partition_never_goes_back() -> None:
    town = _stored()
    town.fenced(60, 3)
    town.fenced(70, 2)
    town.sent(150, 150, token=3)
    town.ends()
    assert town.wrong == ["I3: the token of 0.0.0 went from 3 to 2"]


def test_what_is_in_hand_comes_again_only_around_a_fault() -> None:
    for what, is_wrong in (("killed", False), ("lapsed", False), ("stopping", True)):
        town = _stored()
        town.sent(150, 150)
        town.server(160, what)
        town.sent(200, 200, worker="w2")
        town.ends()
        assert bool(town.wrong) is is_wrong, what


def test_what_was_sent_after_a_lease_had_ended_may_cross_its_late_extension() -> None:
    """Not what was sent before the lease had ended, or after its worker was heard of again."""
    for sent_ms, is_wrong in ((3_000, True), (3_400, False), (3_600, True)):
        town = _stored()
        town.sent(150, 150)
        town.extended(3_500, b"m")
        town.sent(sent_ms, 3_700, worker="w2")
        town.ends()
        assert bool(town.wrong) is is_wrong, sent_ms


def test_who_has_just_come_hears_of_a_lease_by_a_stream_that_has_to_be_opened_first() -> None:
    """What is said at 5,500 holds until 8,500; it is on its way for 1,000, and for 2,000 to who came at 4,500."""
    for came_ms, sent_ms, is_wrong in (
        (4_500, 6_400, True),
        (4_500, 6_600, False),
        (1, 7_400, True),
        (1, 7_600, False),
    ):
        town = _stored()
        town.way_ms = 500
        town.sent(4_000, 4_000)
        town.server(came_ms, "started")
        town.extended(5_500, b"m")
        town.sent(sent_ms, sent_ms, worker="w2")
        town.ends()
        assert bool(town.wrong) is is_wrong, (came_ms, sent_ms)


def test_a_confirmed_ack_counts_through_a_fault() -> None:
    town = _stored()
    town.sent(150, 150)
    town.acked(160, "m")
    town.server(170, "killed")
    town.sent(400, 400, worker="w2")
    town.ends()
    assert town.wrong == ["G5: m was delivered although its ack was confirmed"]


def test_nobody_gets_more_than_he_gave_credit_for() -> None:
    town = _stored()
    town.sent(150, 150)
    town.events.append(Overdrawn(150, "w1", "m"))
    town.ends()
    assert town.wrong == ["G9: w1 got m without having given credit for it"]
