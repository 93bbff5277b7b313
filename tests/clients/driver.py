"""A program in another language that makes the calls of its client which a test asks for, and tells what it sees."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from tests.clients.languages import ENVIRONMENT
from tests.process.waiting import until

_END_S = 60


class Refused(Exception):
    """What the client said of a call."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        super().__init__(said["message"])
        self.code: str = said["code"]
        self.reason: str = said.get("reason") or ""
        self.outcome_unknown: bool = said.get("outcomeUnknown", False)


class Call:
    """One that may still be under way."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] | None = None

    def result(self, what: str) -> Any:  # noqa: ANN401 - as its JSON
        until(lambda: self.answer is not None, f"{what} is answered")
        assert self.answer is not None
        if "error" in self.answer:
            raise Refused(self.answer["error"])
        return self.answer["result"]


class Driver:
    """Of one client, with these options; it is ended with its test."""

    def __init__(self, command: Sequence[str], address: str, errors: Path, **options: object) -> None:
        more = {"NODE_EXTRA_CA_CERTS": str(options["ca"])} if "ca" in options else {}
        self._errors = errors
        with errors.open("ab") as out:
            self._process = subprocess.Popen(
                [*command, address, json.dumps(options)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True, env={**ENVIRONMENT, **more},
            )  # fmt: skip
        self._calls: dict[int, Call] = {}
        self._ids = count(1)
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, do: str, **arguments: object) -> Call:
        number, call = next(self._ids), Call()
        self._calls[number] = call
        for name, value in arguments.items():
            if isinstance(value, bytes):
                arguments[name] = base64.b64encode(value).decode()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        return call

    def call(self, do: str, **arguments: object) -> Any:  # noqa: ANN401 - as its JSON
        """Raises Refused."""
        return self.start(do, **arguments).result(do)

    def begun(self, payload: bytes, attempt: int = 1) -> dict[str, Any]:
        """What its handler saw of this delivery, when that has come."""
        return self._event("begun", payload, attempt)

    def lost(self, payload: bytes, attempt: int = 1) -> dict[str, Any]:
        return self._event("lost", payload, attempt)

    def seen(self, event: str = "begun") -> list[tuple[bytes, int]]:
        """Payload and attempt of each."""
        return [
            (base64.b64decode(each["payload"] or ""), each["attempt"]) for each in self.events if each["event"] == event
        ]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(_END_S)
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _event(self, event: str, payload: bytes, attempt: int) -> dict[str, Any]:
        until(lambda: (payload, attempt) in self.seen(event), f"{event}: {payload!r}, attempt {attempt}")
        mine = [each for each in self.events if each["event"] == event]
        return mine[self.seen(event).index((payload, attempt))]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "event" in said:
                self.events.append(said)
            else:
                self._calls[said["id"]].answer = said
