"""The Python blocks of a page: those that are files of a name, and those that are typed one after the other."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "127.0.0.1:7400"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The last name in backticks of the paragraph before the block.
_FILE = re.compile(r"`([\w/]+\.py)`")


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str) -> list[str]:
    return _BLOCK.findall(text)


def files(text: str) -> dict[str, str]:
    """By the name that the text between it and the block before says first."""
    named, end = {}, 0
    for block in _BLOCK.finditer(text):
        names = _FILE.findall(text[end : block.start()])
        if names:
            named[names[0]] = block[1]
        end = block.end()
    return named


def expected(block: str) -> list[str]:
    """What its lines that print say that they print."""
    return [line.rpartition("  # ")[2] for line in block.splitlines() if line.lstrip().startswith("print(")]


def run(block: str, address: str, names: dict[str, Any]) -> list[str]:
    """What it printed. `names` are those of the blocks before, and get its own."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.replace(ADDRESS, address), "block", "exec"), names)
    return printed.getvalue().splitlines()


def write(folder: Path, named: dict[str, str], address: str) -> None:
    for name, text in named.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(ADDRESS, address), encoding="utf-8")
