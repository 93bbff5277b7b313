"""What turns instances on a real Cassandra red: the store when it is frozen, and nothing that another instance does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.finding import Found
from tests.engines.instances import Instance, end_all
from tests.process.seen_health import SeenHealth
from tests.process.waiting import until

pytestmark = [pytest.mark.engines, pytest.mark.process]
QUICK = ("--set", "heartbeat=500ms", "--set", "lease_ttl=4s", "--shards", "8")
# Of canaries, a second apart.
SOME = 4
PATIENCE_S = 120


class Pair:
    """Two instances and their health; they serve, each with partitions of its own."""

    def __init__(self, found: Found, keyspace: str, folder: Path) -> None:
        self.instances = [Instance(name, found, keyspace, folder, *QUICK) for name in ("one", "two")]
        self.seen = [SeenHealth(instance.address) for instance in self.instances]

    def start(self) -> None:
        for instance, seen in zip(self.instances, self.seen, strict=True):
            instance.start(*seen.options)
        for seen in self.seen:
            self.comes_through(seen)

    def comes_through(self, seen: SeenHealth) -> None:
        before = seen.fired()
        try:
            until(lambda: seen.fired() > before and seen.is_ready(), "canaries come through", PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen.fired()} have, {before} before; {seen.reasons()}") from error
        assert seen.red() == set()


@pytest.fixture
def pair(cassandra_found: Found, own_keyspace: str, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(cassandra_found, own_keyspace, tmp_path)
    try:
        pair.start()
        yield pair
    finally:
        end_all(pair.instances)


@pytest.fixture
def frozen(cassandra_found: Found) -> Iterator[Found]:
    """May be frozen; goes on at the end, whatever happens."""
    if cassandra_found.signal is None:
        pytest.skip(f"this Cassandra cannot be frozen: it is {cassandra_found.how}, no process of these tests")
    yield cassandra_found
    cassandra_found.signal(signal.SIGCONT)


def test_a_frozen_cassandra_turns_the_store_red_and_restarts_nobody(frozen: Found, pair: Pair) -> None:
    assert frozen.signal is not None
    frozen.signal(signal.SIGSTOP)
    for seen in pair.seen:
        until(lambda seen=seen: "store" in seen.red(), "the frozen store is noticed", PATIENCE_S)  # type: ignore[misc]
        assert "canary" in seen.reasons()["store"]
        assert "live" not in seen.red()
        assert (seen.is_ready(), seen.is_alive()) == (False, True)
    frozen.signal(signal.SIGCONT)
    for seen in pair.seen:
        pair.comes_through(seen)
    assert all(instance.is_running() for instance in pair.instances)


def test_an_instance_that_stands_still_does_not_turn_its_peer_red(pair: Pair) -> None:
    stopped, other = pair.instances[0], pair.seen[1]
    stopped.signal(signal.SIGSTOP)
    try:
        goal = other.fired() + SOME

        def has_fired() -> bool:
            assert other.red() == set(), other.reasons()
            return other.fired() >= goal

        until(has_fired, "the other one goes on", PATIENCE_S)
    finally:
        stopped.signal(signal.SIGCONT)
    pair.comes_through(pair.seen[0])
