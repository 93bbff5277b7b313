"""Holds the API definition to buf's own rules, and to the last release: what callers were given stays as it is.

buf comes from npm, pinned by .ci/buf/package-lock.json, into build/buf. Without npm these rules are left out; with
CI=true that is a failure. proto/released.binpb is the definition of the last release, or as it stood before the first
one; with --release it becomes the present one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import proto_rules

ROOT = Path(__file__).resolve().parent.parent
PINNED = Path(__file__).resolve().parent / "buf"
PLACE = ROOT / "build" / "buf"
BUF = PLACE / "node_modules" / ".bin" / "buf"
RELEASED = Path("proto", "released.binpb")
MISSING = (
    "buf's rules are left out: it comes through npm, which is not here (apt-get install nodejs npm) or cannot fetch it"
)
FETCH_S = 300
# Instances of two releases run side by side: between them the wire form counts, the names do not.
BETWEEN_INSTANCES = '{"version": "v2", "modules": [{"path": "proto"}], "breaking": {"use": ["WIRE"]}}'


def fetched() -> Path | None:
    """Where buf is; None where it cannot be had."""
    files = [PINNED / name for name in ("package.json", "package-lock.json")]
    if BUF.exists() and all((PLACE / file.name).read_bytes() == file.read_bytes() for file in files):
        return BUF
    if shutil.which("npm") is None:
        return None
    PLACE.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy(file, PLACE)
    command = ["npm", "ci", "--silent", "--no-fund", "--no-audit"]
    done = subprocess.run(command, cwd=PLACE, check=False, timeout=FETCH_S)
    return BUF if done.returncode == 0 else None


def findings(buf: Path, tree: Path = ROOT) -> Iterator[str]:
    """What buf has against the definition in a tree that has buf.yaml and proto/."""
    against = ("--against", str(RELEASED))
    yield from said(buf, tree, "lint")
    yield from said(buf, tree, "breaking", *against)
    yield from said(buf, tree, "breaking", *against, "--config", BETWEEN_INSTANCES)


def said(buf: Path, tree: Path, *arguments: str) -> list[str]:
    done = subprocess.run([buf, *arguments], cwd=tree, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return [f"buf {arguments[0]}: {line}" for line in lines] if done.returncode else []


def main() -> int:
    if sys.argv[1:] == ["--release"]:
        proto_rules.protoc("--include_imports", f"--descriptor_set_out={ROOT / RELEASED}")
        print(f"{RELEASED} is the present definition")
        return 0
    buf = fetched()
    if buf is None:
        print(MISSING)
        return int(os.environ.get("CI") == "true")
    found = list(findings(buf))
    print("\n".join(found) or "buf: the definition holds its rules, and takes back nothing that was released")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
