"""A worker that comes back after a restart acks tens of thousands of deliveries at once whose rows wait where they were
sent from. They end together: one by one each took 22 us, and meanwhile those whose turn had not come were carried on to
the ends of their leases, though nobody had them any more.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from timerd.model.ack_token import AckToken
from timerd.model.identity import RowKey, delivery_id_of
from timerd.model.partition import Partition
from timerd.services.engine.elsewhere import Elsewhere
from timerd.services.engine.held_back import HeldBack
from timerd.services.engine.looking import Looking


class LateAcks:
    """Of one instance."""

    def __init__(
        self, elsewhere: Elsewhere, held_back: HeldBack, looking: Looking, clock_ms: Callable[[], int]
    ) -> None:
        self._elsewhere = elsewhere
        self._held_back = held_back
        self._looking = looking
        self._clock_ms = clock_ms

    async def end_here(self, late: Sequence[AckToken]) -> list[AckToken]:
        """Those that wait where they were sent from end by one record for each partition, durable when this returns.
        The others are returned. Raises NoLongerHeld where one of the partitions has another holder by then."""
        parts: dict[Partition, list[RowKey]] = defaultdict(list)
        for token in late:
            if not self._held_back.waits(token.key):
                parts[token.partition].append(token.key)
        ended: dict[Partition, set[RowKey]] = {}
        waits: list[asyncio.Future[None]] = []
        with ExitStack() as looking:
            for partition, keys in parts.items():
                ended[partition], durable = self._elsewhere.end_all_in_memory(partition, keys)
                if durable is not None:
                    delivery_ids = [delivery_id_of(key.digest, key.version) for key in ended[partition]]
                    looking.enter_context(self._looking.for_rows_here(delivery_ids, self._clock_ms()))
                    waits.append(durable)
            for durable in waits:
                await durable
        return [token for token in late if token.key not in ended.get(token.partition, ())]
