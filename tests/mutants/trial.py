"""Runs tests on a copy of the code, as it is or with a mutant in it.

A mutant is caught when each of its tests fails by its own statements. One that does not even run proves nothing, nor
does a test that failed to start: both are told apart from being caught.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from math import ceil
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutant import Mutant, Rotten
from tests.mutants.witness import MODULE, REPORT, Account

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("timerd", "tests", "proto", "docs", "benchmarks", "examples", ".ci", "pyproject.toml", "README.md")
# One test may wait so long for what a mutant never does; all tests of a trial together.
TEST_S, TRIAL_S = 30, 150
# Of the code as it is so many are run at a time, for which this is enough on a slow machine as well.
PART_TESTS, PART_S = 30, 450
TESTS_FAILED = 1
# Only what the tests need: the others take half of the time to start.
PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout", "tests.mutants.witness", "no:cacheprovider")
# Code that cannot run is not code that does the wrong thing.
CRASHES = re.compile(
    r"(?:\w+\.)*(?:SyntaxError|IndentationError|NameError|UnboundLocalError|ImportError|ModuleNotFoundError)\b"
)


class Verdict(Enum):
    CAUGHT = "caught"
    SURVIVED = "survived"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Trial:
    """`reason`: why the tests failed, or why this is no proof."""

    mutant: Mutant
    verdict: Verdict
    reason: str


class Unusable(Exception):
    """The run says nothing about the code."""


def copy_into(tree: Path, root: Path = ROOT) -> Path:
    """What the tests need, with what was compiled: that stays valid where nothing changes."""
    for part in PARTS:
        source = root / part
        if source.is_dir():
            shutil.copytree(source, tree / part)
        else:
            shutil.copy2(source, tree / part)
    return tree


class Bench:
    """So many copies, one for each trial that runs at the same time."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.jobs = jobs
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            tree = folder.resolve() / str(number)
            tree.mkdir()
            self._free.put(copy_into(tree))

    @contextmanager
    def tree(self) -> Iterator[Path]:
        tree = self._free.get()
        try:
            yield tree
        finally:
            self._free.put(tree)

    def wrong_already(self, tests: Sequence[str]) -> list[str]:
        """The tests on the code as it is: a sentence for each that does not pass."""
        count = max(min(self.jobs, len(tests)), ceil(len(tests) / PART_TESTS))
        parts = [tests[n::count] for n in range(count)]
        with ThreadPoolExecutor(self.jobs) as pool:
            return [sentence for found in pool.map(self._check, parts) for sentence in found]

    def judged(self, mutants: Sequence[Mutant]) -> Iterator[Trial]:
        """As they end."""
        with ThreadPoolExecutor(self.jobs) as pool:
            for done in as_completed([pool.submit(self._judge, mutant) for mutant in mutants]):
                yield done.result()

    def _check(self, tests: Sequence[str]) -> list[str]:
        with self.tree() as tree:
            return check_sound(tree, tests)

    def _judge(self, mutant: Mutant) -> Trial:
        with self.tree() as tree:
            return judge(tree, mutant)


def run_tests(tree: Path, tests: Sequence[str], module: str = "timerd", within_s: int = TRIAL_S) -> tuple[int, Account]:
    """pytest's exit code and what was seen. Raises Unusable where another tree was tested, or none."""
    report = tree / "account.json"
    report.unlink(missing_ok=True)
    environment = {
        **os.environ, "PYTHONPATH": str(tree), "CI": "true", "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", REPORT: str(report), MODULE: module,
    }  # fmt: skip
    plugins = [part for name in PLUGINS for part in ("-p", name)]
    command = [sys.executable, "-m", "pytest", "-q", f"--timeout={TEST_S}", *plugins, *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=within_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unusable(f"the tests did not end within {within_s} s") from None
    if not report.exists():
        raise Unusable(f"pytest ended with {done.returncode}: {_last_line(done.stdout + done.stderr)}")
    seen = Account(**json.loads(report.read_text(encoding="utf-8")))
    if not Path(seen.tested).resolve().is_relative_to(tree):
        raise Unusable(f"the tests imported {seen.tested or 'nothing'}, not the copy")
    return done.returncode, seen


def check_sound(tree: Path, tests: Sequence[str]) -> list[str]:
    try:
        _, seen = run_tests(tree, tests, within_s=PART_S)
    except Unusable as error:
        return [str(error)]
    bad = {**seen.broken, **seen.failed}
    silent = [test for test in tests if test not in bad and test not in seen.passed]
    return [*(f"{test}: {why}" for test, why in bad.items()), *(f"{test}: it did not run" for test in silent)]


def judge(tree: Path, mutant: Mutant) -> Trial:
    try:
        with mutant.planted(tree):
            code, seen = run_tests(tree, mutant.tests, mutant.module)
    except (Unusable, Rotten) as error:
        return Trial(mutant, Verdict.INVALID, str(error))
    unharmed = [test for test in mutant.tests if test in seen.passed and test not in seen.failed]
    if unharmed:
        return Trial(mutant, Verdict.SURVIVED, f"{', '.join(unharmed)} passed")
    reasons = list(dict.fromkeys(seen.failed.values()))
    crashed = [reason for reason in reasons if CRASHES.match(reason)]
    if code != TESTS_FAILED or crashed or set(seen.failed) != set(mutant.tests):
        around = [f"{test}: {why}" for test, why in seen.broken.items()]
        return Trial(mutant, Verdict.INVALID, "; ".join(crashed or around or [f"pytest ended with {code}"]))
    return Trial(mutant, Verdict.CAUGHT, "; ".join(reasons))


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no output")
