"""Whatever is done in whatever order, with restarts, splits and drops between: SQLite answers as the store in RAM."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.sqlite.like_memory import LikeMemory

TestLikeMemory = pytest.mark.timeout(300)(LikeMemory.TestCase)
TestLikeMemory.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
