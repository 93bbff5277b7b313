"""The tests of the examples with Flask, FastAPI and Django pass, each where its library is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
PYTEST = ("pytest", "-q", "-c", os.devnull, "--rootdir", str(ROOT), "-p", "timerd.testing.pytest_plugin")
SETTINGS = {"DJANGO_SETTINGS_MODULE": "examples.django_reminders.settings"}


def needs(*libraries: str) -> pytest.MarkDecorator:
    missing = " ".join(name for name in libraries if not find_spec(name))
    return pytest.mark.skipif(bool(missing), reason=f"not installed: pip install {missing}")


def run(folder: Path, *arguments: str) -> str:
    """What it said. Plugins are named, since only an installed timerd has the entry point of its own."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **SETTINGS, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs("flask")
def test_flask(tmp_path: Path) -> None:
    assert "2 passed" in run(tmp_path, *PYTEST, "-p", "no:cacheprovider", str(ROOT / "examples/flask_reminders"))


@needs("fastapi", "httpx")
def test_fastapi(tmp_path: Path) -> None:
    assert "2 passed" in run(tmp_path, *PYTEST, "-p", "no:cacheprovider", str(ROOT / "examples/fastapi_reminders"))


@needs("django")
def test_django(tmp_path: Path) -> None:
    assert "Ran 2 tests" in run(tmp_path, "django", "test", "examples.django_reminders.tests")
