"""docs/operations.md: what it says to type for one machine is typed here, in its order, in one shell.

What installs is left out, and the ports are free ones; all else runs as it stands there.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from timerd.demo.processes import free_port

pytestmark = [pytest.mark.process, pytest.mark.timeout(330)]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
ONE_MACHINE = PAGE.partition("\n## One machine\n")[2].partition("\n## ")[0]
# A busy machine is no finding.
PATIENCE_S = 300


def blocks(language: str) -> Iterator[str]:
    yield from re.findall(rf"^```{language}\n(.*?)^```$", ONE_MACHINE, re.MULTILINE | re.DOTALL)


def script() -> str:
    lines = [line for block in blocks("sh") for line in block.splitlines() if not line.startswith("pip install")]
    text = "\n".join(lines) + "\n"
    for address in ("127.0.0.1:7400", "127.0.0.1:7401"):
        assert address in text
        text = text.replace(address, f"127.0.0.1:{free_port()}")
    return text


def test_what_is_to_be_typed_does_what_it_says(tmp_path: Path) -> None:
    text = script()
    server = re.findall(r'^listen = "(.*)"$', text, re.MULTILINE)[0]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TIMERD_SERVER": server,
    }
    shell = subprocess.Popen(
        ["/bin/sh", "-euxc", text],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, err = shell.communicate(timeout=PATIENCE_S)
    finally:
        # However it ended, the server that it started ends with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, out + err
    assert out.count("All is well") == 4
    after_restore = out.partition("restored holds")[2]
    assert "water the plants" in after_restore
    assert "timerd has stopped" in (tmp_path / "timerd.log").read_text()


def test_the_unit_starts_what_was_checked() -> None:
    [text] = blocks("ini")
    unit = ConfigParser(delimiters=("=",), strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    start = unit["Service"]["ExecStart"]
    assert re.fullmatch(r"/\S+/timerd serve --config \S+/timerd\.toml", start)
    assert unit["Service"]["Environment"].startswith("TIMERD_DATA=")
