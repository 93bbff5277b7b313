"""How a command ends badly: one sentence to stderr and an exit code that a script can act on.

0 = done, 1 = the server (or a check) says no, 2 = the command was used wrongly, 3 = no server answered.
"""

from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timerd.client import TimerdError


class CommandFailure(Exception):
    """Its text is the sentence that the user reads."""

    exit_code = 1


class WrongInput(CommandFailure):
    exit_code = 2


class Unreachable(CommandFailure):
    exit_code = 3


def check_platform(command: str) -> None:
    """Raises Failure where `command` cannot run on this system."""
    if sys.platform == "win32":
        raise CommandFailure(
            f"{command} runs on Linux and macOS: start it there, or in WSL or a container. On Windows, clients, "
            "workers and the other commands run against such a server."
        )


# Codes that, without a reason from timerd itself, say that nobody there answered.
_NO_ANSWER = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED"})
_NOT_FROM_SERVER = frozenset({"", "NOT_SENT"})


def failure_of(error: TimerdError, server: str) -> CommandFailure:
    if error.code in _NO_ANSWER and error.reason in _NOT_FROM_SERVER:
        return Unreachable(_addressed(str(error), server))
    if error.code == "INVALID_ARGUMENT":
        return WrongInput(str(error))
    return CommandFailure(str(error))


def _addressed(sentence: str, server: str) -> str:
    return sentence if server in sentence else f"timerd at {server} does not answer: {sentence}"


def failure_of_os(error: OSError) -> CommandFailure:
    """A file that is not there is wrong input; a full disk is not."""
    what = error.strerror or str(error)
    sentence = f"{error.filename}: {what}." if error.filename else f"{what}."
    named = error.errno in (errno.ENOENT, errno.EACCES, errno.EISDIR, errno.ENOTDIR)
    return (WrongInput if named else CommandFailure)(sentence)
