"""The server that does nothing but store: that it answers, and that what it answered is on disk."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from benchmarks import barest


@pytest.mark.parametrize("kind", ["nothing", "SQLite"])
async def test_every_call_is_answered(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barest, "CALLERS", 2)
    seconds = 0.3
    calls = round(await barest.measured(kind, seconds, tmp_path) * seconds)
    assert calls > 0
    if kind != "nothing":
        [(stored,)] = sqlite3.connect(tmp_path / "calls.db").execute("SELECT count(*) FROM calls")
        assert stored == calls
