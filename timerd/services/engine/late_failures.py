"""Failures of deliveries that are not open where they were sent from: looked up, and told to the holder of their rows
or settled where those wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from timerd.core.dispatch import Failure, RedeliveryGuard, Settlement, fail_row
from timerd.core.taken import Again, Ended, Taken
from timerd.model.ack_token import AckToken
from timerd.model.attempts import AttemptEnd
from timerd.model.errors import StoreUnavailable, StoreUnknown, Unavailable
from timerd.model.identity import RowKey, delivery_id_of
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.storage import DeadLetter
from timerd.ports import Store
from timerd.services.engine.elsewhere import SAY_AGAIN_MS, Elsewhere, silent
from timerd.services.engine.peer_deliveries import PeerDeliveries
from timerd.services.holding.effect_runner import RETRY_S
from timerd.services.holding.scheduler import Scheduler

log = logging.getLogger(__name__)


class LateFailures:
    """Of one scheduler. `peers`: where there are other instances."""

    def __init__(
        self,
        scheduler: Scheduler,
        store: Store,
        elsewhere: Elsewhere,
        redelivery_guard: RedeliveryGuard,
        secret: bytes,
        peers: PeerDeliveries | None = None,
    ) -> None:
        self._peers = peers
        self._scheduler = scheduler
        self._store = store
        self._elsewhere = elsewhere
        self._redelivery_guard = redelivery_guard
        self._secret = secret

    async def again(self, item: Again) -> None:
        delay_ms = max(0, item.position_ms - item.failed_at_ms)
        failure = Failure(item.failed_at_ms, item.last_error, delay_ms)
        if self._scheduler.deliveries.came_since(item.key, item.failed_at_ms):
            return
        if await self._forwarded(item.partition, item.key, failure) is not None or await self._elsewhere.again(item):
            self._redelivery_guard.forget(delivery_id_of(item.key.digest, item.key.version))

    async def fail(self, token: AckToken, failure: Failure) -> bool:
        here = await self._scheduler.finder.look(token.partition, token.key)
        if here is None or here.rows is None:
            return False
        if self._peers is not None and self._is_elsewhere(here.place.partition):
            return await self._fail_there(self._peers, here.place.partition, here.rows, token, failure)
        taken = Taken.of(token.partition, token.fencing_token, here.rows)
        settlement = Settlement()
        fail_row(settlement, taken, 0, token.key, failure, self._secret)
        if settlement.again:
            await self.again(settlement.again[0])
            return True
        if settlement.expired:
            return await self._elsewhere.expire(settlement.expired[0])
        return await self._put_dead_letters(settlement.dead_letters, settlement.dead)

    def _is_elsewhere(self, partition: Partition) -> bool:
        """It is neither held here nor going to be."""
        placed = self._scheduler.hand_over.place_of(partition)
        return partition not in self._scheduler.machines and placed != self._scheduler.membership.name

    async def _fail_there(
        self, peers: PeerDeliveries, partition: Partition, rows: RowGroup, token: AckToken, failure: Failure
    ) -> bool:
        said = await peers.fail(partition, rows.template_of(0).namespace, token, failure)
        if said is None:
            raise silent()
        return said

    async def _forwarded(self, partition: Partition, key: RowKey, failure: Failure) -> bool | None:
        """Whether it counted with the instance that has to see to it. None: there is no other."""
        if self._peers is None:
            return None
        here = await self._scheduler.finder.look(partition, key)
        if here is None or here.rows is None or not self._is_elsewhere(here.place.partition):
            return None
        token = AckToken(partition, key, 0)
        return await self._fail_there(self._peers, here.place.partition, here.rows, token, failure)

    async def put_dead_letter(self, letter: DeadLetter, item: Ended) -> None:
        """Who says so hears it where it did not count: the same row may be with a worker again."""
        failure = Failure(letter.died_at_ms, letter.last_error, end=AttemptEnd.REJECTED)
        counts = await self._forwarded(item.partition, item.key, failure)
        if counts is None:
            counts = await self._put_dead_letters([letter], [item])
        if not counts:
            raise Unavailable(
                "Its partition has changed hands: say it again.", "HOLDER_CHANGED", retry_after_ms=SAY_AGAIN_MS
            )

    async def put_dead_letters_elsewhere(self, dead_letters: Sequence[DeadLetter], ended: Sequence[Ended]) -> None:
        if self._peers is None:
            await self._put_dead_letters(dead_letters, ended)
            return
        for letter, item in zip(dead_letters, ended, strict=True):
            await self.put_dead_letter(letter, item)

    async def _put_dead_letters(self, dead_letters: Sequence[DeadLetter], ended: Sequence[Ended]) -> bool:
        """The deliveries are over for the workers: the store is asked until it has done it. Whether all have ended."""
        if halts := self._scheduler.halting.of(dead_letters):
            await self._scheduler.halting.note(halts)
        while True:
            try:
                await self._store.put_dead_letters(dead_letters)
                break
            except (StoreUnavailable, StoreUnknown) as error:
                log.warning("%d dead letters: %s; trying again", len(dead_letters), error)
                await asyncio.sleep(RETRY_S)
        return all([await self._end_buried(letter, item) for letter, item in zip(dead_letters, ended, strict=True)])

    async def _end_buried(self, letter: DeadLetter, item: Ended) -> bool:
        """Its row was carried on while the worker had it. False: it has ended meanwhile, or is with another worker, so
        this failure came too late."""
        has_ended = await self._elsewhere.end(item)
        if not has_ended:
            await self._store.take_dead_letters([letter.task_id])
            await self._scheduler.halting.lives([letter.task_id])
        self._redelivery_guard.forget(delivery_id_of(item.key.digest, item.key.version))
        return has_ended
