"""A handler that judges the starts of ordering keys: one at a time, and fences that never become smaller."""

from __future__ import annotations

import asyncio

from timerd.worker import Delivery, OrderFence


class Judge:
    """Sees each start of a handler, and the end of each that did not fail."""

    def __init__(self) -> None:
        self.open: dict[str, dict[bytes, int]] = {}
        self.fences: dict[str, OrderFence] = {}
        self.done: set[bytes] = set()
        self.failed: set[bytes] = set()
        self.wrong: list[str] = []

    async def __call__(self, delivery: Delivery) -> None:
        key, fence, payload = delivery.ordering_key, delivery.order_fence, delivery.payload
        assert fence is not None
        here = self.open.setdefault(key, {})
        # After a crash a task may come to a second handler while the first one is at it: the same one.
        if here.keys() - {payload}:
            self.wrong.append(f"{payload!r} beside {here}")
        if fence < self.fences.get(key, fence):
            self.wrong.append(f"{payload!r} after {self.fences[key]}")
        here[payload], self.fences[key] = here.get(payload, 0) + 1, fence
        try:
            await asyncio.sleep(0.01)
            if payload.endswith(b"7") and payload not in self.failed:
                self.failed.add(payload)
                raise RuntimeError("not yet")
            self.done.add(payload)
        finally:
            here[payload] -= 1
            if not here[payload]:
                del here[payload]
