"""Runs the checker, and says whether a model holds."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
MISSING = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
# Of one search, which takes seconds or minutes by the model. What is tried by a test is over in a few.
LIMIT_S = 900
# Here the search takes longer than compiling it well. Most else is found at once: then nearly all of the time would go
# into the compiler.
DEEP = {"finish", "HELPNOINSERT"}
VERDICTS = {0: "holds", 1: "broken"}
# What check.sh says of "model SWITCH SWITCH=2", and its words for a failing test.
Verdict = tuple[str, str]


def searched(case: str, *, holds: bool) -> Verdict:
    """`holds`: what is expected, by which the compiler is told what is worth its time."""
    model, *switches = case.split()
    command = [str(HERE / "check.sh"), str(HERE / f"{model}.pml"), *(f"-D{switch}" for switch in switches)]
    optimize = "-O1" if holds or DEEP & set(case.split()) else "-O0"
    environment = {**os.environ, "OPTIMIZE": optimize, "LIMIT": str(LIMIT_S)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return VERDICTS.get(done.returncode, "no verdict"), done.stdout + done.stderr
