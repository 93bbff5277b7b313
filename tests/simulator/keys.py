"""Caller-chosen keys: which calls with REPLACE may have cancelled a task.

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
        # Calls with REPLACE that are not answered yet, by number.
        self._replacing: dict[int, tuple[Called, Known]] = {}

    def asked(self, called: Called, task: Known, wanted: Wanted) -> None:
        if not wanted.key:
            return
        others = self._tasks[wanted.key]
        if task not in others:
            others.append(task)
        under_way = [call.request for call, other in self._replacing.values() if other.wanted.key == wanted.key]
        task.cancels.update(request for request in under_way if request != called.request)
        if wanted.policy == "REPLACE":
            self._replacing[called.call] = called, task
            for other in others:
                if other is not task:
                    other.cancels.add(called.request)

    def answered(self, called: Called) -> None:
        self._replacing.pop(called.call, None)

    def replaced_by(self, task: Known, called: Called) -> list[Known]:
        """What had its key before the call began, and is over now that the call is answered."""
        if task.wanted.policy != "REPLACE":
            return []
        others = self._tasks[task.wanted.key]
        return [other for other in others if other is not task and 0 < other.stored_ms < called.at_ms]
