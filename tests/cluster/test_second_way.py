"""Hints to an instance that cannot be called: they arrive, once, and whatever else comes by that way harms nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product

import pytest

from tests.cluster.peer_rig import Pair, until
from tests.cluster.second_way_rig import SOON, cut, fires_on_time, second_way
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.peer.v1 import peer_service_pb2 as pb
from timerd.ports import Heard
from timerd.services.holding.cluster_settings import cluster_settings
from timerd.services.peers.hint_seal import HintSeal
from timerd.services.peers.peer_wire import HintedRows, rows_message
from timerd.services.peers.second_way import MOST_BYTES, SecondWay
from timerd.testing.contracts.build import tasks

HERE = Partition(0, 0, 0)


@dataclass
class Post:
    """Carries messages between the instances of a test, and keeps them."""

    readers: list[tuple[Callable[[], str], Heard]] = field(default_factory=list)
    carried: list[tuple[str, bytes]] = field(default_factory=list)
    is_open: bool = True

    def hints(self) -> PostHints:
        return PostHints(self)

    def bring(self, channel: str, message: bytes) -> None:
        for own, heard in self.readers:
            if own() == channel:
                heard(channel, message)

    def channels(self) -> list[str]:
        return [own() for own, _ in self.readers]


@dataclass
class PostHints:
    """Implements Hints."""

    post: Post
    lost: int = 0

    def send(self, channel: str, message: bytes) -> bool:
        if self.post.is_open:
            self.post.carried.append((channel, message))
            self.post.bring(channel, message)
        return self.post.is_open

    def listen(self, channel: Callable[[], str], heard: Heard) -> None:
        self.post.readers.append((channel, heard))

    async def close(self) -> None:
        """Nothing is open."""


async def test_where_the_call_fails_the_hint_arrives_all_the_same() -> None:
    post = Post()
    async with Pair(hints=post.hints) as pair:
        await pair.b_holds()
        await pair.works()
        await fires_on_time(pair, b"by call")
        assert post.carried == []
        await cut(pair)
        await fires_on_time(pair, b"one")
        await fires_on_time(pair, *(b"%d" % n for n in range(20)))
        assert second_way(pair, "a").sent == second_way(pair, "b").taken == len(post.carried)
        assert {channel for channel, _ in post.carried} == {post.channels()[1]}


async def test_who_answers_again_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked without a hint, so no hint waits for the answer."""
    monkeypatch.setattr("timerd.services.peers.peers.SILENCE_S", 0.01)
    post = Post()
    async with Pair(hints=post.hints) as pair:
        await pair.b_holds()
        await pair.works()
        peering = pair.cluster.instances["a"].node.peering
        assert peering is not None
        address, peers = pair.cluster.instances["b"].node.address, peering.peers
        peers._silent_until_s[address] = 1.0
        await fires_on_time(pair, b"while silent")
        await until(lambda: address not in peers._silent_until_s)
        carried = len(post.carried)
        assert carried
        await fires_on_time(pair, b"by call")
        assert len(post.carried) == carried


async def test_without_it_too_nothing_is_lost_or_doubled() -> None:
    """G12: a sweep late."""
    post = Post(is_open=False)
    async with Pair(hints=post.hints) as pair:
        await pair.b_holds()
        await pair.works()
        await cut(pair)
        at = pair.cluster.now + SOON
        await pair.client.schedule_many("q", [(b"%d" % n, at) for n in range(100)])
        await pair.cluster.advance(seconds=10)
        assert sorted(pair.payloads) == sorted(b"%d" % n for n in range(100))
        assert all(at <= when <= at + timedelta(seconds=2) for _, when in pair.got)


async def test_a_hint_that_comes_by_both_ways_fires_once() -> None:
    """A call that is not answered may have been heard; and whoever can read the way can repeat what was on it."""
    post = Post()
    async with Pair(hints=post.hints) as pair:
        await pair.b_holds()
        await pair.works()
        await cut(pair)
        at = pair.cluster.now + SOON
        await pair.client.schedule_many("q", [(b"%d" % n, at) for n in range(20)])
        await pair.hinted(rows=21)
        for channel, message in list(post.carried) * 3:
            post.bring(channel, message)
        await pair.cluster.advance(seconds=1)
        for channel, message in list(post.carried):
            post.bring(channel, message)
        await pair.cluster.advance(seconds=10)
        for channel, message in list(post.carried):
            post.bring(channel, message)
        await pair.cluster.advance(minutes=3)
        assert sorted(pair.payloads) == sorted(b"%d" % n for n in range(20))


def forged(pair: Pair, seal: HintSeal, channel: str) -> bytes:
    """A row that nobody has ever written, due at once."""
    rows = tasks("m", [pair.bucket.end_ms - 10_000] * 3, payload=b"forged")
    content = pb.HintRequest(rows=[rows_message(HintedRows(pair.bucket, rows, 0))]).SerializeToString()
    return seal.close(channel, content)


async def test_what_others_write_there_harms_nothing() -> None:
    post = Post()
    async with Pair(hints=post.hints) as pair:
        await pair.b_holds()
        await pair.works()
        secret, *_ = await cluster_settings(pair.cluster.store, 0, 1)
        own, theirs = post.channels()[1], HintSeal(secret)
        good = forged(pair, theirs, own)
        stranger = forged(pair, HintSeal(b"another cluster".ljust(32)), own)
        of_another = forged(pair, theirs, post.channels()[0])
        other_version = bytes([good[0] + 1]) + good[1:]
        broken = theirs.close(own, b"\xff" * 100)
        wrong_rows = theirs.close(own, pb.HintRequest(rows=[pb.Rows(keys=b"\x01" * 7)]).SerializeToString())
        bad = [b"", b"x", b"\0" * 33, stranger, of_another, other_version, good[:-1], good + b"\0", broken, wrong_rows]
        for message in bad:
            post.bring(own, message)
        assert second_way(pair, "b").refused == len(bad)
        assert second_way(pair, "b").taken == 0
        assert sum(m.waiting_rows for m in pair.cluster.instances["b"].node.scheduler.machines.values()) == 1
        await cut(pair)
        await fires_on_time(pair, b"x")
        await pair.cluster.advance(minutes=2)
        assert pair.got == []


def test_a_seal_is_for_one_channel_of_one_cluster() -> None:
    names, secrets = ("a:1", "a:11", "b:1"), (b"s" * 32, b"t" * 32)
    for (mine, name), (theirs, other) in product(product(secrets, names), repeat=2):
        opened = HintSeal(theirs).open(other, HintSeal(mine).close(name, b"content"))
        assert (opened == b"content") is ((mine, name) == (theirs, other))
    assert HintSeal(secrets[0]).channel("a", 1) != HintSeal(secrets[1]).channel("a", 1)


@dataclass
class Town:
    """Implements Lives."""

    name: str = "a"
    incarnation: int = 7
    others: Mapping[str, tuple[str, int]] = field(default_factory=lambda: {"b:1": ("b", 9)})

    def incarnation_at(self, address: str) -> tuple[str, int] | None:
        return self.others.get(address)


def test_what_nobody_can_hear_is_lost_and_said_to_be() -> None:
    post = Post()
    way = SecondWay(post.hints(), Town(), HintSeal(b"s" * 32))
    few = pb.HintRequest(rows=[rows_message(HintedRows(HERE, tasks("m", [1, 2]), 5))])
    large = pb.HintRequest(rows=[pb.Rows(payloads=b"x" * MOST_BYTES)])
    assert not way.send("gone:1", few)
    assert not way.send("b:1", large)
    assert way.send("b:1", few)
    assert [channel.rpartition(":hints:")[2].split(":")[1:] for channel, _ in post.carried] == [["b", "9"]]


def test_another_life_has_another_channel() -> None:
    town, post, heard = Town(), Post(), list[tuple[Partition, RowGroup, int]]()
    way = SecondWay(post.hints(), town, HintSeal(b"s" * 32))
    way.listen(lambda *each: heard.append(each))
    before = post.channels()
    town.incarnation = 8
    assert post.channels() != before
