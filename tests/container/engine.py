"""A Docker engine and the image of this tree, built once for all tests of a session.

The base is TIMERD_TEST_BASE, or python:3.11-slim where the engine has it or can fetch it. Packages are fetched by the
pip of this machine and built in without a network, so that the engine needs none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASE = "TIMERD_TEST_BASE"
USUAL_BASE = "python:3.11-slim"
TAG = "timerd-tests:image"
_PACKAGE = re.compile(r"^(\S+==\S+)(?: ; (.*?))? \\$", re.MULTILINE)
_SOURCES = ("Dockerfile", ".dockerignore", "LICENSE", "README.md", "pyproject.toml", "requirements.lock")
# Of the layers' times: the same tree gives the same files.
_EPOCH = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600", "DOCKER_BUILDKIT": "0"}


class NoEngine(Exception):
    """Says in a sentence what would have to be there."""


def docker(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=check, env=_EPOCH, timeout=900)


def base() -> str:
    """The image to build on. Raises NoEngine."""
    if shutil.which("docker") is None:
        raise NoEngine("No Docker: there is no program `docker` on the path.")
    if (asked := docker("version", "--format", "{{.Server.Version}}", check=False)).returncode:
        raise NoEngine(f"No Docker: no engine answers ({asked.stderr.strip().splitlines()[-1]}).")
    wanted = os.environ.get(BASE, USUAL_BASE)
    is_there = docker("image", "inspect", wanted, check=False).returncode == 0
    if not is_there and docker("pull", "--quiet", wanted, check=False).returncode:
        raise NoEngine(
            f"No base: the engine has no image {wanted} and cannot fetch it. Name another one in {BASE}; "
            "docs/operate/kubernetes.md says how to make one."
        )
    return wanted


def context_in(folder: Path) -> Path:
    """What `docker build` gets: the sources, and all wheels."""
    context = folder / "context"
    context.mkdir()
    for name in _SOURCES:
        shutil.copy2(ROOT / name, context / name)
    for name in ("timerd", "proto"):
        shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
    fetch_wheels(context / "build" / "wheels")
    return context


def fetch_wheels(folder: Path) -> None:
    def pip(*words: str, check: bool = True) -> None:
        command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
        subprocess.run(command, check=check, capture_output=True, env=_EPOCH)

    lock = ROOT / "requirements.lock"
    only = ("--only-binary", ":all:", "--dest", str(folder))
    pip("download", "--require-hashes", "--requirement", str(lock), *only)
    for package, marker in _PACKAGE.findall(lock.read_text()):
        # What this Python does not need may be needed by that of the base.
        if marker and "win32" not in marker:
            pip("download", "--no-deps", package, *only, check=False)
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))


def build(context: Path, on: str, tag: str, *options: str) -> str:
    where = ("--network", "none", "--build-arg", f"BASE={on}", "--tag", tag, *options, str(context))
    return docker("build", "--quiet", *where).stdout.strip()
