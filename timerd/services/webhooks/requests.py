"""A due task as a request: its payload is the body, and what a worker would be told stands in headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import printable
from typing import NamedTuple
from urllib.parse import quote

from timerd.core.dispatch import task_id_of
from timerd.core.taken import Taken
from timerd.core.webhooks.signing import signature_header
from timerd.model.identity import attempt_of, delivery_id_of, encode_id
from timerd.model.instants import shown

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
    rows, columns = taken.rows, taken.rows.columns
    template, extra = rows.template_of(row), rows.extra_of(row)
    position_ms, version = int(columns["position_ms"][row]), int(columns["version"][row])
    partition = taken.partition
    headers = {
        "content-type": quote(template.content_type, _AS_THEY_ARE) or PLAIN_BYTES,
        "timerd-task-id": encode_id(task_id_of(taken, row, position_ms, extra, secret).to_bytes()),
        "timerd-namespace": template.namespace,
        "timerd-queue": template.queue,
        "timerd-attempt": str(attempt_of(version)),
        "timerd-fire-time": shown(int(columns["fire_at_ms"][row])),
        "timerd-fencing-scope": f"{partition.scope}.{partition.bucket_ms}.{partition.shard}",
        "timerd-fencing-token": str(taken.token),
    }
    if extra.key:
        headers["timerd-key"] = quote(extra.key, _AS_THEY_ARE)
    if template.traceparent:
        headers["traceparent"] = template.traceparent
    webhook_id = encode_id(delivery_id_of(taken.digests[row], version))
    return WebhookRequest(webhook_id, headers, rows.payload(row), template.keep_result_ms)
