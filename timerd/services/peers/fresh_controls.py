"""Control rows, read serially after they were asked for: all who ask while one read runs share the next.

A cancel asks for the control row after its mark is durable; hundreds of them come at once, mostly for few partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from timerd.model.partition import Partition
from timerd.model.registers import Control, control_key
from timerd.ports import Store
from timerd.services.background import begin

ControlFuture = asyncio.Future[Control | None]


class FreshControls:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[Partition, ControlFuture]] = []
        self._reader: asyncio.Task[None] | None = None

    async def of(self, partition: Partition) -> Control | None:
        """None: nobody has held it yet. Raises what the store raises."""
        answer: ControlFuture = asyncio.get_running_loop().create_future()
        self._waiting.append((partition, answer))
        if self._reader is None:
            self._reader = begin(self._read_all(), "fresh_controls")
        return await answer

    async def _read_all(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, []
            await self._read(asked)
        self._reader = None

    async def _read(self, asked: Sequence[tuple[Partition, ControlFuture]]) -> None:
        partitions = list(dict.fromkeys(partition for partition, _ in asked))
        try:
            stored = await self._store.read([control_key(partition) for partition in partitions])
            rows = [Control.from_bytes(each) if each is not None else None for each in stored]
        except Exception as error:  # noqa: BLE001 - told to those who asked
            for _, answer in asked:
                if not answer.done():
                    answer.set_exception(error)
            return
        found = dict(zip(partitions, rows, strict=True))
        for partition, answer in asked:
            if not answer.done():
                answer.set_result(found[partition])
