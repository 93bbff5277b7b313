"""The file of targets: a TOML table for each queue whose tasks are posted somewhere.

    [mails]
    url = "https://hooks.example.com/mails"
    secret_file = "/etc/timerd/mails.secret"

Together with the lists of hosts in the server's own settings it is what a request may go to: no task and no caller can
name an address.
"""

from __future__ import annotations

from timerd.config import WebhooksConfig
from timerd.core.taken import QueueKey
from timerd.core.webhooks.urls import objection_to
from timerd.model.webhooks import WebhookTarget
from timerd.services.sinks.target_table import TargetTable, check_each_once, target_tables

MOST_IN_FLIGHT = 1_000
MOST_TIMEOUT_S = 600
_KEYS = (
    *("queue", "namespace", "url", "secret_file", "in_flight", "connect_timeout_s", "timeout_s", "reject_statuses"),
    *("ca_file", "limit"),
)


def read_targets(config: WebhooksConfig) -> list[WebhookTarget]:
    """Empty where no file is named. Raises StartupError, which says what is wrong and where."""
    path = config.targets_file
    if path is None:
        return []
    targets = [_target(table, config) for table in target_tables(path, "file of webhook targets", _KEYS)]
    check_each_once(path, [QueueKey(each.namespace, each.queue) for each in targets])
    return targets


def _target(table: TargetTable, config: WebhooksConfig) -> WebhookTarget:
    queue = table.queue()
    url = table.text("url")
    if objection := objection_to(url, config.hosts, config.insecure_hosts):
        raise table.wrong(f"url {objection}")
    in_flight = table.whole("in_flight", 10, MOST_IN_FLIGHT)
    timeout_ms = round(1_000 * table.number("timeout_s", 15, MOST_TIMEOUT_S))
    return WebhookTarget(
        namespace=queue.namespace,
        queue=queue.queue,
        url=url,
        secret_file=table.text("secret_file"),
        in_flight=in_flight,
        connect_timeout_ms=min(timeout_ms, round(1_000 * table.number("connect_timeout_s", 5, MOST_TIMEOUT_S))),
        timeout_ms=timeout_ms,
        reject_statuses=table.statuses("reject_statuses"),
        ca_file=table.text("ca_file", ""),
        limit=table.text("limit", ""),
    )
