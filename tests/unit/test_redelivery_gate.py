"""Rows that were with a worker before, looked at once more when they are about to fire."""

from __future__ import annotations

import pytest

from tests.unit.partition_rig import HERE, NOW_MS, key
from timerd.core.dispatch.redelivery_gate import GONE, OffloadGate, RedeliveryGate
from timerd.core.dispatch.redelivery_guard import RedeliveryGuard
from timerd.core.gates import DueBatch, End, Fate, Requeue
from timerd.core.taken import Taken
from timerd.model.identity import RowKey
from timerd.model.rows import FLAG_CARRIED, concat, single_row
from timerd.model.settle import Outcome
from timerd.model.task import Extra, RetryPolicy, Template

RETURN_MS = 600
HEARD_BY_MS = NOW_MS + RETURN_MS
LEASED, RETRIED = key(0), key(1)
MAILS = Template("default", "mails")


def carried(*leases: tuple[RowKey, int], template: Template = MAILS) -> DueBatch:
    groups = [single_row(k, k.position_ms, template, b"", Extra(lease_until_ms=ms), FLAG_CARRIED) for k, ms in leases]
    return DueBatch(Taken.of(HERE, 7, concat(groups)), NOW_MS, 0)


def fates_at(now_ms: int, lease_ms: int = 0, *, template: Template = MAILS) -> dict[RowKey, Fate]:
    """What becomes of those of both that are not sent."""
    batch = carried((LEASED, NOW_MS - 100), (RETRIED, 0), template=template)
    gate = RedeliveryGate(RedeliveryGuard(), lambda _: lease_ms, bytes(16), RETURN_MS)
    return {batch.key(row): fate for row, fate in gate.judge(batch, now_ms).items()}


def test_whoever_has_what_was_taken_over_with_its_lease_has_time_to_say_so() -> None:
    """The last holder knew of extensions that the row does not. What failed there is nobody's, and fires at once."""
    assert fates_at(NOW_MS) == {LEASED: Requeue(HEARD_BY_MS)}


def test_who_has_not_been_heard_of_by_then_has_it_no_more() -> None:
    assert fates_at(HEARD_BY_MS) == {}


def test_who_has_been_heard_of_has_it_to_the_end_of_the_lease() -> None:
    until_ms = HEARD_BY_MS + 5_000
    assert fates_at(HEARD_BY_MS, until_ms) == dict.fromkeys((LEASED, RETRIED), Requeue(until_ms))


def test_the_last_attempt_that_ended_silently_leaves_a_dead_letter() -> None:
    fates = fates_at(HEARD_BY_MS, template=Template("default", "mails", retry=RetryPolicy(max_attempts=0)))
    assert set(fates) == {LEASED, RETRIED}
    for fate in fates.values():
        assert isinstance(fate, End)
        assert fate.outcome is Outcome.DEAD
        assert fate.letter is not None
        assert (fate.letter.attempts, fate.letter.last_error) == (0, GONE)


def test_what_expired_while_a_worker_had_it_expires_when_nobody_has_it_any_more() -> None:
    expired = Template("default", "mails", expire_at_ms=NOW_MS - 1)
    assert fates_at(HEARD_BY_MS, template=expired) == dict.fromkeys((LEASED, RETRIED), End(Outcome.EXPIRED))
    assert fates_at(NOW_MS, template=expired)[LEASED] == Requeue(HEARD_BY_MS)


def test_what_is_no_suspect_is_not_asked_for() -> None:
    batch = carried((LEASED, NOW_MS + 1_000))
    batch.due.rows.columns["flags"] = 0
    gate = RedeliveryGate(RedeliveryGuard(), lambda _: 1 << 60, bytes(16), RETURN_MS)
    assert gate.judge(batch, NOW_MS) == {}


def test_what_another_gate_has_decided_is_not_asked_for() -> None:
    """The guard forgets a lease when it is asked for."""
    batch = carried((LEASED, NOW_MS + 1_000))
    batch.fates[0] = End(Outcome.CANCELLED)
    asked: list[RowKey] = []

    def lease_of(row: RowKey) -> int:
        asked.append(row)
        return 0

    assert RedeliveryGate(RedeliveryGuard(), lease_of, bytes(16)).judge(batch, NOW_MS) == {}
    assert asked == []


@pytest.mark.parametrize(
    ("now_ms", "lease_ms", "stay"),
    [
        (NOW_MS, 0, {LEASED: Requeue(HEARD_BY_MS)}),
        (HEARD_BY_MS, HEARD_BY_MS + 5_000, dict.fromkeys((LEASED, RETRIED), Requeue(HEARD_BY_MS + 5_000))),
        (HEARD_BY_MS, HEARD_BY_MS, {}),
    ],
)
def test_what_a_worker_has_or_may_have_does_not_go_to_the_backlog(
    now_ms: int, lease_ms: int, stay: dict[RowKey, Fate]
) -> None:
    """Whether it has an attempt left is for who sends it to say."""
    batch = carried((LEASED, NOW_MS - 100), (RETRIED, 0), template=Template("default", "mails", retry=RetryPolicy(0)))
    gate = OffloadGate(RedeliveryGuard(), lambda _: lease_ms, RETURN_MS)
    assert {batch.key(row): fate for row, fate in gate.judge(batch, now_ms).items()} == stay
