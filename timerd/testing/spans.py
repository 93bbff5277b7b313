"""How far a test turns a clock, as it says it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from timerd.sdk.values import span_ms


def turn_ms(span: timedelta | None, parts: Mapping[str, float]) -> int:
    """Whole milliseconds, rounded up.

    Raises TypeError for what is no span, and ValueError for one that leads back.
    """
    try:
        whole = (span or timedelta()) + timedelta(**parts)
    except TypeError:
        given = ", ".join([*([] if span is None else [repr(span)]), *(f"{name}={n!r}" for name, n in parts.items())])
        raise TypeError(
            f"The clock cannot be turned by ({given}): give a timedelta or its parts, as `hours=3` or "
            "`minutes=1, seconds=30`."
        ) from None
    if whole < timedelta():
        raise ValueError(
            f"The clock is only turned forward, not by {whole.total_seconds():g} s: `start` says when a server begins."
        )
    return span_ms(whole, "span")
