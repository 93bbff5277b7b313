"""How requests ended and how long they took, by method. A message of a Session is a request too."""

from __future__ import annotations

from collections import Counter

import grpc

from timerd.core.dispatch import Histogram
from timerd.v1.task_pb2 import Problem

BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_CODES: dict[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}


class CallTimes:
    """`ended`: (method, code) -> how many."""

    def __init__(self) -> None:
        self.seconds: dict[str, Histogram] = {}
        self.ended: Counter[tuple[str, str]] = Counter()

    def end(self, method: str, outcome: object, took_s: float) -> None:
        """`outcome`: a Problem, or the reply."""
        code = _CODES.get(outcome.code, "UNKNOWN") if isinstance(outcome, Problem) else "OK"
        self.ended[method, code] += 1
        if method not in self.seconds:
            self.seconds[method] = Histogram(BOUNDS_S)
        self.seconds[method].add(took_s)
