"""What the docstrings of a public module leave out is found, on a module small enough to see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import docstrings

ROOT = Path(__file__).resolve().parent.parent
SOURCE = '''
from dataclasses import dataclass
from enum import Enum
from typing import TypedDict

__all__ = ["Colour", "Keys", "Loose", "Paint", "Silent", "Wall", "mix"]


class Colour(Enum):
    """A colour.

    Attributes:
        RED: as a rose.
    """

    RED = 1
    BLUE = 2


@dataclass
class Paint:
    """A paint has a `colour`."""

    colour: Colour
    litres: float = 1.0


class Keys(TypedDict):
    """The fields of `Paint`."""

    litres: float


class Loose(TypedDict):
    """The fields of something."""

    litres: float


@dataclass
class Silent:
    pass


class _Made:
    def __init__(self, height: int) -> None:
        pass

    def paint(self, coats: int, _hidden: int = 0, **given: object) -> None:
        """The wall gets `coats` of paint; `**given` goes along."""

    def wash(self) -> None:
        pass

    @property
    def area(self) -> int:
        return 1

    def _measure(self) -> None:
        pass


class Wall(_Made):
    """A wall."""


def mix(one: Paint, other: Paint) -> Paint:
    """This mixes two paints.

    Args:
        one: the first.
    """
    return one
'''


def module(source: str) -> ModuleType:
    made = ModuleType("shop")
    sys.modules["shop"] = made
    try:
        exec(source, made.__dict__)
    finally:
        del sys.modules["shop"]
    return made


def test_what_is_left_out_is_named() -> None:
    assert list(docstrings.findings(module(SOURCE))) == [
        "shop.Colour does not say what `BLUE` is.",
        "shop.Loose does not say what `litres` is.",
        "shop.Paint does not say what `litres` is.",
        "shop.Silent has no docstring.",
        "shop.Wall does not say what `height` is.",
        "shop.Wall.area has no docstring.",
        "shop.Wall.wash has no docstring.",
        "shop.mix does not say what `other` is.",
    ]


def test_the_public_modules_leave_nothing_out() -> None:
    done = subprocess.run([sys.executable, ".ci/docstrings.py"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "4 modules, 0 names and parameters without a word\n")
