"""Rows of keys that have several: each is sent when the one before it is over, and what is left goes on as it is."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.outbox.made import FIRE_MS, cancel, move, schedule
from timerd.outbox.chains import send_chains
from timerd.outbox.messages import links_in, rows_in
from timerd.outbox.outcomes import Next, SendOutcome
from timerd.outbox.rows import OutboxRow, RefusedRow, SealedBatch
from timerd.outbox.sealing import batch_of, rest
from timerd.sdk.values.errors import make_error

A, B = [schedule(b"1", "a"), move("a", FIRE_MS), cancel("a")], [schedule(b"2", "b"), cancel("b")]
# Links 0: both are scheduled; 1: a is moved; 2: both are cancelled; 3: another key.
BATCH = batch_of("0b5e", 2000, 1_800_000_000_000, [*A, *B, move("c", FIRE_MS), schedule(b"3", "c")])
AWAY = SendOutcome(Next.AGAIN, why=make_error("UNAVAILABLE", "No.", "", 0, ""))
SHUT = SendOutcome(
    Next.AGAIN, why=make_error("FAILED_PRECONDITION", "No.", "QUEUE_SHUT", 0, ""), shut=frozenset({"mails"})
)
OLD = SendOutcome(Next.ANEW, why=make_error("INVALID_ARGUMENT", "No.", "REQUEST_TOO_OLD", 0, ""))
HALVES = SendOutcome(Next.HALVES, why=make_error("INVALID_ARGUMENT", "No.", "INVALID", 0, ""))


class Answering:
    """A server: `said` of some links, by their places; all others are taken."""

    def __init__(self, batch: SealedBatch, said: dict[int, SendOutcome]) -> None:
        self._links, self._said = links_in(batch), said
        self.sent: list[int] = []
        self.over: list[OutboxRow] = []
        self.at_once = 0

    async def send(self, link: SealedBatch) -> SendOutcome:
        place = self._links.index(link)
        before = [row for each in self._links[:place] for row in rows_in(each)]
        for row in rows_in(link):
            assert [each for each in before if each.key == row.key] == [e for e in self.over if e.key == row.key]
        self.sent.append(place)
        await asyncio.sleep(0)
        outcome = self._said.get(place, SendOutcome(Next.DONE))
        if outcome.next is Next.DONE:
            self.over += rows_in(link)
        return outcome


async def said(outcomes: dict[int, SendOutcome]) -> SendOutcome:
    return await send_chains(BATCH, Answering(BATCH, outcomes).send)


def test_each_link_is_of_one_verb_and_has_a_key_once() -> None:
    assert [[(row.verb, row.key) for row in rows_in(each)] for each in links_in(BATCH)] == [
        [(1, "a"), (1, "b")],
        [(3, "a"), (3, "c")],
        [(2, "a"), (2, "b")],
        [(1, "c")],
    ]


async def test_each_row_waits_for_the_one_before_of_its_key() -> None:
    server = Answering(BATCH, {})
    outcome = await send_chains(BATCH, server.send)
    assert (outcome.next, outcome.refused) == (Next.DONE, [])
    assert sorted(server.sent) == [0, 1, 2, 3]


async def test_keys_wait_for_no_others() -> None:
    apart = batch_of("0b5e", 2000, 1, [cancel("a"), schedule(b"1", "a"), move("b", FIRE_MS), move("b", FIRE_MS + 1)])
    server = Answering(apart, {0: AWAY})
    outcome = await send_chains(apart, server.send)
    assert server.sent == [0, 2, 3]
    assert [row.key for row in outcome.left] == ["a", "a"]


async def test_a_row_that_is_refused_holds_up_no_later_one_of_its_key() -> None:
    no = RefusedRow(A[1], "There is no task.", "NOT_FOUND")
    outcome = await said({1: SendOutcome(Next.DONE, [no])})
    assert (outcome.next, outcome.refused) == (Next.DONE, [no])


async def test_what_is_left_of_a_key_waits_and_all_else_is_over() -> None:
    outcome = await said({2: AWAY})
    assert (outcome.next, outcome.left, outcome.why) == (Next.REST, [A[2], B[1]], AWAY.why)
    assert outcome.links == [links_in(BATCH)[2]]
    outcome = await said({1: AWAY})
    assert outcome.links == links_in(BATCH)[1:]


async def test_what_the_server_takes_nothing_of_stays_as_it_is() -> None:
    for each in (AWAY, SHUT):
        outcome = await said({0: each})
        assert (outcome.next, outcome.shut, outcome.left) == (Next.AGAIN, each.shut, [])


async def test_a_link_that_is_refused_as_a_whole_is_parted_and_those_behind_it_wait() -> None:
    outcome = await said({0: HALVES})
    assert (outcome.next, outcome.links[:2]) == (Next.REST, [A[:1], B[:1]])
    left = rest("0b5e", BATCH, BATCH.made_ms + 1, outcome)
    assert [rows_in(each) for each in links_in(left)[:2]] == [A[:1], B[:1]]
    assert links_in(left)[2].request == links_in(BATCH)[1].request
    assert (left.no, left.tasks) == (BATCH.no + 1, BATCH.tasks)
    assert len({each.request for each in links_in(left)} | {each.request for each in links_in(BATCH)}) == 6


async def test_of_a_link_that_was_stored_in_part_the_rest_goes_on() -> None:
    refused = RefusedRow(A[0], "No.", "KEY_TAKEN")
    outcome = await said({0: SendOutcome(Next.REST, [refused], SHUT.why, [B[0]], SHUT.shut)})
    assert (outcome.next, outcome.refused, outcome.links[0]) == (Next.REST, [refused], [B[0]])


async def test_chains_are_made_anew_only_where_nothing_of_them_can_be_stored() -> None:
    """Of a link that is not answered the old bytes may be on their way."""
    assert (await said({0: OLD})).next is Next.ANEW
    apart = batch_of("0b5e", 2000, 1, [cancel("a"), schedule(b"1", "a"), move("b", FIRE_MS), move("b", FIRE_MS + 1)])
    for outcomes, then in (({0: OLD, 2: OLD}, Next.ANEW), ({0: OLD, 2: AWAY}, Next.AGAIN), ({0: OLD}, Next.REST)):
        assert (await send_chains(apart, Answering(apart, outcomes).send)).next is then


async def test_a_mistake_of_ours_is_not_hidden() -> None:
    async def fail(link: SealedBatch) -> SendOutcome:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        await send_chains(BATCH, fail)


any_row = st.builds(
    lambda verb, key: {1: schedule(b"p", key), 2: cancel(key), 3: move(key, FIRE_MS)}[verb],
    st.integers(1, 3),
    st.sampled_from("abc"),
)


@given(st.lists(any_row, min_size=2, max_size=30), st.dictionaries(st.integers(0, 30), st.sampled_from([AWAY, OLD])))
def test_whatever_fails_each_row_is_over_or_left_and_in_order(
    rows: list[OutboxRow], outcomes: dict[int, SendOutcome]
) -> None:
    batch = batch_of("0b5e", 2000, 1_800_000_000_000, [*rows, cancel("a"), cancel("a")])
    server = Answering(batch, outcomes)
    outcome = asyncio.run(send_chains(batch, server.send))
    left = rows_in(batch) if outcome.next in (Next.AGAIN, Next.ANEW) else outcome.left
    for key in "abc":
        of_key = [row for row in [*rows, cancel("a"), cancel("a")] if row.key == key]
        assert [row for row in [*server.over, *left] if row.key == key] == of_key
