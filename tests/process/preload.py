"""Small C libraries that are preloaded into a server process, to show it another clock or another disk."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def compiled(source: Path, folder: Path) -> Path:
    """Skips where there is no C compiler, which on a laptop may be; where the project is checked it must not."""
    if shutil.which("gcc") is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"gcc is not here, and CI is to preload {source.name} into a running server: install gcc.")
        pytest.skip(f"gcc is not here: the library of {source.name}, which a server is to run with, cannot be made")
    library = folder / source.with_suffix(".so").name
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library
