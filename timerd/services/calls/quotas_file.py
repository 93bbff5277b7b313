"""The file of quotas: a TOML table for each namespace, read again when it changes.

[shop]
tasks_per_s = 1000
calls_per_s = 200
bytes_per_s = 10_000_000
burst_s = 10

["*"]               # each other namespace, by itself
tasks_per_s = 5000
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from timerd.model.errors import Invalid, StartupError
from timerd.model.quotas import Quota
from timerd.services.calls.fields import namespace_of
from timerd.services.transport.watched_files import read_watched

OTHERS = "*"
MOST_PER_S, MOST_BURST_S = 1_000_000_000, 3_600
_KEYS = ("calls_per_s", "tasks_per_s", "bytes_per_s", "burst_s")


def read_quotas(path: Path) -> dict[str, Quota]:
    """By namespace. Raises StartupError, which says what is wrong and where."""
    try:
        tables = tomllib.loads(read_watched(path, "file of quotas").decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartupError(f"{path} is not TOML: {error}.") from error
    return {name: _quota(f"{path}, [{name}]", name, table) for name, table in tables.items()}


def _quota(where: str, name: str, table: object) -> Quota:
    if not isinstance(table, Mapping):
        raise StartupError(f"{where}: it stands outside of a table: write [NAMESPACE], and its settings below.")
    if not name:
        raise StartupError(f'{where}: it names no namespace: write [default], or ["*"] for all that have no table.')
    try:
        namespace_of(name if name != OTHERS else "")
    except Invalid as error:
        raise StartupError(f"{where}: {error}") from error
    for key in table.keys() - set(_KEYS):
        near = get_close_matches(key, _KEYS, 1, 0.4)
        hint = f"the nearest is {near[0]}" if near else f"there are {', '.join(_KEYS)}"
        raise StartupError(f"{where}: {key} is no setting: {hint}.")
    quota = Quota(**{key: _number(where, key, value) for key, value in table.items()})
    if not (quota.calls_per_s or quota.tasks_per_s or quota.bytes_per_s):
        raise StartupError(f"{where}: it limits nothing: give calls_per_s, tasks_per_s or bytes_per_s.")
    return quota


def _number(where: str, key: str, value: object) -> int:
    most = MOST_BURST_S if key == "burst_s" else MOST_PER_S
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise StartupError(f"{where}: {key} is {value!r}: write a whole number from 1 to {most:,}.")
    return value
