"""Where the tasks of a queue are posted to, and what comes back from there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from timerd.model.errors import TimerdError


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """One address for the tasks of one queue. `in_flight`: how many requests may be open at one time. `timeout_ms` is
    for all of a request, `connect_timeout_ms` for a connection. `reject_statuses`: answers that make a dead letter at
    once. `ca_file`: who signs its certificate; empty: the authorities of the machine. `limit`: what
    an answer of 429 holds; empty: the queue."""

    namespace: str
    queue: str
    url: str
    secret_file: str
    in_flight: int = 10
    connect_timeout_ms: int = 5_000
    timeout_ms: int = 15_000
    reject_statuses: frozenset[int] = frozenset()
    ca_file: str = ""
    limit: str = ""


# So much of an answer that is not kept is read.
ERROR_BYTES = 4_096


class HttpAnswer(NamedTuple):
    """`retry_after`, `content_type`: headers as they came, empty where there was none. `body`: its beginning."""

    status: int
    retry_after: str = ""
    body: bytes = b""
    content_type: str = ""


class NoAnswer(TimerdError):
    """Nothing came back, or not in time: what the other side did is unknown."""
