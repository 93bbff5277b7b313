"""Caller-chosen keys: which calls with REPLACE may have cancelled a task, and which have for certain.

Of two calls that overlap either may be the one that takes the key over, whichever began first. One that was answered
before the other began cannot cancel what did not exist then.
"""

from __future__ import annotations

from collections import defaultdict

from tests.simulator.events import Called, Wanted
from tests.simulator.known import Known


class Keys:
    def __init__(self) -> None:
        self._tasks: defaultdict[str, list[Known]] = defaultdict(list)
        # Calls that are not answered yet, by number.
        self._open: dict[int, tuple[Called, Known, Wanted]] = {}

    def asked(self, called: Called, task: Known, wanted: Wanted) -> None:
        if not wanted.key:
            return
        for call, other, theirs in self._open.values():
            if other is not task and theirs.key == wanted.key:
                other.has_rival = task.has_rival = True
                if theirs.policy == "REPLACE":
                    task.cancels.add(call.request)
        others = self._tasks[wanted.key]
        if task not in others:
            others.append(task)
        if wanted.policy == "REPLACE":
            for other in others:
                if other is not task:
                    other.cancels.add(called.request)
        self._open[called.call] = called, task, wanted

    def answered(self, called: Called) -> None:
        self._open.pop(called.call, None)

    def replaced_by(self, task: Known, called: Called) -> list[Known]:
        """What had its key before the call began, and is over now that the call is answered. Not one that was sent
        before its own call was answered while another call wanted the key: it stands without it."""
        if task.wanted.policy != "REPLACE":
            return []
        others = [other for other in self._tasks[task.wanted.key] if other is not task]
        keyed = [other for other in others if not (other.has_rival and other.was_sent_first)]
        return [other for other in keyed if 0 < other.stored_ms < called.at_ms]
