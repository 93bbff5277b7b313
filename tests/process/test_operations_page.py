"""docs/operate/operations.md: what it says to type for one machine is typed here, in its order, in one shell.

What installs is left out, and the ports are free ones; all else runs as it stands there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from timerd.demo.processes import free_port

pytestmark = [pytest.mark.process, pytest.mark.timeout(330)]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operate" / "operations.md").read_text(encoding="utf-8")
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


@pytest.fixture
def curl() -> None:
    """Without it the page's loops would wait for ever."""
    if shutil.which("curl") is None and os.environ.get("CI") == "true":
        pytest.fail("The page is to be typed here, but curl cannot be found: install it.")
    if shutil.which("curl") is None:
        pytest.skip("curl cannot be found: install it to type what the page says")


@pytest.mark.usefixtures("curl")
def test_what_is_to_be_typed_does_what_it_says(tmp_path: Path) -> None:
    code, said = type_in(script(), tmp_path)
    log_file = tmp_path / "timerd.log"
    log = log_file.read_text() if log_file.exists() else ""
    assert code == 0, said + log
    assert said.count("All is well") == 4
    after_restore = said.partition("restored holds")[2]
    assert "water the plants" in after_restore
    assert "timerd has stopped" in log


def type_in(text: str, folder: Path) -> tuple[int | None, str]:
    """The exit code, None where the time was over, and what the shell showed: each line and what it said."""
    server = re.findall(r'^listen = "(.*)"$', text, re.MULTILINE)[0]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TIMERD_SERVER": server}
    with (folder / "shown").open("w+", encoding="utf-8") as shown:
        shell = subprocess.Popen(
            ["/bin/sh", "-euxc", text],
            cwd=folder, env=environment, stdout=shown, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        code = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = shell.wait(PATIENCE_S)
        finally:
            # However it ended, the server that it started ends with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        shown.seek(0)
        return code, shown.read()


def test_the_unit_starts_what_was_checked() -> None:
    [text] = blocks("ini")
    unit = ConfigParser(delimiters=("=",), strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    start = unit["Service"]["ExecStart"]
    assert re.fullmatch(r"/\S+/timerd serve --config \S+/timerd\.toml", start)
    assert unit["Service"]["Environment"].startswith("TIMERD_DATA=")
