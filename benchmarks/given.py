"""What both commands are given: numbers above 0, and files of JSON lines that an earlier run wrote."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import BenchmarkFailed

Records = list[dict[str, Any]]


def positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = kind(text)
        if not (value > 0 and math.isfinite(value)):
            raise argparse.ArgumentTypeError(f"{text} is not above 0" if value <= 0 else f"{text} is no number")
        return value

    return number


def read(source: Path, command: str, field: str) -> tuple[dict[str, Any], Records]:
    """The facts and the lines of a file. `field`: what each line of that command has."""
    try:
        lines = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise BenchmarkFailed(f"{source} cannot be read: {error}") from None
    if not all(isinstance(line, dict) for line in lines) or "facts" not in (lines or [{}])[0]:
        raise BenchmarkFailed(f"{source} was not written by `{command}`.")
    if not all(field in line for line in lines[1:]):
        raise BenchmarkFailed(f"{source} was not written by `{command}`.")
    return lines[0]["facts"], lines[1:]
