"""A worker comes back at another instance with what it has in hand: the one that holds the rows by now sends them again
unless it hears of that in time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from timerd.core.dispatch import Action
from timerd.core.dispatch.before_restart import HeldTokens
from timerd.peer.v1 import relay_pb2 as pb
from timerd.services.work.home import Home
from timerd.services.work.home_worker import HomeWorker

TOKEN = bytes(64)


class Peer:
    """A link to another instance, on which nothing has been answered yet."""

    def __init__(self) -> None:
        self.resumed: list[tuple[bytes, bool]] = []
        self.sent: list[pb.RelayRequest] = []

    def open(self, worker: int, namespace: str, lease_ms: int, name: bytes, called: str) -> None:
        """It knows the worker."""

    def resume(self, worker: int, tokens: bytes, answered: Callable[[Any], None], *, holds_unknown: bool) -> None:
        self.resumed.append((tokens, holds_unknown))
        self.answer = answered

    def send(self, request: pb.RelayRequest) -> None:
        self.sent.append(request)

    def knows(self, _worker: int) -> bool:
        return False


class Delivery:
    """Of a home that has nothing of this worker."""

    def __init__(self) -> None:
        self.machine = SimpleNamespace(open_among=lambda _, tokens: [False] * (len(tokens) // len(TOKEN)))
        self.released: list[bytes] = []
        self.acked: list[bytes] = []

    def clock_ms(self) -> int:
        return 0

    def left(self, _stream: object) -> None:
        """It has nothing of the worker."""

    def settled(self) -> None:
        """Nobody waits for it."""

    def settle(self, _part: object, _sequence: int, _action: Action, tokens: bytes, *_said: object) -> None:
        self.acked.append(tokens)

    def release(self, _namespace: str, tokens: bytes) -> None:
        self.released.append(tokens)

    def resumed(self, _stream: object, tokens: bytes, *, known_only: bool) -> HeldTokens:
        return HeldTokens(lost=[tokens] if known_only else [])


class Back:
    """A worker that has just come back with one delivery."""

    def __init__(self, *peers: Peer) -> None:
        self.delivery = Delivery()
        self.stream = cast(Any, SimpleNamespace(number=1, owe=lambda _: None, disown=lambda _: None))
        workers = {1: HomeWorker(self.stream, "default", 1_000)}
        links = dict(enumerate(peers))
        allocation = SimpleNamespace(workers=workers, links=links, left=lambda _worker, _now_ms: None)
        self.home = Home(cast(Any, self.delivery), cast(Any, allocation))
        self.home.resume(self.stream, TOKEN)

    def ack(self) -> None:
        self.home.settle(self.stream, 1, Action.ACK, TOKEN, None, "")


def _came_back(*peers: Peer) -> Delivery:
    return Back(*peers).delivery


def test_whoever_is_asked_for_it_holds_its_row_back_from_then_on() -> None:
    """Who has taken the row over waits one grace for that word. Asked first whether it is known and told afterwards,
    it would hear so a way there and a way back later."""
    peers = Peer(), Peer()
    _came_back(*peers)
    assert [peer.resumed for peer in peers] == [[(TOKEN, True)]] * 2


def test_where_one_instance_still_has_it_the_others_need_not_hold_it_back() -> None:
    one, other = Peer(), Peer()
    delivery = _came_back(one, other)
    one.answer(pb.RelayResponse(resumed=pb.RelayResumed(adopted=TOKEN)))
    assert [request.release.ack_tokens for request in other.sent] == [TOKEN]
    assert delivery.released == [TOKEN]
    assert not one.sent


def test_an_ack_waits_until_it_is_known_who_has_the_row() -> None:
    peer = Peer()
    back = Back(peer)
    back.ack()
    assert back.delivery.acked == []
    peer.answer(None)
    assert back.delivery.acked == [TOKEN]


def test_what_a_worker_had_said_before_its_stream_ended_breaks_nothing_for_those_that_are_there() -> None:
    """An error here would end the stream between the two instances, with all that others have on it."""
    one, other = Peer(), Peer()
    back = Back(one, other)
    back.ack()
    one.answer(None)
    back.home.left(back.stream)
    other.answer(None)
    assert back.delivery.acked == []
