"""Begins to check the models as soon as it is known that they are asked for (checking.py)."""

from __future__ import annotations

import pytest

from tests.models.checking import MISSING, Beside

_BESIDE = Beside()


def pytest_collection_finish(session: pytest.Session) -> None:
    items = [item for item in session.items if isinstance(item, pytest.Function) and item.get_closest_marker("models")]
    if len(items) < len(session.items) and not MISSING and not session.config.option.collectonly:
        _BESIDE.begin((str(item.callspec.params["case"]), item.originalname == "test_model_holds") for item in items)


def pytest_unconfigure() -> None:
    _BESIDE.end()


@pytest.fixture(scope="session")
def beside() -> Beside:
    return _BESIDE
