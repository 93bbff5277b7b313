"""The files of docs/use/testing.md are a program and its tests, which pass as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import blocks

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
PAGE = "docs/use/testing.md"
PLUGINS = ("-p", "timerd.testing.pytest_plugin", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider")


def test_its_tests_pass(tmp_path: Path) -> None:
    text = blocks.read(PAGE)
    files = blocks.files(text)
    assert len(files) == len(blocks.blocks(text))
    blocks.write(tmp_path, files, blocks.ADDRESS)
    path = os.pathsep.join([str(tmp_path), str(blocks.ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGINS, "--rootdir", str(tmp_path)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    tests = sum(len(re.findall(r"def test_", file)) for file in files.values())
    assert f"{tests} passed" in done.stdout
