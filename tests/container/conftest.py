"""The image, built once. Without an engine tests are skipped, and the reason is printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.engine import TAG, NoEngine, base, build, context_in, docker


@pytest.fixture(scope="session")
def base_image() -> str:
    try:
        return base()
    except NoEngine as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def context(base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return context_in(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session")
def image(context: Path, base_image: str) -> Iterator[str]:
    build(context, base_image, TAG)
    yield TAG
    docker("image", "rm", "--force", TAG, check=False)
