"""What a failure of the driver lets a caller conclude (guarantee G2)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from cassandra import InvalidRequest, OperationTimedOut, Unavailable, WriteTimeout, WriteType
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionShutdown
from cassandra.policies import RetryPolicy
from cassandra.protocol import ErrorMessage

from timerd.adapters.cassandra.driver import ROWS, SERIAL, Driver, ResultPart, Statement
from timerd.adapters.cassandra.failures import NoRetry, RetryOnce, is_crowded, joined, read_failure, write_failure
from timerd.adapters.cassandra.settings import CassandraSettings
from timerd.adapters.cassandra.write_times import WriteTimes, wall_ms
from timerd.model.errors import StoreUnavailable, StoreUnknown

NOTHING = StoreUnavailable("down", "STORE_UNAVAILABLE")
UNKNOWN = StoreUnknown("who knows")


@pytest.mark.parametrize(
    "error", [Unavailable("too few replicas"), NoHostAvailable("none", {}), InvalidRequest("no such column")]
)
def test_what_was_never_sent_to_a_replica_was_not_stored(error: Exception) -> None:
    assert isinstance(write_failure(error), StoreUnavailable)


@pytest.mark.parametrize(
    "error", [WriteTimeout("slow", write_type=WriteType.SIMPLE), OperationTimedOut(), ConnectionShutdown("gone")]
)
def test_what_was_sent_and_not_answered_is_unknown(error: Exception) -> None:
    assert isinstance(write_failure(error), StoreUnknown)
    assert isinstance(read_failure(error), StoreUnavailable)


def test_our_own_errors_stay_what_they_are() -> None:
    assert write_failure(NOTHING) is NOTHING
    assert read_failure(UNKNOWN) is UNKNOWN


def test_nothing_was_stored_only_where_that_is_so_of_all_parts() -> None:
    assert joined([NOTHING, NOTHING], wrote_some=False) is NOTHING
    assert isinstance(joined([NOTHING], wrote_some=True), StoreUnknown)
    assert isinstance(joined([NOTHING, UNKNOWN], wrote_some=False), StoreUnknown)
    assert isinstance(joined([NOTHING, ValueError("a mistake")], wrote_some=True), ValueError)


def test_the_driver_sends_reads_again_once_and_writes_never() -> None:
    for event in ("on_read_timeout", "on_write_timeout", "on_unavailable", "on_request_error"):
        assert getattr(RetryOnce(), event)(None, retry_num=0)[0] == RetryPolicy.RETRY_NEXT_HOST
        assert getattr(RetryOnce(), event)(None, retry_num=1)[0] == RetryPolicy.RETHROW
        assert getattr(NoRetry(), event)(None, retry_num=0)[0] == RetryPolicy.RETHROW


class Undecided:
    """A driver whose first answers to a serial read are that nobody knows yet."""

    def __init__(self, times: int) -> None:
        self.sent = 0
        self._times = times

    async def _send(self, *_: object) -> ResultPart:
        self.sent += 1
        if self.sent <= self._times:
            raise ErrorMessage(0x1700, "proposal accepted by 1 but not a quorum", "")
        return ResultPart([(b"value",)], None)


class Prepared:
    def bind(self, values: object) -> object:
        return values


@pytest.mark.parametrize(("times", "sent"), [(1, 2), (2, 2)])
async def test_a_serial_read_that_met_a_transaction_under_way_is_made_once_more(times: int, sent: int) -> None:
    driver = Undecided(times)
    reading = Driver.part(cast(Driver, driver), Statement(Prepared(), SERIAL), ())
    if times == 1:
        assert (await reading).rows == [(b"value",)]
    else:
        with pytest.raises(StoreUnavailable, match="not a quorum"):
            await reading
    assert driver.sent == sent


async def test_no_other_failure_is_asked_again_beside_the_driver() -> None:
    driver = Undecided(0)
    driver._send = AsyncMock(side_effect=OperationTimedOut())  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await Driver.part(cast(Driver, driver), Statement(Prepared(), SERIAL), ())
    assert driver._send.await_count == 1


FULL = NoHostAvailable("none", {"one": ConnectionBusy("overloaded"), "another": ConnectionBusy("overloaded")})


class Sockets:
    """A session that says of the first requests that its sockets are full."""

    def __init__(self, times: int) -> None:
        self.sent = 0
        self._times = times

    def execute_async(self, *_: object, **__: object) -> Sockets:
        self.sent += 1
        return self

    def add_callbacks(self, answered: Any, failed: Any, given: Any, _: object, __: object) -> None:  # noqa: ANN401 - the driver's
        self._paging_state = None
        if self.sent <= self._times:
            failed(FULL, *given)
        else:
            answered([(b"value",)], *given)

    def clear_callbacks(self) -> None:
        """Nothing leads back here."""


def driver_of(sockets: Sockets, request_timeout_s: float) -> Driver:
    driver = Driver(
        SimpleNamespace(is_shutdown=False),
        sockets,
        CassandraSettings(request_timeout_s=request_timeout_s),
        WriteTimes(wall_ms),
    )
    driver.attach(asyncio.get_running_loop())
    return driver


async def test_where_all_sockets_are_full_for_the_moment_it_is_sent_a_moment_later() -> None:
    """Large rows are on their way; nothing of this one was sent."""
    sockets = Sockets(times=3)
    assert await driver_of(sockets, 60).write(Statement(Prepared(), ROWS), ()) == [(b"value",)]
    assert sockets.sent == 4


async def test_where_they_stay_full_nothing_was_stored() -> None:
    with pytest.raises(StoreUnavailable, match="nothing was stored"):
        await driver_of(Sockets(times=1_000), 0.02).write(Statement(Prepared(), ROWS), ())


@pytest.mark.parametrize("errors", [{}, {"one": ConnectionBusy("overloaded"), "another": ConnectionShutdown("gone")}])
def test_a_node_that_is_gone_is_no_full_socket(errors: dict[str, Exception]) -> None:
    assert not is_crowded(NoHostAvailable("none", errors))
    assert not is_crowded(OperationTimedOut())
    assert is_crowded(FULL)
