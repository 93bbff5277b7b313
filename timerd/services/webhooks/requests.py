"""A due task as a request: its payload is the body, and what a worker would be told stands in headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import printable
from typing import NamedTuple
from urllib.parse import quote

from timerd.core.taken import Taken
from timerd.core.webhooks.signing import signature_header
from timerd.services.sinks.facts import facts_of

# Of what may be any text; a percent sign is written as one, so that what was written can be told.
_AS_THEY_ARE = printable[:95].replace("%", "")
PLAIN_BYTES = "application/octet-stream"


class WebhookRequest(NamedTuple):
    """`id` is that of the delivery: the same over all attempts. `keep_ms`: for how long its answer is kept; 0: it is
    not."""

    id: str
    headers: Mapping[str, str]
    body: bytes
    keep_ms: int = 0

    def signed(self, keys: Sequence[bytes], timestamp_s: int) -> dict[str, str]:
        """The headers of an attempt at that second."""
        return {
            **self.headers,
            "webhook-id": self.id,
            "webhook-timestamp": str(timestamp_s),
            "webhook-signature": signature_header(keys, self.id, timestamp_s, self.body),
        }


def request_of(taken: Taken, row: int, secret: bytes) -> WebhookRequest:
    """`secret`: that of the ids."""
    facts = facts_of(taken, row, secret)
    headers = {
        "content-type": quote(facts.content_type, _AS_THEY_ARE) or PLAIN_BYTES,
        "timerd-task-id": facts.task_id,
        "timerd-namespace": facts.namespace,
        "timerd-queue": facts.queue,
        "timerd-attempt": facts.attempt,
        "timerd-fire-time": facts.fire_time,
        "timerd-fencing-scope": facts.fencing_scope,
        "timerd-fencing-token": facts.fencing_token,
    }
    if facts.key:
        headers["timerd-key"] = quote(facts.key, _AS_THEY_ARE)
    if facts.traceparent:
        headers["traceparent"] = facts.traceparent
    keep_ms = taken.rows.template_of(row).keep_result_ms
    return WebhookRequest(facts.delivery_id, headers, taken.rows.payload(row), keep_ms)
