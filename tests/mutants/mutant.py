"""One mistake in timerd that somebody could make, and the tests that must not let it pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class Rotten(Exception):
    """The code has changed: the mutant says nothing about it any more."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old` stands exactly once in `file`; `breaks` says what goes wrong with `new` in its place; each of `tests`
    (file::test) must fail then."""

    name: str
    guarantee: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")

    def applied_to(self, source: str) -> str:
        """The source with the mistake in it."""
        found = source.count(self.old)
        if found != 1 or self.old == self.new:
            raise Rotten(f"{self.name}: its text stands {found} times in {self.file}, it must stand there once.")
        return source.replace(self.old, self.new)

    @contextmanager
    def planted(self, tree: Path) -> Iterator[None]:
        """In a copy of the code, for a while. Nothing that was compiled from the right source stays beside it."""
        path = tree / self.file
        right = path.read_text(encoding="utf-8")
        wrong = self.applied_to(right)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(wrong, encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(right, encoding="utf-8")
