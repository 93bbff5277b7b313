"""Rules of the limit keys of a queue, as the command line takes and shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from timerd.commands.failures import WrongInput
from timerd.commands.limit_text import limit_record, limit_shown
from timerd.commands.output import OutputRecord

if TYPE_CHECKING:
    from timerd.client import KeyLimit, KeyRulesInfo, QueueInfo

ANY, DEFAULT = "any", "default"
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
    limit = f"each of its keys {limit_shown(keys.limit)}, and " if keys.limit is not None else ""
    others = f", {len(keys.overrides)} keys have limits of their own" if keys.overrides else ""
    weights = f", {len(keys.weights)} have other weights" if keys.weights else ""
    return f"{limit}{keys.share:.0%} of what is in hand is one key's at most{others}{weights}"


def keys_text(queue: QueueInfo) -> str:
    """Empty: nobody has said anything of its keys."""
    return keys_shown(queue.keys) if queue.keys is not None else ""


def keys_record(keys: KeyRulesInfo | None) -> OutputRecord | None:
    if keys is None:
        return None
    overrides = {key: None if limit is None else limit_record(limit) for key, limit in keys.overrides.items()}
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
