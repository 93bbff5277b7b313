"""Rows of keys that have several: links, of which those with a key in common go one after the other, and others beside
each other.

Each link is a request of its own, which the server knows when it comes again. So who takes the batch over begins with
the first ones, and is answered what was answered before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from timerd.outbox.messages import keys_in, links_in, rows_in
from timerd.outbox.outcomes import Next, SendOutcome
from timerd.outbox.rows import OutboxRow, SealedBatch

SendLink = Callable[[SealedBatch], Awaitable[SendOutcome]]
# A link, and what the server said to it; None: it was not sent, for one before it is not over.
SaidOfLink = tuple[SealedBatch, SendOutcome | None]


async def send_chains(batch: SealedBatch, send: SendLink) -> SendOutcome:
    """`send` sends a link once."""
    sendings: list[asyncio.Task[SaidOfLink]] = []
    last: dict[tuple[str, str], asyncio.Task[SaidOfLink]] = {}
    async with asyncio.TaskGroup() as group:
        for link in links_in(batch):
            keys = keys_in(link)
            before = {last[key] for key in keys if key in last}
            sending = group.create_task(_send_behind(before, link, send))
            sendings.append(sending)
            last.update(dict.fromkeys(keys, sending))
    return of_chains([each.result() for each in sendings])


async def _send_behind(before: Collection[asyncio.Task[SaidOfLink]], link: SealedBatch, send: SendLink) -> SaidOfLink:
    """A row goes when the one before it of its key is over (X3)."""
    for each in before:
        _, said = await each
        if said is None or said.next is not Next.DONE:
            return link, None
    return link, await send(link)


def of_chains(said: Sequence[SaidOfLink]) -> SendOutcome:
    """What is over goes, so that its keys are free. It is made anew only where nothing of it can be stored any more."""
    outcomes = [outcome for _, outcome in said if outcome is not None]
    refused = [row for each in outcomes if each.next in (Next.DONE, Next.REST) for row in each.refused]
    links = [left for link, outcome in said for left in _left(link, outcome)]
    if not links:
        return SendOutcome(Next.DONE, refused)
    waiting = [each for each in outcomes if each.next is not Next.DONE]
    first = max(waiting, key=lambda each: bool(each.shut))
    if any(each.next in (Next.DONE, Next.HALVES, Next.REST) for each in outcomes):
        rows = [row for each in links for row in (rows_in(each) if isinstance(each, SealedBatch) else each)]
        return SendOutcome(Next.REST, refused, first.why, rows, first.shut, links)
    is_too_old = all(each.next is Next.ANEW for each in waiting)
    return SendOutcome(Next.ANEW if is_too_old else Next.AGAIN, why=first.why, shut=first.shut)


def _left(link: SealedBatch, outcome: SendOutcome | None) -> Sequence[SealedBatch | Sequence[OutboxRow]]:
    match outcome.next if outcome is not None else None:
        case Next.DONE:
            return []
        case Next.HALVES:
            rows = rows_in(link)
            return [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
        case Next.REST if outcome is not None:
            return [outcome.left]
    return [link]
