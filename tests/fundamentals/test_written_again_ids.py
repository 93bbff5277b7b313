"""A row that comes too late for its place is written again further on, and its task has one id all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from timerd.adapters.memory import MemoryStore
from timerd.model.storage import Append, Appended
from timerd.testing import Server
from timerd.worker import Delivery


class Held:
    """The append of one call is held up while time goes on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.has_come, self.goes_on = asyncio.Event(), asyncio.Event()
        append = MemoryStore.append

        async def held(store: MemoryStore, messages: Sequence[Append]) -> Sequence[Appended]:
            if not self.has_come.is_set():
                self.has_come.set()
                await self.goes_on.wait()
            return await append(store, messages)

        patch.setattr(MemoryStore, "append", held)


@pytest.mark.parametrize("key", [None, "order"])
async def test_each_try_is_answered_with_the_id_of_the_later_place(
    key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[bytes] = []
    async with Server() as server:
        client, worker = server.client(), server.worker()

        @worker.on("q")
        async def take(delivery: Delivery) -> None:
            got.append(delivery.payload)

        await worker.start()
        await client.schedule("q", b"other", delay=1)
        at = server.now
        with monkeypatch.context() as patch:
            held = Held(patch)
            calling = asyncio.create_task(client.schedule("q", b"late", at=at, request_id="r", key=key))
            await held.has_come.wait()
            await server.advance(seconds=8)
            held.goes_on.set()
            task = await calling
        for _ in range(2):
            again = await client.schedule("q", b"late", at=at, request_id="r", key=key)
            assert again.id == task.id
        await server.advance(seconds=2)
        assert got == [b"other", b"late"]
        assert (await client.schedule("q", b"late", at=at, request_id="r", key=key)).id == task.id
        assert (await client.get(task.id)).state.name == "ACKED"
