"""`--watch`: the same command again and again, in one place of a terminal, or one after the other into a pipe.

Each round is a call of its own with a connection of its own, so a server that is started anew is seen again.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from timerd.commands.failures import CommandFailure, WrongInput

if TYPE_CHECKING:
    from rich.text import Text

# Prints by what it is given: text of one or more lines, and its style.
Write = Callable[[str, str], None]
Round = Callable[[Write], Awaitable[None]]

_OPTION = "--watch"
_DEFAULT_S = "2"
_LEAST_S, _MOST_S = 0.1, 86_400.0
# A longer number is milliseconds, as `timerd partition` takes them.
_SECONDS = re.compile(r"\d{1,5}(\.\d+)?")


def with_seconds(arguments: Sequence[str]) -> list[str]:
    """The arguments with a value at each --watch, which may stand alone: the parser knows no such option."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    typed: list[str] = []
    for index, each in enumerate(own):
        if index and own[index - 1] == _OPTION and _SECONDS.fullmatch(each):
            typed[-1] = f"{_OPTION}={each}"
        else:
            typed.append(f"{_OPTION}={_DEFAULT_S}" if each == _OPTION else each)
    return typed + list(arguments[len(own) :])


def checked_seconds(text: str) -> float:
    """How long to wait between rounds.

    Raises:
        WrongInput: it is no number of seconds from 0.1 to a day.
    """
    seconds = float(text) if _SECONDS.fullmatch(text) else 0.0
    if not _LEAST_S <= seconds <= _MOST_S:
        raise WrongInput(f"--watch {text}: give seconds from {_LEAST_S} to {_MOST_S:.0f}, or leave them out.")
    return seconds


async def repeat_below(one: Round, seconds: float) -> None:
    """Prints rounds one below the other, until the task is cancelled.

    A failure of the first one is raised; a later one is told on stderr, and the next one may be better.
    """
    await one(_print)
    while True:
        await asyncio.sleep(seconds)
        try:
            await one(_print)
        except CommandFailure as failure:
            print(f"timerd: {failure}", file=sys.stderr, flush=True)


def _print(text: str, _style: str) -> None:
    print(text, flush=True)


async def repeat_in_place(one: Round, seconds: float) -> None:
    """As `repeat_below`, each round in place of the one before, for terminals."""
    from rich.live import Live
    from rich.text import Text

    shown = await _picture(one)
    with Live(shown, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(shown, refresh=True)
            await asyncio.sleep(seconds)
            try:
                shown = await _picture(one)
            except CommandFailure as failure:
                shown = Text(f"timerd: {failure}")


async def _picture(one: Round) -> Text:
    """What one round prints."""
    from rich.text import Text

    lines: list[tuple[str, str]] = []
    await one(lambda text, style: lines.append((f"{text}\n", style)))
    return Text.assemble(*lines, overflow="fold", end="")
