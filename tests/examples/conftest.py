"""The flights, read once."""

from __future__ import annotations

import pytest

from examples.departures.data import Flight, load_year


@pytest.fixture(scope="session")
def year(flights_installed: None) -> list[Flight]:
    return load_year()
