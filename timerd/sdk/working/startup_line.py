"""What a worker says of itself when it is there: who it is, where, and which queues it serves."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from timerd.sdk.working.lanes import Lane

log = logging.getLogger("timerd.worker")
_MOST_QUEUES = 5
_DEFAULT = "default"


def startup_line(name: str, server: str, namespace: str, lanes: Iterable[Lane]) -> str:
    """One sentence, however many queues there are."""
    served = [lane.shown for lane in lanes]
    more = f" and {len(served) - _MOST_QUEUES} more" if len(served) > _MOST_QUEUES else ""
    place = f", namespace {namespace}" if namespace != _DEFAULT else ""
    return f"The worker {name} is on {server}{place} and serves {', '.join(served[:_MOST_QUEUES])}{more}."


def show_log() -> None:
    """In a program that has not set up logging: what its worker says stands on stderr."""
    if log.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)


__all__ = ["show_log", "startup_line"]
