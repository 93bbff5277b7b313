"""Rows of keys that have several: each is sent when the one before it is over, and what is left goes on as it is."""

from __future__ import annotations

import asyncio

from tests.outbox.made import FIRE_MS, cancel, move, schedule
from timerd.outbox.chains import send_chains
from timerd.outbox.messages import links_in, rows_in
from timerd.outbox.outcomes import Next, SendOutcome
from timerd.outbox.rows import OutboxRow, RefusedRow, SealedBatch
from timerd.outbox.sealing import batch_of
from timerd.sdk.values.errors import make_error

ROWS = [schedule(b"1", "a"), move("a", FIRE_MS), cancel("a"), schedule(b"2", "b"), cancel("b")]
BATCH = batch_of("0b5e", 2000, 1_800_000_000_000, ROWS)
AWAY = SendOutcome(Next.AGAIN, why=make_error("UNAVAILABLE", "No.", "", 0, ""))
SHUT = SendOutcome(
    Next.AGAIN, why=make_error("FAILED_PRECONDITION", "No.", "QUEUE_SHUT", 0, ""), shut=frozenset({"mails"})
)
OLD = SendOutcome(Next.ANEW, why=make_error("INVALID_ARGUMENT", "No.", "REQUEST_TOO_OLD", 0, ""))


class Answering:
    """A server: `said` of some rows, by their places; all others are taken."""

    def __init__(self, **said: SendOutcome) -> None:
        self._said = {int(place[1:]): outcome for place, outcome in said.items()}
        self.sent: list[OutboxRow] = []
        self.over: list[OutboxRow] = []

    async def send(self, link: SealedBatch) -> SendOutcome:
        [row] = rows_in(link)
        assert [each for each in ROWS[: ROWS.index(row)] if each.key == row.key] == [
            each for each in self.over if each.key == row.key
        ]
        self.sent.append(row)
        await asyncio.sleep(0)
        outcome = self._said.get(ROWS.index(row), SendOutcome(Next.DONE))
        if outcome.next is Next.DONE:
            self.over.append(row)
        return outcome


async def test_each_row_waits_for_the_one_before_and_keys_for_nobody() -> None:
    server = Answering()
    outcome = await send_chains(BATCH, server.send)
    assert (outcome.next, outcome.refused) == (Next.DONE, [])
    assert server.sent == [ROWS[n] for n in (0, 3, 1, 4, 2)]


async def test_a_row_that_is_refused_holds_up_no_later_one_of_its_key() -> None:
    no = RefusedRow(ROWS[1], "There is no task.", "NOT_FOUND")
    server = Answering(_1=SendOutcome(Next.DONE, [no]))
    outcome = await send_chains(BATCH, server.send)
    assert (outcome.next, outcome.refused) == (Next.DONE, [no])
    assert len(server.sent) == len(ROWS)


async def test_what_is_left_of_a_key_waits_and_all_else_is_over() -> None:
    server = Answering(_1=AWAY)
    outcome = await send_chains(BATCH, server.send)
    assert (outcome.next, outcome.left, outcome.why) == (Next.REST, ROWS[1:3], AWAY.why)
    assert [each.request for each in outcome.links] == [each.request for each in links_in(BATCH)[1:3]]


async def test_what_the_server_takes_nothing_of_stays_as_it_is() -> None:
    for said in (AWAY, SHUT):
        outcome = await send_chains(BATCH, Answering(_0=said, _3=said).send)
        assert (outcome.next, outcome.shut, outcome.left) == (Next.AGAIN, said.shut, [])
    assert (await send_chains(BATCH, Answering(_0=AWAY, _3=SHUT).send)).shut == SHUT.shut


async def test_chains_are_made_anew_only_where_nothing_of_them_can_be_stored() -> None:
    """Of a row that is not answered the old bytes may be on their way."""
    assert (await send_chains(BATCH, Answering(_0=OLD, _3=OLD).send)).next is Next.ANEW
    assert (await send_chains(BATCH, Answering(_0=OLD, _3=AWAY).send)).next is Next.AGAIN
    assert (await send_chains(BATCH, Answering(_0=OLD, _4=OLD).send)).next is Next.REST
