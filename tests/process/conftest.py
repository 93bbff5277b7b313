"""Every process that a test starts is ended when the test ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.process.children import Child, Server

ChildT = TypeVar("ChildT", bound=Child)


class Children:
    """Those of one test."""

    def __init__(self) -> None:
        self._owned: list[Child] = []

    def own(self, child: ChildT) -> ChildT:
        self._owned.append(child)
        return child

    def end(self) -> None:
        for child in reversed(self._owned):
            child.kill()


@pytest.fixture
def children() -> Iterator[Children]:
    owned = Children()
    yield owned
    owned.end()


@pytest.fixture
def server(children: Children, tmp_path: Path) -> Server:
    running = children.own(Server(tmp_path))
    running.start()
    return running
