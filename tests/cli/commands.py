"""All commands that there are, with those of their groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from timerd.cli import app


def paths_of_commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """What is typed for each, and the command; groups are none."""
    return _walk((), get_command(app))


def _walk(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - typer's own
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for name, each in (inner or {}).items():
        yield from _walk((*path, name), each)
