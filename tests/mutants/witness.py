"""A pytest plugin for the runs of tests/mutants/trial.py: writes down what each test did, and which file was tested."""

from __future__ import annotations

import importlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

REPORT, MODULE = "TIMERD_WITNESS_REPORT", "TIMERD_WITNESS_MODULE"
_REASON_CHARS = 200


@dataclass
class Account:
    """`failed`: test -> why, of those whose own statements failed; `broken`: of those that failed around them.
    `tested`: the file from which the module was imported."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    tested: str = ""


_SEEN = Account()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # Without the parameters: a test fails where one of its cases does. A story is a test of its own.
    test = report.nodeid if "::test_story[" in report.nodeid else report.nodeid.partition("[")[0]
    if report.failed:
        (_SEEN.failed if report.when == "call" else _SEEN.broken).setdefault(test, _reason(report))
    elif report.when == "call" and report.passed:
        _SEEN.passed.append(test)


def pytest_sessionfinish() -> None:
    _SEEN.tested = importlib.import_module(os.environ[MODULE]).__file__ or ""
    Path(os.environ[REPORT]).write_text(json.dumps(asdict(_SEEN)), encoding="utf-8")


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash is not None else report.longrepr).strip().splitlines()
    return lines[0][:_REASON_CHARS] if lines else "it gave no reason"
