"""What an answer means for its task, and what it says of the target.

As Standard Webhooks suggests: 2xx is success, 410 ends the target, everything else is a failure. A failure goes on by
the retry policy of its task, also one of 4xx: most of these are a receiver that was set up wrongly, and a dead letter
at once would lose what came meanwhile. `reject_statuses` names the others.
"""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import NamedTuple

from timerd.core.dispatch import Action
from timerd.core.sinks.breaker import TargetHealth
from timerd.model.webhooks import HttpAnswer, NoAnswer

# A receiver cannot put off its tasks for longer.
MOST_WAIT_MS = 86_400_000
ERROR_CHARS = 512
_THROTTLING = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
# They say that the receiver is in trouble, as 5xx do, and not that it does not want this task.
_OVERLOADED = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


class Consequence(NamedTuple):
    """`action`: of the task; RELEASE: it goes back as it was, no attempt is used up. `wait_ms`: how long the target, or
    else the task, is to wait; None: as the policy says."""

    action: Action
    health: TargetHealth
    wait_ms: int | None = None
    error: str = ""


def judge_answer(answer: HttpAnswer | NoAnswer, now_ms: int, reject_statuses: frozenset[int]) -> Consequence:
    if isinstance(answer, NoAnswer):
        return Consequence(Action.NACK, TargetHealth.FAILING, None, _beginning(str(answer)))
    status, error = answer.status, _told(answer)
    if 200 <= status <= 299:
        return Consequence(Action.ACK, TargetHealth.HEALTHY)
    if status == HTTPStatus.GONE:
        return Consequence(Action.REJECT, TargetHealth.GONE, None, error)
    wait_ms = retry_after_ms(answer.retry_after, now_ms)
    if status in _THROTTLING and wait_ms is not None:
        return Consequence(Action.RELEASE, TargetHealth.THROTTLING, wait_ms, error)
    is_failing = status >= 500 or status in _OVERLOADED
    health = TargetHealth.FAILING if is_failing else TargetHealth.HEALTHY
    if status in reject_statuses:
        return Consequence(Action.REJECT, health, None, error)
    return Consequence(Action.NACK, health, wait_ms, error)


def retry_after_ms(header: str, now_ms: int) -> int | None:
    """Seconds or a date, MOST_WAIT_MS at most; None: it says nothing that can be read."""
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:10]) * 1_000, MOST_WAIT_MS)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    at_ms = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000)
    return max(0, min(at_ms - now_ms, MOST_WAIT_MS))


def _told(answer: HttpAnswer) -> str:
    """For the error of the attempt: the status, and how the body begins."""
    try:
        phrase = f" {HTTPStatus(answer.status).phrase}"
    except ValueError:
        phrase = ""
    said = _beginning(answer.body.decode(errors="replace"))
    return f"HTTP {answer.status}{phrase}" + (f": {said}" if said else "")


def _beginning(said: str) -> str:
    """On one line. What came was written by others, also where an error repeats it."""
    return " ".join(said.split())[:ERROR_CHARS]
