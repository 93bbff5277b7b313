"""Runs in a file of SQLite: a row per tick, and the views `measurements` (one value a row) and `known_metrics`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from timerd.simulate.durations import Floats
from timerd.simulate.metrics import KNOWN, Metrics
from timerd.simulate.settings import Settings
from timerd.simulate.summary import Summary

_COLUMNS = ", ".join(f"{each.name} {'REAL' if each.unit == 's' else 'INTEGER'}" for each in KNOWN)
_VALUES = " UNION ALL ".join(f"SELECT run, at_s, '{each.name}', {each.name} FROM ticks" for each in KNOWN)
_MEANINGS = ", ".join(f"('{each.name}', '{each.unit}', '{each.meaning}')" for each in KNOWN)
_SCHEMA = f"""
CREATE TABLE runs (run INTEGER PRIMARY KEY, name TEXT, strategy TEXT, settings TEXT, summary TEXT);
CREATE TABLE ticks (run INTEGER, at_s REAL, {_COLUMNS}, PRIMARY KEY (run, at_s)) WITHOUT ROWID;
CREATE VIEW measurements (run, at_s, metric, value) AS {_VALUES};
CREATE VIEW known_metrics (metric, unit, meaning) AS VALUES {_MEANINGS};
"""


class RunFile:
    """Made by `written`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA)

    def add(self, name: str, settings: Settings, metrics: Metrics, summary: Summary) -> None:
        described = (name, settings.strategy, json.dumps(asdict(settings)), json.dumps(asdict(summary)))
        run = self._connection.execute(
            "INSERT INTO runs (name, strategy, settings, summary) VALUES (?, ?, ?, ?)", described
        ).lastrowid
        begins_s = [tick * settings.tick_s for tick in range(settings.ticks)]
        columns = [_listed(metrics.columns[each.name], each.unit) for each in KNOWN]
        marks = ", ".join("?" * len(KNOWN))
        rows = zip(begins_s, *columns, strict=True)
        self._connection.executemany(f"INSERT INTO ticks VALUES ({run}, ?, {marks})", rows)


def _listed(column: Floats, unit: str) -> list[Any]:
    """NaN becomes NULL there."""
    listed: list[Any] = (column.round(3) if unit == "s" else column.astype(int)).tolist()
    return listed


@contextmanager
def written(path: Path) -> Iterator[RunFile]:
    """The file has its name when it is whole. What stood there before is replaced."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    # Else SQLite only says that it is unable.
    part.touch(exist_ok=False)
    try:
        with closing(sqlite3.connect(part)) as connection:
            yield RunFile(connection)
            connection.commit()
        part.replace(path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
