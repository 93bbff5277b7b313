"""The file of quotas: a TOML table for each namespace, read again when it changes.

[shop]
tasks_per_s = 1000
calls_per_s = 200
bytes_per_s = 10_000_000
burst_s = 10
pending_tasks = 1_000_000
stored_bytes = 1_000_000_000

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
# The most that a setting may be; what is not named here is a rate.
MOST_PER_S = 1_000_000_000
_MOST = {"burst_s": 3_600, "pending_tasks": 10**12, "stored_bytes": 10**15}
_LIMITS = ("calls_per_s", "tasks_per_s", "bytes_per_s", "pending_tasks", "stored_bytes")
_KEYS = (*_LIMITS, "burst_s")


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
    if not any(getattr(quota, key) for key in _LIMITS):
        raise StartupError(f"{where}: it limits nothing: give {', '.join(_LIMITS[:-1])} or {_LIMITS[-1]}.")
    return quota


def _number(where: str, key: str, value: object) -> int:
    most = _MOST.get(key, MOST_PER_S)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise StartupError(f"{where}: {key} is {value!r}: write a whole number from 1 to {most:,}.")
    return value
