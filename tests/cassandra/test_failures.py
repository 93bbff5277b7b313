"""What a failure of the driver lets a caller conclude (guarantee G2)."""

from __future__ import annotations

from typing import cast
from unittest.mock import AsyncMock

import pytest
from cassandra import InvalidRequest, OperationTimedOut, Unavailable, WriteTimeout, WriteType
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionShutdown
from cassandra.policies import RetryPolicy
from cassandra.protocol import ErrorMessage

from timerd.adapters.cassandra.driver import SERIAL, Driver, Part, Statement
from timerd.adapters.cassandra.failures import joined, read_failure, write_failure
from timerd.adapters.cassandra.policies import NoRetry, RetryOnce
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

    async def _send(self, *_: object) -> Part:
        self.sent += 1
        if self.sent <= self._times:
            raise ErrorMessage(0x1700, "proposal accepted by 1 but not a quorum", "")
        return Part([(b"value",)], None)


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
