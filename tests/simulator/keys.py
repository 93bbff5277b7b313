"""Caller-chosen keys: which calls may have cancelled a task, and which have for certain.

Of two calls that overlap either may be the one that takes the key over, whichever began first. One that was answered
before the other began cannot cancel what did not exist then, however often it is repeated; nor can one that was held
up, if it says when it was made.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tests.simulator.events import Called, Replied, Said, Wanted
from tests.simulator.known import Known
from tests.simulator.known_calls import last_effect_ms


@dataclass
class Claim:
    """A schedule that is not answered: by none of its `tries`."""

    task: Known
    wanted: Wanted
    first_ms: float
    asked_ms: int
    tries: set[int] = field(default_factory=set)

    def may_come_after(self, at_ms: float) -> bool:
        return at_ms <= last_effect_ms(self.asked_ms)


class Keys:
    def __init__(self) -> None:
        self._tasks: defaultdict[str, list[Known]] = defaultdict(list)
        self._open: dict[str, Claim] = {}
        # By request: when the first try of the call began.
        self._answered: dict[str, float] = {}
        # Cancels by key that are not answered, by request.
        self._cancels: dict[str, str] = {}

    def asked(self, called: Called, task: Known, wanted: Wanted) -> None:
        if not wanted.key or called.request in self._answered:
            return
        for request, claim in self._open.items():
            other = claim.task
            if other is not task and claim.wanted.key == wanted.key:
                other.has_rival = task.has_rival = True
                if claim.wanted.policy == "REPLACE" and claim.may_come_after(task.first_ms):
                    task.cancels.add(request)
        task.cancels |= {request for request, key in self._cancels.items() if key == wanted.key}
        others = self._tasks[wanted.key]
        if task not in others:
            others.append(task)
        claim = self._open.setdefault(called.request, Claim(task, wanted, called.at_ms, called.asked_ms))
        claim.tries.add(called.call)
        if wanted.policy == "REPLACE":
            for other in others:
                if other is not task and claim.may_come_after(other.first_ms):
                    other.cancels.add(called.request)

    def is_alone(self, called: Called) -> bool:
        """No other try of the call is under way, or has ended without an answer."""
        claim = self._open.get(called.request)
        return claim is None or claim.tries <= {called.call}

    def answered(self, called: Called, replied: Replied) -> float:
        """When the first try began of those that were not refused. A try of which nothing is known may still come."""
        claim = self._open.get(called.request)
        if claim is None:
            return self._answered.get(called.request, called.at_ms)
        if replied.said is Said.OK:
            self._answered[called.request] = claim.first_ms
            del self._open[called.request]
        elif replied.said is Said.NOT_DONE:
            claim.tries.discard(called.call)
            if not claim.tries:
                del self._open[called.request]
        return claim.first_ms

    def replaced_by(self, task: Known, first_ms: float) -> list[Known]:
        """What had its key before the call began, and is over now that the call is answered. Not one that was sent
        before its own call was answered while another call wanted the key: it stands without it."""
        if task.wanted.policy != "REPLACE":
            return []
        others = [other for other in self._tasks[task.wanted.key] if other is not task]
        keyed = [other for other in others if not (other.has_rival and other.was_sent_first)]
        return [other for other in keyed if 0 < other.stored_ms < first_ms]

    def unsent_before(self, task: Known, first_ms: float) -> list[Known]:
        """Of those that had its key before the call began the ones that expire and were never sent: it would not have
        got the key otherwise."""
        if not task.wanted.key or task.wanted.policy == "REPLACE":
            return []
        others = [other for other in self._tasks[task.wanted.key] if other is not task]
        unsent = [other for other in others if other.wanted.expire_at_ms and not other.delivered]
        return [other for other in unsent if 0 < other.stored_ms < first_ms and not other.has_rival]

    def cancel_asked(self, called: Called) -> None:
        """By key: whoever has it when a try first looks."""
        if called.request not in self._answered:
            self._cancels[called.request] = called.key
            for task in self._tasks[called.key]:
                task.cancels.add(called.request)

    def cancel_answered(self, called: Called, replied: Replied) -> None:
        """Now it is known which task it is about, for all its tries."""
        if replied.said is not Said.OK or called.request in self._answered:
            return
        self._answered[called.request] = called.at_ms
        self._cancels.pop(called.request, None)
        for task in self._tasks[called.key]:
            if task.name not in replied.ids:
                task.cancels.discard(called.request)
