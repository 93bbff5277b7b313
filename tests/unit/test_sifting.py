"""Rows that were with a worker before, looked at once more when they are about to fire."""

from __future__ import annotations

from tests.unit.test_partition_machine import HERE, NOW_MS, key
from timerd.core.taken import Taken
from timerd.model.identity import RowKey
from timerd.model.rows import FLAG_CARRIED, concat, single_row
from timerd.model.task import Extra, Template
from timerd.services.engine.sifting import sift

HEARD_BY_MS = NOW_MS + 600
LEASED, RETRIED = key(0), key(1)


def carried(*leases: tuple[RowKey, int]) -> Taken:
    template = Template("default", "mails")
    groups = [single_row(k, k.position_ms, template, b"", Extra(lease_until_ms=ms), FLAG_CARRIED) for k, ms in leases]
    return Taken(HERE, 7, concat(groups), [k.digest for k, _ in leases])


def sent_at(now_ms: int, lease_ms: int = 0) -> tuple[list[RowKey], dict[RowKey, int]]:
    """What of both is sent, and what is carried on, until when."""
    batch = carried((LEASED, NOW_MS - 100), (RETRIED, 0))
    found = sift(batch, range(2), lambda _: lease_ms, HEARD_BY_MS, now_ms, bytes(16))
    return [] if found.left is None else found.left.rows.keys(), found.leases


def test_whoever_has_what_was_taken_over_with_its_lease_has_time_to_say_so() -> None:
    """The last holder knew of extensions that the row does not. What failed there is nobody's, and fires at once."""
    assert sent_at(NOW_MS) == ([RETRIED], {LEASED: HEARD_BY_MS})


def test_who_has_not_been_heard_of_by_then_has_it_no_more() -> None:
    assert sent_at(HEARD_BY_MS) == ([LEASED, RETRIED], {})


def test_who_has_been_heard_of_has_it_to_the_end_of_the_lease() -> None:
    assert sent_at(HEARD_BY_MS, HEARD_BY_MS + 5_000) == ([], dict.fromkeys((LEASED, RETRIED), HEARD_BY_MS + 5_000))
