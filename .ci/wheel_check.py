"""Builds the wheel and looks into it: users install the package, typed, with its API definition, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPECTED = ("timerd/__init__.py", "timerd/py.typed", "timerd/v1/task_pb2.py", "timerd/v1/task_pb2.pyi")


def build(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("timerd-*.whl")
    return wheel


def findings(names: set[str]) -> list[str]:
    protos = [f"timerd/v1/{path.name}" for path in (ROOT / "proto/timerd/v1").glob("*.proto")]
    missing = [f"{name} is missing" for name in (*EXPECTED, *protos) if name not in names]
    strays = [f"{name} does not belong in it" for name in names if not name.startswith(("timerd/", "timerd-"))]
    return missing + strays


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            found = findings(set(archive.namelist()))
            count = len(archive.namelist())
        (ROOT / "dist").mkdir(exist_ok=True)
        (ROOT / "dist" / wheel.name).write_bytes(wheel.read_bytes())
    print("\n".join(found) if found else f"dist/{wheel.name}: {count} files, typed, with its proto files")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
