"""The clients of other languages, built from clients/, each with a driver that makes the calls that tests ask for.

What is missing here skips the tests, with a reason; with CI=true it fails them.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENTS, BUILD, HERE = ROOT / "clients", ROOT / "build" / "clients", Path(__file__).parent
GO_AT_LEAST, NODE_AT_LEAST = (1, 21), (20, 3)
_BUILD_S = 300
# Where go installs itself, and where nobody looks.
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/go/bin"])
ENVIRONMENT = {**os.environ, "PATH": PATH}


class Language(NamedTuple):
    name: str
    missing: Callable[[], str]
    build: Callable[[], list[str]]


def version(*command: str) -> tuple[int, ...]:
    """() where it is not installed."""
    program = shutil.which(command[0], path=PATH)
    if program is None:
        return ()
    said = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


def go_missing() -> str:
    return "" if version("go", "version") >= GO_AT_LEAST else "needs Go, 1.21 or newer (https://go.dev/dl/)"


def node_missing() -> str:
    has_both = version("node", "--version") >= NODE_AT_LEAST and version("npm", "--version")
    return "" if has_both else "needs node, 20.3 or newer, with npm (https://nodejs.org)"


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=_BUILD_S
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Of the processes that run tests side by side."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def build_go() -> list[str]:
    program = BUILD / "go_driver"
    with one_at_a_time():
        run(HERE / "go_driver", "go", "build", "-o", str(program), ".")
    return [str(program)]


@cache
def build_typescript() -> list[str]:
    """Its packages are those of the lock file, fetched once."""
    folder = CLIENTS / "typescript"
    with one_at_a_time():
        fetched, locked = folder / "node_modules/.package-lock.json", folder / "package-lock.json"
        if not fetched.exists() or fetched.stat().st_mtime < locked.stat().st_mtime:
            run(folder, "npm", "ci", "--silent", "--no-fund", "--no-audit")
        run(folder, "npm", "run", "--silent", "build")
    return ["node", str(HERE / "typescript_driver.mjs")]


GO = Language("go", go_missing, build_go)
TYPESCRIPT = Language("typescript", node_missing, build_typescript)
LANGUAGES = {language.name: language for language in (GO, TYPESCRIPT)}


def require(language: Language) -> None:
    if (reason := language.missing()) and os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; with CI=true nothing is skipped")
    if reason:
        pytest.skip(reason)
