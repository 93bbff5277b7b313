"""All streams of an instance: each instance appends the tasks that it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from timerd.model.streams import StreamTarget
from timerd.ports import StreamWriter
from timerd.services.dispatch.delivery import Delivery
from timerd.services.streams.sink import StreamSink


class Streams:
    """`open_writer` makes the way to one target."""

    def __init__(
        self, targets: Sequence[StreamTarget], delivery: Delivery, open_writer: Callable[[StreamTarget], StreamWriter]
    ) -> None:
        self.sinks = [StreamSink(delivery, target, open_writer(target)) for target in targets]

    def join(self) -> None:
        for sink in self.sinks:
            sink.join()

    async def close(self) -> None:
        await asyncio.gather(*(sink.close() for sink in self.sinks))
