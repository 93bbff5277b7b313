"""What a peer was measured with: a figure is worth little without the versions of server and libraries."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.installed import Installed

# Run by the interpreter that has the libraries.
_OF_LIBRARIES = """
import importlib.metadata, json, platform, sqlite3, sys
found = {name: importlib.metadata.version(name) for name in sys.argv[1:]}
own = {"SQLite": sqlite3.sqlite_version} if "sqlalchemy" in found else {}
print(json.dumps({**found, **own, "Python": platform.python_version()}))
"""


def version_of(program: str) -> str:
    """The number in what it tells of itself."""
    said = _said(program, "-v" if program.endswith("beanstalkd") else "--version")
    number = re.search(r"\d+(\.\d+)+", said)
    return number.group() if number else said or "unknown"


def python_versions(tools: Installed, modules: Sequence[str]) -> dict[str, str]:
    python = tools.python(*modules)
    found: dict[str, str] = json.loads(_said(python, "-c", _OF_LIBRARIES, *modules)) if python else {}
    return found


def node_versions(tools: Installed) -> dict[str, str]:
    place = tools.modules()
    if place is None:
        return {}
    return {**{name: json_version(place / name) for name in ("bullmq", "ioredis")}, "node": version_of("node")}


def json_version(package: Path) -> str:
    """Of a package that npm has put into that folder."""
    return str(json.loads((package / "package.json").read_text(encoding="utf-8"))["version"])


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip()
