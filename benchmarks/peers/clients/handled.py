"""What a stored job of APScheduler names: the job is run in another module than the one that was started."""

from __future__ import annotations

from benchmarks.peers.clients.talk import Enter

ENTER: list[Enter] = []
NAME = f"{__name__}:handle"


def handle(payload: str) -> None:
    for enter in ENTER:
        enter([payload])
