"""Rows of keys that have several: of each key one after the other, of all keys side by side.

Each row is a request of its own, which the server knows when it comes again. So who takes the batch over begins with
the first of each key, and is answered what was answered before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from timerd.outbox.messages import links_in, rows_in
from timerd.outbox.outcomes import Next, SendOutcome
from timerd.outbox.rows import RefusedRow, SealedBatch

SendLink = Callable[[SealedBatch], Awaitable[SendOutcome]]


class ChainOutcome(NamedTuple):
    """`left`: what was not answered, or is to come again; `last`: why the first of it is."""

    refused: list[RefusedRow]
    left: Sequence[SealedBatch] = ()
    last: SendOutcome | None = None


async def send_chains(batch: SealedBatch, send: SendLink) -> SendOutcome:
    """`send` sends a batch of one row once."""
    return of_chains(batch, await asyncio.gather(*(_send_one(chain, send) for chain in _chains_in(batch))))


def _chains_in(batch: SealedBatch) -> list[list[SealedBatch]]:
    """By key, in the order of their rows."""
    chains: dict[str, list[SealedBatch]] = {}
    for link in links_in(batch):
        chains.setdefault(rows_in(link)[0].key, []).append(link)
    return [*chains.values()]


async def _send_one(chain: Sequence[SealedBatch], send: SendLink) -> ChainOutcome:
    """A row goes when the one before it is over (X3)."""
    refused: list[RefusedRow] = []
    for at, link in enumerate(chain):
        outcome = await send(link)
        if outcome.next is not Next.DONE:
            return ChainOutcome(refused, chain[at:], outcome)
        refused += outcome.refused
    return ChainOutcome(refused)


def of_chains(batch: SealedBatch, said: Sequence[ChainOutcome]) -> SendOutcome:
    """What is over goes, so that its keys are free. It is made anew only where nothing of it can be stored any more."""
    refused = [row for each in said for row in each.refused]
    links = [link for each in said for link in each.left]
    if not links:
        return SendOutcome(Next.DONE, refused)
    waiting = [each.last for each in said if each.last is not None]
    first = max(waiting, key=lambda each: bool(each.shut))
    if len(links) < batch.tasks:
        rows = [row for link in links for row in rows_in(link)]
        return SendOutcome(Next.REST, refused, first.why, rows, first.shut, links)
    if all(each.next is Next.ANEW for each in waiting):
        return SendOutcome(Next.ANEW, why=first.why)
    return SendOutcome(Next.AGAIN, why=first.why, shut=first.shut)
