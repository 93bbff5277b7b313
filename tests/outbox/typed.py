"""An outbox as who looks from a terminal finds it, and rows for it as an application would write them."""

from __future__ import annotations

import json

from tests.process.children import run_cli
from timerd.outbox.opening import open_outbox
from timerd.outbox.rows import OutboxRow
from timerd.sdk.values import now_ms

FAR_MS = now_ms() + 86_400_000


async def put(url: str, *rows: OutboxRow) -> None:
    store = open_outbox(url)
    await store.put(rows)
    await store.close()


def status(url: str) -> dict[str, object]:
    ran = run_cli("outbox", "status", "--database", url, "--json")
    found: dict[str, object] = json.loads(ran.stdout)
    return found
