"""Runs the checker: now, or beside the tests that come before these.

The checker needs a processor and nobody's attention; most other tests wait. So it begins when it is known which tests
run (conftest.py), one model after the other at a low priority, and most verdicts are there when they are asked for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
MISSING = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
# Beside other work a search takes longer.
LIMIT_S, LIMIT_BESIDE_S = 100, 600
# Here the search takes longer than compiling it well. Most else is found at once: then nearly all of the time would go
# into the compiler.
DEEP = {"finish", "HELPNOINSERT"}
VERDICTS = {0: "holds", 1: "broken"}
# What check.sh says of "model SWITCH SWITCH=2", and its words for a failing test.
Verdict = tuple[str, str]


def verdict(case: str, *, holds: bool, limit_s: int = LIMIT_S) -> Verdict:
    model, *switches = case.split()
    command = [str(HERE / "check.sh"), str(HERE / f"{model}.pml"), *(f"-D{switch}" for switch in switches)]
    optimize = "-O1" if holds or DEEP & set(case.split()) else "-O0"
    environment = {**os.environ, "OPTIMIZE": optimize, "LIMIT": str(limit_s)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return VERDICTS.get(done.returncode, "no verdict"), done.stdout + done.stderr


class Beside:
    """Verdicts that are found while other tests run."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "models")
        self._found: dict[str, Future[Verdict]] = {}

    def begin(self, cases: Iterable[tuple[str, bool]]) -> None:
        for case, holds in cases:
            self._found[case] = self._pool.submit(verdict, case, holds=holds, limit_s=LIMIT_BESIDE_S)

    def verdict(self, case: str, *, holds: bool) -> Verdict:
        found = self._found.get(case)
        # Whatever has not begun is not waited for.
        return verdict(case, holds=holds) if found is None or found.cancel() else found.result()

    def end(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
