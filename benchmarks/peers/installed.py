"""What the peers need, found or fetched: libraries and servers go into a cache outside of the tree.

Servers come from Debian's archive and are unpacked, not installed: nothing is registered with the system, no service
starts, no rights are needed. What cannot be had is named, and its peers are left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
REQUIREMENTS = HERE / "requirements.txt"
PACKAGES = HERE / "clients" / "package.json"
# A program, and the packages that hold it with those libraries of its own that a plain system lacks.
DEBS = {
    "redis-server": ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "liblua5.1-0", "lua-cjson", "lua-bitop"),
    "beanstalkd": ("beanstalkd",),
    "postgres": ("postgresql-15", "postgresql-client-15", "libpq5", "libxml2", "libicu72"),
}
# What is lacking, as people are told.
LIBRARIES, BULLMQ = "libraries for Python", "node with BullMQ"
FETCH_S = 600
NOT_TO_BE_HAD = "missing.json"


def default_cache() -> Path:
    """Not below the folder of a user whom the server's own user may not follow."""
    if os.geteuid() == 0:
        return Path("/var/cache/timerd-benchmarks")
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "timerd-benchmarks"


@dataclass
class Installed:
    """The cache, and what was not to be had."""

    cache: Path
    missing: dict[str, str] = field(default_factory=dict)

    def fetch(self) -> None:
        """Whatever is not here yet. Each that fails is noted, and the others go on."""
        try:
            self.cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.missing["cache"] = f"{self.cache} cannot be made: {error.strerror}"
            return
        if not self.python("redis", "hiredis", "psycopg", "celery", "apscheduler", "sqlalchemy"):
            self._environment()
        if not self.modules():
            self._modules()
        for program in DEBS:
            if not self.program(program):
                self._unpacked(program)
        (self.cache / NOT_TO_BE_HAD).write_text(json.dumps(self.missing), encoding="utf-8")

    def not_to_be_had(self) -> Mapping[str, str]:
        """What the last fetch did not get, and why; empty if none was tried."""
        path = self.cache / NOT_TO_BE_HAD
        found: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found

    def python(self, *modules: str) -> str | None:
        """An interpreter that has them."""
        return _python_with((str(self.cache / "venv/bin/python"), sys.executable), modules)

    def modules(self) -> Path | None:
        """Where node finds BullMQ and its way to Redis."""
        place = self.cache / "node" / "node_modules"
        return (
            place if shutil.which("node") and all((place / each).is_dir() for each in ("bullmq", "ioredis")) else None
        )

    def program(self, name: str) -> str | None:
        unpacked = sorted((self.cache / name).glob(f"usr/**/bin/{name}"))
        postgres = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        found = [*map(str, [*postgres, *unpacked])]
        return shutil.which(name) or (found[-1] if found else None)

    def beside(self, program: str, other: str) -> str:
        """A program of the same package."""
        return str(Path(self.program(program) or program).resolve().parent / other)

    def libraries(self, name: str) -> dict[str, str]:
        """What an unpacked program has to be told."""
        places = (self.cache / name).glob("usr/lib/*-linux-gnu")
        return {"LD_LIBRARY_PATH": ":".join(map(str, places))} if (self.cache / name).is_dir() else {}

    def _environment(self) -> None:
        venv = self.cache / "venv"
        self._run(LIBRARIES, [sys.executable, "-m", "venv", str(venv)])
        pip = [str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        self._run(LIBRARIES, [*pip, "-r", str(REQUIREMENTS)])
        _python_with.cache_clear()

    def _modules(self) -> None:
        if not shutil.which("npm"):
            self.missing[BULLMQ] = "node and npm are not installed"
            return
        place = self.cache / "node"
        place.mkdir(exist_ok=True)
        shutil.copy(PACKAGES, place)
        self._run(BULLMQ, ["npm", "install", "--silent", "--no-fund", "--no-audit"], place)

    def _unpacked(self, program: str) -> None:
        place = self.cache / program
        place.mkdir(exist_ok=True)
        if self._run(program, ["apt-get", "download", "-qq", *DEBS[program]], place):
            for package in sorted(place.glob("*.deb")):
                self._run(program, ["dpkg", "-x", package.name, "."], place)

    def _run(self, what: str, command: list[str], place: Path | None = None) -> bool:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_S, cwd=place)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.missing[what] = f"`{command[0]}` failed: {error}"
            return False
        if done.returncode:
            self.missing[what] = f"`{' '.join(command[:3])}` failed: {done.stderr.strip()[-300:]}"
        return done.returncode == 0


@cache
def _python_with(pythons: tuple[str, ...], modules: tuple[str, ...]) -> str | None:
    for python in pythons:
        command = [python, "-c", f"import {', '.join(modules)}"]
        if Path(python).exists() and subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return python
    return None
