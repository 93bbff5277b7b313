"""All webhook targets of an instance: each instance posts the tasks that it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from timerd.model.webhooks import WebhookTarget
from timerd.ports import Poster
from timerd.services.calls.results import KeptResults
from timerd.services.dispatch.delivery import Delivery
from timerd.services.webhooks.secret_file import SecretFile
from timerd.services.webhooks.sink import WebhookSink


class Webhooks:
    """`open_poster` makes the way to one target. Raises StartupError where a file that a target names is not to be
    used."""

    def __init__(
        self,
        targets: Sequence[WebhookTarget],
        delivery: Delivery,
        open_poster: Callable[[WebhookTarget], Poster],
        now_ms: Callable[[], int],
        results: KeptResults,
    ) -> None:
        secrets = [SecretFile(Path(target.secret_file)) for target in targets]
        self.sinks = [
            WebhookSink(delivery, target, open_poster(target), secret, now_ms, results)
            for target, secret in zip(targets, secrets, strict=True)
        ]

    def join(self) -> None:
        for sink in self.sinks:
            sink.join()

    async def refresh(self) -> None:
        """Takes up secrets that have changed."""
        for sink in self.sinks:
            sink.secrets.refresh()

    async def close(self) -> None:
        await asyncio.gather(*(sink.close() for sink in self.sinks))
