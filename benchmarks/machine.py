"""What a figure is worth only together with: machine, versions, commit. No names of hosts, users or folders."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
import statistics
import subprocess
import time
from pathlib import Path

_SYNCS = 50
_SYNC_BYTES = 4096
_LOOPS = 20
_LOOP_TURNS = 100_000


def facts(directory: Path) -> dict[str, str]:
    versions = {name: importlib.metadata.version(name) for name in ("grpcio", "protobuf", "numpy")}
    return {
        "machine": f"{os.cpu_count()} CPUs, {platform.machine()}, {_memory_gib():.0f} GiB",
        "CPU": _cpu_model(),
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": f"{_file_system(directory)}, fdatasync of 4 KiB {_sync_ms(directory):.2f} ms (median)",
        "Python": _interpreter(),
        "versions": ", ".join([f"SQLite {sqlite3.sqlite_version}", *(f"{k} {v}" for k, v in versions.items())]),
        "commit": _commit(),
    }


def load_average() -> float:
    return os.getloadavg()[0]


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)


def _file_system(directory: Path) -> str:
    """The type of the innermost mount: on tmpfs a sync costs nothing, and the figures say less."""
    place = directory.resolve()
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    around = [(len(where), kind) for where, kind in mounts if place.is_relative_to(where)]
    return max(around)[1] if around else "unknown"


def _sync_ms(directory: Path) -> float:
    path = directory / f"sync-{os.getpid()}"
    handle = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        return statistics.median(_one_sync_ms(handle) for _ in range(_SYNCS))
    finally:
        os.close(handle)
        path.unlink()


def _one_sync_ms(handle: int) -> float:
    begun = time.perf_counter()
    os.write(handle, bytes(_SYNC_BYTES))
    os.fdatasync(handle)
    return (time.perf_counter() - begun) * 1e3


def _interpreter() -> str:
    return f"{platform.python_implementation()} {platform.python_version()}, {_turn_ns():.0f} ns for a turn of a loop"


def _turn_ns() -> float:
    """Tells interpreters apart that have the same number: built with profile-guided optimization it takes a fifth
    less. The least of some tries, for it is to say what this one can do."""
    return min(_one_loop_s() for _ in range(_LOOPS)) / _LOOP_TURNS * 1e9


def _one_loop_s() -> float:
    seen: dict[int, tuple[int, int]] = {}
    begun = time.perf_counter()
    for turn in range(_LOOP_TURNS):
        seen[turn & 1_023] = (turn, turn + 1)
    return time.perf_counter() - begun


def _commit() -> str:
    here = Path(__file__).parent
    head = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, cwd=here
    )
    return head.stdout.strip() or "unknown"
