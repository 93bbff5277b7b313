"""What ends a process of tests that does not end: it says where each thread stands, and is gone.

pytest-timeout ends a test that waits in Python, once. A wait in C is not ended by it, nor what a test that was ended
waits for in its own clean-up: the suite would stand still until its time is over, and say nothing.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator

import pytest

# What a test may take for its clean-up once its time is over.
CLEAN_UP_S = 300.0


class Stuck:
    """One test at a time."""

    def __init__(self, config: pytest.Config) -> None:
        # That of the process, from before the output of a test is captured.
        self._errors = os.dup(2)
        self._default_s = float(config.getini("timeout") or 0)
        self._limit_s = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._limit_s = self._allowed_s(item) + CLEAN_UP_S
        self._watch()
        try:
            return (yield)
        finally:
            self._limit_s = 0.0
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        # pytest has just ended the watch; or a file could not be collected.
        if self._limit_s:
            self._watch()

    def _allowed_s(self, item: pytest.Item) -> float:
        own = item.get_closest_marker("timeout")
        return float(own.args[0]) if own is not None else self._default_s

    def _watch(self) -> None:
        faulthandler.dump_traceback_later(self._limit_s, exit=True, file=self._errors)
