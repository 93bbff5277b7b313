"""Rules of the limit keys of a queue, as the command line takes and shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from timerd.commands.failures import WrongInput
from timerd.commands.limit_text import limit_record, limit_shown
from timerd.commands.output import OutputRecord
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.client import KeyLimit, KeyRulesInfo, QueueInfo, QueueLimit

# How the key of tasks without one is called.
NO_KEY = "(no limit key)"
ANY, DEFAULT = "any", "default"
MOST_WEIGHTS = 10
_Value = TypeVar("_Value")


def key_limits(texts: Sequence[str]) -> dict[str, KeyLimit | None]:
    """Of some keys; None: it goes by what all go by. Raises WrongInput."""
    return _each_once(map(_override, texts), "--key")


def key_weights(texts: Sequence[str]) -> dict[str, float]:
    """Raises WrongInput."""
    return _each_once(map(_weight, texts), "--key-weight")


def _each_once(pairs: Iterable[tuple[str, _Value]], option: str) -> dict[str, _Value]:
    found: dict[str, _Value] = {}
    for key, value in pairs:
        if key in found:
            raise WrongInput(f"{option} names {key!r} twice: give it once.")
        found[key] = value
    return found


def keys_shown(keys: KeyRulesInfo) -> str:
    """In a sentence about the queue."""
    limit = f"each limit key {limit_shown(keys.limit)}, and " if keys.limit is not None else ""
    others = f", {counted(len(keys.overrides), 'limit key', 'have')} an override" if keys.overrides else ""
    weights = f", with weights {_weights_shown(keys)}" if keys.weights else ""
    return f"{limit}{keys.share:.0%} of what is in hand is one limit key's at most{others}{weights}"


def overrides_text(overrides: Mapping[str, QueueLimit | None]) -> str:
    """A line for each limit key that has one, by its name."""
    return "\n".join(
        f"{key or NO_KEY} {limit_shown(limit) if limit is not None else 'has no limit'}"
        for key, limit in sorted(overrides.items())
    )


def overrides_record(overrides: Mapping[str, QueueLimit | None]) -> dict[str, OutputRecord | None]:
    return {key: None if limit is None else limit_record(limit) for key, limit in overrides.items()}


def _weights_shown(keys: KeyRulesInfo) -> str:
    """Those of some; with --json all of them."""
    heaviest = sorted(keys.weights.items(), key=lambda each: (-each[1], each[0]))
    shown = ", ".join(f"{key}={weight:g}" for key, weight in heaviest[:MOST_WEIGHTS])
    more = len(heaviest) - MOST_WEIGHTS
    return f"{shown} and {more} more" if more > 0 else shown


def keys_text(queue: QueueInfo) -> str:
    """Empty: nobody has said anything of its limit keys."""
    return keys_shown(queue.keys) if queue.keys is not None else ""


def keys_record(keys: KeyRulesInfo | None) -> OutputRecord | None:
    if keys is None:
        return None
    overrides = overrides_record(keys.overrides)
    return {**limit_record(keys.limit), "share": keys.share, "overrides": overrides, "weights": dict(keys.weights)}


def _override(text: str) -> tuple[str, KeyLimit | None]:
    from timerd.client import KeyLimit

    key, equals, value = text.rpartition("=")
    if value == DEFAULT and equals:
        return key, None
    if value == ANY and equals:
        return key, KeyLimit()
    if "/" in value and equals:
        return key, KeyLimit(rate=value)
    if value.isdecimal() and equals:
        return key, KeyLimit(max_in_hand=int(value))
    raise WrongInput(
        f"--key is {text!r:.80}: write KEY=20 (in hand), KEY=30/m (a rate), KEY=any (no limit) or KEY=default (as all)."
    )


def _weight(text: str) -> tuple[str, float]:
    key, equals, value = text.rpartition("=")
    try:
        return key, float(value if equals else "")
    except ValueError:
        raise WrongInput(f"--key-weight is {text!r:.80}: write KEY=3, of 0.01 to 100; 1 is that of all.") from None
