"""A test that does not end, not even when its time is over, is shown where it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = """
from tests import stuck

stuck.CLEAN_UP_S = 1.0


def pytest_configure(config):
    config.pluginmanager.register(stuck.Stuck(config))
"""
# Ends neither when its time is over nor when it is cancelled then.
WAITS_ON = """
import asyncio


async def stubborn():
    while True:
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            pass


async def test_it():
    task = asyncio.create_task(stubborn())
    await asyncio.sleep(1_000)
"""
# With the interpreter's lock in its hands, where no signal is heard.
WAITS_IN_C = """
import ctypes


def test_it():
    c, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    c.pthread_mutex_lock(mutex)
    c.pthread_mutex_lock(mutex)
"""


def said_of(test: str, folder: Path) -> str:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 1\nasyncio_mode = auto\n")
    command = [sys.executable, "-m", "pytest", "-c", str(folder / "pytest.ini"), str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environment, cwd=folder
    )
    assert ended.returncode == 1
    return ended.stderr


def test_one_that_waits_in_its_clean_up_is_shown(tmp_path: Path) -> None:
    assert "in _cancel_all_tasks" in said_of(WAITS_ON, tmp_path)


def test_one_that_waits_in_c_is_shown(tmp_path: Path) -> None:
    assert "in test_it" in said_of(WAITS_IN_C, tmp_path)
