"""The file of targets: a TOML table for each queue whose tasks are posted somewhere.

    [mails]
    url = "https://hooks.example.com/mails"
    secret_file = "/etc/timerd/mails.secret"

Together with the lists of hosts in the server's own settings it is what a request may go to: no task and no caller can
name an address.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from timerd.config import WebhooksConfig
from timerd.core.webhooks.urls import objection_to
from timerd.model.errors import Invalid, StartupError
from timerd.model.webhooks import WebhookTarget
from timerd.services.calls.fields import namespace_of, queue_of
from timerd.services.transport.watched_files import read_watched

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
    try:
        tables = tomllib.loads(read_watched(path, "file of webhook targets").decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartupError(f"{path} is not TOML: {error}.") from error
    targets = [_target(TargetTable(path, name, table), config) for name, table in tables.items()]
    _check_each_once(path, targets)
    return targets


class TargetTable:
    """One table of the file, which says of each of its values where it stands."""

    def __init__(self, path: Path, name: str, values: object) -> None:
        self._where = f"{path}, [{name}]"
        self.name = name
        if not isinstance(values, Mapping):
            raise StartupError(f"{path}: {name} stands outside of a table: write [QUEUE], and its settings below.")
        for key in values.keys() - set(_KEYS):
            near = get_close_matches(key, _KEYS, 1, 0.4)
            hint = f"the nearest is {near[0]}" if near else f"there are {', '.join(_KEYS)}"
            raise self.wrong(f"{key} is no setting: {hint}")
        self._values: Mapping[str, Any] = values

    def wrong(self, says: str) -> StartupError:
        return StartupError(f"{self._where}: {says}.")

    def text(self, key: str, default: str | None = None) -> str:
        value = self._values.get(key, default)
        if value is None:
            raise self.wrong(f"{key} is missing")
        if not isinstance(value, str) or "\0" in value:
            raise self.wrong(f"{key} is no text: write it in quotes")
        return value

    def number(self, key: str, default: float, most: float) -> float:
        """More than 0."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise self.wrong(f"{key} is {value!r}: write a number above 0, {most:,} at most")
        return value

    def statuses(self, key: str) -> frozenset[int]:
        """Such as a receiver gives to what it will never take."""
        values = self._values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(each, int) and 400 <= each <= 599 for each in values):
            raise self.wrong(f"{key} is {values!r}: write a list of statuses from 400 to 599, as [400, 422]")
        return frozenset(values)


def _target(table: TargetTable, config: WebhooksConfig) -> WebhookTarget:
    try:
        namespace, queue = namespace_of(table.text("namespace", "")), queue_of(table.text("queue", table.name), "queue")
    except Invalid as error:
        raise table.wrong(str(error).removesuffix(".")) from error
    url = table.text("url")
    if objection := objection_to(url, config.hosts, config.insecure_hosts):
        raise table.wrong(f"url {objection}")
    in_flight = table.number("in_flight", 10, MOST_IN_FLIGHT)
    if in_flight != int(in_flight):
        raise table.wrong(f"in_flight is {in_flight!r}: write a whole number")
    timeout_ms = round(1_000 * table.number("timeout_s", 15, MOST_TIMEOUT_S))
    return WebhookTarget(
        namespace=namespace,
        queue=queue,
        url=url,
        secret_file=table.text("secret_file"),
        in_flight=int(in_flight),
        connect_timeout_ms=min(timeout_ms, round(1_000 * table.number("connect_timeout_s", 5, MOST_TIMEOUT_S))),
        timeout_ms=timeout_ms,
        reject_statuses=table.statuses("reject_statuses"),
        ca_file=table.text("ca_file", ""),
        limit=table.text("limit", ""),
    )


def _check_each_once(path: Path, targets: list[WebhookTarget]) -> None:
    seen: set[tuple[str, str]] = set()
    for each in targets:
        if (each.namespace, each.queue) in seen:
            raise StartupError(
                f"{path}: the queue {each.queue!r} of the namespace {each.namespace!r} has two targets: give each "
                "queue one, and schedule into two queues what is to go to two places."
            )
        seen.add((each.namespace, each.queue))
