"""What a run saw: every answer is counted, and what no answer may be is kept with the message that led to it."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from dataclasses import dataclass, field

import grpc

# Only these say that a message was understood, whatever the answer; the others are faults of the server.
GOOD = frozenset(
    {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "ABORTED", "RESOURCE_EXHAUSTED"}
)
INTERNALS = re.compile(r"Traceback|Exception|Error\b|\.py\b|0x[0-9a-f]{6}|incident")
NAMES = {code.value[0]: code.name for code in grpc.StatusCode}
# A command line holds so much; a longer message goes into a file.
_SHOWN_CHARS = 2_000
_MOST_FAULTS = 50


@dataclass(frozen=True, slots=True)
class Message:
    """One message as sent: the full name of its method, and its bytes."""

    method: str
    raw: bytes

    def __str__(self) -> str:
        return f"{self.method.rpartition('/')[2]}:{b64encode(self.raw).decode()}"


@dataclass(frozen=True, slots=True)
class Fault:
    what: str
    messages: tuple[Message, ...] = ()

    def __str__(self) -> str:
        if not self.messages:
            return self.what
        command = f"python -m tests.process.fuzz --send {' '.join(map(str, self.messages))}"
        return f"{self.what}\n    {command}" if len(command) <= _SHOWN_CHARS else f"{self.what}\n    {command[:200]}..."


@dataclass
class Findings:
    """`answers`: (verb, status) -> how often. `stored`: (namespace, id) of what was acknowledged."""

    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    stored: list[tuple[str, str]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def answered(self, verb: str, code: int, sentence: str, *messages: Message) -> None:
        """`code` as gRPC numbers it."""
        name = NAMES.get(code, str(code))
        self.answers[verb, name] += 1
        if name not in GOOD:
            self.fault(f"{verb} was answered with {name}: {sentence}", *messages)
        elif name != "OK" and (not sentence or INTERNALS.search(sentence)):
            self.fault(f"{verb} was answered with {name} and no good sentence: {sentence!r}", *messages)

    def fault(self, what: str, *messages: Message) -> None:
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(Fault(what, messages))

    @property
    def messages(self) -> int:
        return self.answers.total()

    def by_verb(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for (verb, status), count in sorted(self.answers.items()):
            found.setdefault(verb, Counter())[status] += count
        return found
