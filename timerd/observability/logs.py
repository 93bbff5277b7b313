"""What a server says about itself: one line for each event that matters, for people on a terminal, as JSON elsewhere.

The services log by the standard library; here their records become lines. No record holds a payload. A caller's text
may be part of one, so control characters are shown as escapes; and a sentence that is said over and over (a store that
is away) is said a few times and then counted.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from time import monotonic
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from timerd.config import LogConfig

# So many of one kind in such a time.
MOST_ALIKE = 10
ALIKE_S = 10.0
# Kinds of records that are counted at one time; a kind is a place in the code.
MOST_KINDS = 1_000


class Flood(logging.Filter):
    """Lets the first few of one kind pass, and says with the next how many were left out."""

    def __init__(self, clock_s: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._clock_s = clock_s
        # Place in the code -> (when its time began, how many came in it).
        self._seen: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place, now_s = (record.pathname, record.lineno), self._clock_s()
        began_s, came = self._seen.get(place, (now_s, 0))
        if now_s - began_s >= ALIKE_S:
            if came > MOST_ALIKE:
                record.left_out = came - MOST_ALIKE
            began_s, came = now_s, 0
        if len(self._seen) >= MOST_KINDS:
            self._seen.clear()
        self._seen[place] = (began_s, came + 1)
        return came < MOST_ALIKE


def set_up(config: LogConfig, stream: TextIO = sys.stderr) -> logging.Handler:
    """Everything below `timerd`, and what others warn of. Returns the handler, so that it can be taken away."""
    is_console = stream.isatty() if config.format == "auto" else config.format == "console"
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(is_console, stream.isatty()))
    handler.addFilter(Flood())
    root, ours = logging.getLogger(), logging.getLogger("timerd")
    root.addHandler(handler)
    ours.setLevel(config.level.upper())
    return handler


def _formatter(is_console: bool, colors: bool) -> logging.Formatter:
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
    ]
    last: list[Processor] = [_escaped, _console(colors)] if is_console else [structlog.processors.JSONRenderer(_json)]
    return structlog.stdlib.ProcessorFormatter(processors=[*shared, *last])


def _console(colors: bool) -> Processor:
    return structlog.dev.ConsoleRenderer(colors=colors, timestamp_key="time", pad_event_to=0)


def _escaped(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """A name with a line break in it makes no line of its own."""
    event["event"] = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in event["event"])
    return event


def _json(event: EventDict, **_: object) -> str:
    first = {name: event.pop(name) for name in ("time", "level", "event") if name in event}
    return json.dumps({**first, **event}, ensure_ascii=False, default=str)
