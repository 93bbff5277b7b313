"""G2: a call that comes again is answered as the first time, as long as its request is remembered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.simulator.events import Called, Replied, Said, Verb
from timerd.model.errors import NotStored

# What speaks of one try only.
OF_THIS_TRY = ("OVERTAKEN", "HOLDER_SILENT", "STORE_UNAVAILABLE", "DRAINING", "CLOCK_NOT_TRUSTED")
# Of a cancel, what becomes of it later: it was written down, and nobody had said by then how the task ends.
OPEN = ("PENDING", "IN_FLIGHT")
CARRIED_OUT = ("True", "CANCELLED")
# Of a task that was refused: what became of it by other tries was not looked at.
ONLY_THIS_TRY = " (only this try)"
# Of tries that run beside each other one may have looked before the other one did it (docs/understand/guarantees.md).
MOVES = (Verb.MOVE, Verb.REDRIVE)


# Other content makes another call, whatever its request_id.
Content = tuple[str, Verb, tuple[str, ...]]


def refusal(error: NotStored) -> str:
    """Of one task of a call, as an answer."""
    return f"refused {error.reason}{ONLY_THIS_TRY if error.only_this_try else ''}"


class Answers:
    """A task's id also says where it was first written, which another try may not know: its digest is compared."""

    def __init__(self) -> None:
        self._first: dict[Content, Replied] = {}
        self._overtaken: set[Content] = set()

    def is_answered(self, called: Called) -> bool:
        return _content(called) in self._first

    def compared(self, called: Called, replied: Replied) -> Iterator[str]:
        """With what it was answered the first time."""
        content = _content(called)
        first = self._first.get(content)
        if called.verb is Verb.GET or replied.said is Said.UNKNOWN:
            return
        if replied.said is Said.OK:
            if not any(map(_is_of_this_try, replied.answers)):
                self._first.setdefault(content, replied)
            if content in self._overtaken and called.verb is not Verb.SCHEDULE:
                yield f"G2: {called.request} was refused as overtaken, and is answered {replied.answers}"
        elif "OVERTAKEN" in replied.answers:
            self._overtaken.add(content)
        if first is None:
            return
        is_beside = called.at_ms <= first.at_ms
        may_have_looked_before = is_beside and called.verb in MOVES and _is_undone(called.verb, replied)
        if is_beside:
            first, replied = _without_this_try(first, replied)
        if not (may_have_looked_before or _is_alike(called.verb, first, replied)):
            yield f"G2: {called.request} was answered {first.answers} first, and {replied.answers} now"
        elif replied.said is Said.OK and first.ids and first.ids != replied.ids:
            yield f"G2: {called.request} was about {first.ids} first, and about {replied.ids} now"


def _is_undone(verb: Verb, replied: Replied) -> bool:
    """A refusal; of a redrive also that there was no dead letter to it, which the API says by a count."""
    return replied.said is Said.NOT_DONE or (verb is Verb.REDRIVE and "False" in replied.answers)


def _is_of_this_try(answer: str) -> bool:
    return answer.endswith(ONLY_THIS_TRY)


def _without_this_try(first: Replied, again: Replied) -> tuple[Replied, Replied]:
    """Both without the tasks that a try beside the first one refused for itself: the other try may have stored them.
    Who comes after the first answer finds that, and may not say so."""
    kept = [n for n, answer in enumerate(again.answers) if not _is_of_this_try(answer)]
    if len(kept) == len(again.answers) or len(first.answers) != len(again.answers):
        return first, again
    return _only(first, kept), _only(again, kept)


def _only(replied: Replied, kept: Sequence[int]) -> Replied:
    stored = [n for n, answer in enumerate(replied.answers) if answer == "stored"]
    ids = tuple(digest for n, digest in zip(stored, replied.ids, strict=True) if n in kept)
    return replace(replied, answers=tuple(replied.answers[n] for n in kept), ids=ids)


def _content(called: Called) -> Content:
    return called.request, called.verb, called.names


def _is_alike(verb: Verb, first: Replied, again: Replied) -> bool:
    if again.said is Said.NOT_DONE:
        if again.answers[0] in OF_THIS_TRY or verb is Verb.CANCEL:
            return True
        # A call may be about no task at all: then its first answer is empty.
        return any("OVERTAKEN" in one or _is_refused_otherwise(one, again.answers[0]) for one in first.answers[:1])
    if len(first.answers) != len(again.answers):
        return False
    pairs = list(zip(first.answers, again.answers, strict=True))
    if verb is Verb.CANCEL:
        return all(one == other or _may_become(one, other) for one, other in pairs)
    if verb is Verb.REDRIVE:
        return all(other == "True" for one, other in pairs if one == "True")
    return all(one == other or _may_differ(one, other) for one, other in pairs)


def _may_differ(one: str, other: str) -> bool:
    """A try that was held up meets the key as it is by then, and OVERTAKEN speaks of one try only."""
    return "KEY_LOST" in one or "OVERTAKEN" in one or _is_refused_otherwise(one, other)


def _is_refused_otherwise(one: str, other: str) -> bool:
    """Nothing of it is stored, either way."""
    return ("KEY_TAKEN" in one or "KEY_LOST" in one) and "KEY_LOST" in other


def _may_become(one: str, other: str) -> bool:
    """The cancel stands, and whoever holds the task by then may not answer."""
    return one in OPEN or other == "PENDING" or "CANCELLED" not in (one, other)
