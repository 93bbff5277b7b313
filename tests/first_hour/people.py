"""The three people, and what is told of their hours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.docs.blocks import ROOT
from tests.first_hour import go_or_typescript_developer, operator, python_developer
from tests.first_hour.desk import Desk

PEOPLE: Mapping[str, Callable[[Desk], None]] = {
    "a Python developer": python_developer.spend,
    "a Go or TypeScript developer": go_or_typescript_developer.spend,
    "an operator": operator.spend,
}


def spent(person: str, folder: Path, checkout: Path = ROOT, *, is_fresh: bool = False) -> Desk:
    """The desk after that hour: what was started there has ended."""
    desk = Desk(folder, checkout, is_fresh=is_fresh)
    try:
        PEOPLE[person](desk)
    finally:
        desk.close()
    return desk


def told(person: str, desk: Desk) -> str:
    """A line for the person, and one for each step."""
    lines = [f"{person:<44}{sum(desk.seconds.values()):6.1f} s"]
    lines += [f"  {step:<42}{seconds:6.1f} s" for step, seconds in desk.seconds.items()]
    lines += [f"  {step:<42}left out: {reason}" for step, reason in desk.left_out.items()]
    return "\n".join(lines)
