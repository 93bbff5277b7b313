"""The attempts of a task that have failed: what its row says of the last ones.

It is a note on the row, a line for each, so that it goes where the task goes and is appended without being read. A task
that never failed has none.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

# So many are told of, the last ones: a row is read and written with each attempt.
MOST_ATTEMPTS = 10
GIST_CHARACTERS = 256
WORKER_CHARACTERS = 64
_TRACE = "Traceback (most recent call last):"
_FRAME = '\n  File "'


class AttemptEnd(IntEnum):
    """How an attempt ended that was not acknowledged, as AttemptEnd in the proto."""

    FAILED = 1  # its worker said so
    REJECTED = 2  # its worker said that no attempt helps
    TIMED_OUT = 3  # it had not ended within attempt_timeout
    LEASE_ENDED = 4  # its worker did not extend the lease
    WORKER_LOST = 5  # its worker went away
    GIVEN_BACK = 6  # its worker had not begun
    STALLED = 7  # its handler had said no progress for stall_timeout


class FailedAttempt(NamedTuple):
    """`sent_ms`: 0 where it is not known, as of a delivery that its sender has lost sight of. `end`: an AttemptEnd, or
    a number that only a later release knows. `worker`: as it calls itself; may be empty."""

    number: int
    sent_ms: int
    ended_ms: int
    end: int
    worker: str
    error: str

    def to_line(self) -> str:
        return "\t".join(map(str, self))

    @classmethod
    def from_line(cls, line: str) -> FailedAttempt:
        number, sent_ms, ended_ms, end, worker, error = line.split("\t", 5)
        return cls(int(number), int(sent_ms), int(ended_ms), int(end), worker, error)


def with_attempt(history: str, attempt: FailedAttempt) -> str:
    """The note, with one more; its error becomes its gist."""
    line = _line(attempt)
    return "\n".join([*history.split("\n")[1 - MOST_ATTEMPTS :], line]) if history else line


@lru_cache(maxsize=64)
def _line(attempt: FailedAttempt) -> str:
    """What a worker that died had in hand is tens of thousands of tasks, which say the same of it."""
    worker = " ".join(attempt.worker.split())[:WORKER_CHARACTERS]
    return attempt._replace(worker=worker, error=gist_of(attempt.error)).to_line()


def attempts_of(history: str) -> list[FailedAttempt]:
    """Earliest first."""
    return [FailedAttempt.from_line(line) for line in history.split("\n")] if history else []


def gist_of(error: str) -> str:
    """In one line: how it begins. A trace of Python begins with where it happened, so of it what follows its frames; of
    a stack, behind which there is nothing, what stands before it."""
    at = error.rfind(_FRAME)
    if at >= 0:
        lines = error[at + 1 :].split("\n")
        said = next((n for n, line in enumerate(lines) if line and not line.startswith(" ")), len(lines) - 1)
        error = "\n".join(lines[said:]).strip() or error[: error.find(_FRAME)].removeprefix(_TRACE)
    return " ".join(error[: 4 * GIST_CHARACTERS].split())[:GIST_CHARACTERS]
