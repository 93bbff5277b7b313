"""The wheel of the native front door, where cargo is here: one for this kind of machine, for every Python from 3.11 on.
It is made by the builder that native/pyproject.toml asks for, in an environment of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# With all that it is built of.
BUILD_S = 1_800


class NotBuilt(Exception):
    """What cargo said."""


def versions(tree: Path) -> dict[str, str]:
    """What the places say that name the version of the package."""
    crate = tomllib.loads((tree / "native/Cargo.toml").read_text(encoding="utf-8"))["package"]["version"]
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [asked] = project["optional-dependencies"]["native"]
    return {"native/Cargo.toml": crate, "the extra `native`": asked.removeprefix("timerd-native==")}


def built(tree: Path, folder: Path, into: Path) -> Path | None:
    """None: no cargo is here. Raises NotBuilt."""
    if shutil.which("cargo") is None:
        return None
    project = tomllib.loads((tree / "native/pyproject.toml").read_text(encoding="utf-8"))
    tools, made = folder / "maturin", folder / "native-wheel"
    _run(sys.executable, "-m", "venv", tools)
    _run(tools / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *project["build-system"]["requires"])
    manifest = tree / "native/Cargo.toml"
    _run(tools / "bin/maturin", "build", "--quiet", "--release", "--locked", "-m", manifest, "--out", made)
    [wheel] = made.glob("timerd_native-*.whl")
    return Path(shutil.copy(wheel, into))


def _run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=BUILD_S)
    if done.returncode:
        raise NotBuilt(f"`{' '.join(map(str, command))}` failed:\n{done.stdout}{done.stderr}")
