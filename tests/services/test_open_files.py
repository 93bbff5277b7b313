"""How many files may be open, where the system says one thing and grants another."""

from __future__ import annotations

import resource

import pytest

from timerd.adapters.process import allow_open_files

NO_LIMIT = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("now", "most", "granted", "asked"),
    [
        (1_024, 4_096, 1 << 20, 4_096),
        (1_024, NO_LIMIT, 10_240, 10_240),
        (4_096, 4_096, 4_096, None),
        (20_000, NO_LIMIT, 20_000, None),
        (256, NO_LIMIT, 200, None),
    ],
)
def test_as_many_as_are_granted(
    monkeypatch: pytest.MonkeyPatch, now: int, most: int, granted: int, asked: int | None
) -> None:
    """On macOS no limit is said to be, and asking for that is refused."""
    taken: list[int] = []

    def grant(_: int, limits: tuple[int, int]) -> None:
        if limits[0] == NO_LIMIT or limits[0] > granted:
            raise ValueError("current limit exceeds maximum limit")
        taken.append(limits[0])

    monkeypatch.setattr(resource, "getrlimit", lambda _: (now, most))
    monkeypatch.setattr(resource, "setrlimit", grant)
    allow_open_files()
    assert taken == ([] if asked is None else [asked])
