"""A story on each kind of store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.schedules.story import START, Story
from timerd.testing import Server


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def story(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    async with Server(start=START, data=tmp_path if request.param == "sqlite" else None) as server:
        yield Story(server)
