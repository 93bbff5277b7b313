"""A file of targets is TOML: a table for each queue, whose name is that of the queue unless it names another one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from timerd.core.taken import QueueKey
from timerd.model.errors import Invalid, StartupError
from timerd.services.calls.fields import namespace_of, queue_of
from timerd.services.transport.watched_files import read_watched


def target_tables(path: Path, what: str, keys: Sequence[str]) -> list[TargetTable]:
    """`what`: the file, for who reads what is wrong with it. `keys`: the settings that a table may have. Raises
    StartupError."""
    try:
        tables = tomllib.loads(read_watched(path, what).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartupError(f"{path} is not TOML: {error}.") from error
    return [TargetTable(path, name, table, keys) for name, table in tables.items()]


class TargetTable:
    """One table of the file, which says of each of its values where it stands."""

    def __init__(self, path: Path, name: str, values: object, keys: Sequence[str]) -> None:
        self._where = f"{path}, [{name}]"
        self.name = name
        if not isinstance(values, Mapping):
            raise StartupError(f"{path}: {name} stands outside of a table: write [QUEUE], and its settings below.")
        for key in values.keys() - set(keys):
            near = get_close_matches(key, keys, 1, 0.4)
            hint = f"the nearest is {near[0]}" if near else f"there are {', '.join(keys)}"
            raise self.wrong(f"{key} is no setting: {hint}")
        self._values: Mapping[str, Any] = values

    def wrong(self, says: str) -> StartupError:
        return StartupError(f"{self._where}: {says}.")

    def queue(self) -> QueueKey:
        try:
            namespace = namespace_of(self.text("namespace", ""))
            return QueueKey(namespace, queue_of(self.text("queue", self.name), "queue"))
        except Invalid as error:
            raise self.wrong(str(error).removesuffix(".")) from error

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

    def whole(self, key: str, default: int, most: int) -> int:
        value = self.number(key, default, most)
        if value != int(value):
            raise self.wrong(f"{key} is {value!r}: write a whole number")
        return int(value)

    def whole_or_none(self, key: str, default: int, most: int) -> int:
        """0 turns it off."""
        value = self._values.get(key, default)
        return 0 if value == 0 and value is not False else self.whole(key, default, most)

    def statuses(self, key: str) -> frozenset[int]:
        """Such as a receiver gives to what it will never take."""
        values = self._values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(each, int) and 400 <= each <= 599 for each in values):
            raise self.wrong(f"{key} is {values!r}: write a list of statuses from 400 to 599, as [400, 422]")
        return frozenset(values)


def check_each_once(path: Path, queues: Iterable[QueueKey]) -> None:
    seen: set[QueueKey] = set()
    for queue in queues:
        if queue in seen:
            raise StartupError(
                f"{path}: the queue {queue.queue!r} of the namespace {queue.namespace!r} has two targets: give each "
                "queue one, and schedule into two queues what is to go to two places."
            )
        seen.add(queue)
