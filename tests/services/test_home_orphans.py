"""A worker comes back at another instance with what it has in hand: the one that holds the rows by now sends them again
unless it hears of that in time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

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


class Delivery:
    """Of a home that has nothing of this worker."""

    def __init__(self) -> None:
        self.machine = SimpleNamespace(open_among=lambda _, tokens: [False] * (len(tokens) // len(TOKEN)))
        self.released: list[bytes] = []

    def release(self, _namespace: str, tokens: bytes) -> None:
        self.released.append(tokens)

    def resumed(self, _stream: object, tokens: bytes, *, known_only: bool) -> HeldTokens:
        return HeldTokens(lost=[tokens] if known_only else [])


def _came_back(*peers: Peer) -> Delivery:
    stream = cast(Any, SimpleNamespace(number=1))
    workers = {1: HomeWorker(stream, "default", 1_000)}
    delivery = Delivery()
    allocation = SimpleNamespace(workers=workers, links=dict(enumerate(peers)))
    Home(cast(Any, delivery), cast(Any, allocation)).resume(stream, TOKEN)
    return delivery


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
