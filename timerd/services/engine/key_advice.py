"""What `timerd doctor` says of ordering keys that stand still."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from timerd.model.counted import counted
from timerd.model.halts import Halt
from timerd.model.identity import DEFAULT_NAMESPACE
from timerd.model.instants import shown


def halted_advice(halts: Iterable[Halt], most: int) -> list[str]:
    """Which stand still, for the longest first, and how they go on; the others as a number."""
    first: dict[tuple[str, str, str], Halt] = {}
    for halt in sorted(halts, key=lambda each: each.since_ms):
        first.setdefault((halt.namespace, halt.queue, halt.ordering_key), halt)
    said = [_sentence(halt) for halt in first.values()]
    more = len(said) - most
    if more <= 0:
        return said
    others = [halt.queue for halt in list(first.values())[most:]]
    lists = f"`timerd keys list {quote(max(set(others), key=others.count))}`"
    return [*said[:most], f"{counted(more, 'more ordering key', 'stand')} still: see {lists}."]


def _sentence(halt: Halt) -> str:
    where = f" --namespace {quote(halt.namespace)}" if halt.namespace != DEFAULT_NAMESPACE else ""
    named = f"{quote(halt.queue)} {quote(halt.ordering_key)}{where}"
    return (
        f"The ordering key {halt.ordering_key!r} of the queue {halt.queue!r} stands still since "
        f"{shown(halt.since_ms)}, for a task of it has failed for good: `timerd keys resume {named}` tries that "
        f"one again, `timerd keys skip {named}` goes on without it."
    )
