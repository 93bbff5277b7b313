"""Rules of the limit keys of a queue, as the command line takes and shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from timerd.commands.failures import WrongInput
from timerd.commands.limit_text import limit_record, limit_shown
from timerd.commands.output import OutputRecord

if TYPE_CHECKING:
    from timerd.client import KeyLimit, KeyRules, KeyRulesInfo, QueueInfo

ANY = "any"


def key_rules(
    rate: str | None, max_in_hand: int | None, share: float | None, overrides: Sequence[str]
) -> KeyRules | None:
    """None: nothing is said of keys. Raises WrongInput."""
    from timerd.client import KeyLimit, KeyRules

    if (rate, max_in_hand, share) == (None, None, None) and not overrides:
        return None
    own: dict[str, KeyLimit] = {}
    for each in overrides:
        key, limit = _override(each)
        if key in own:
            raise WrongInput(f"--key names {key!r} twice: give it once.")
        own[key] = limit
    return KeyRules(KeyLimit(rate=rate, max_in_hand=max_in_hand), own, share)


def keys_shown(keys: KeyRulesInfo) -> str:
    """In a sentence about the queue."""
    limit = f"each of its keys {limit_shown(keys.limit)}, and " if keys.limit is not None else ""
    others = f", {len(keys.overrides)} keys have limits of their own" if keys.overrides else ""
    return f"{limit}{keys.share:.0%} of what is in hand is one key's at most{others}"


def keys_text(queue: QueueInfo) -> str:
    """Empty: nobody has said anything of its keys."""
    return keys_shown(queue.keys) if queue.keys is not None else ""


def keys_record(keys: KeyRulesInfo | None) -> OutputRecord | None:
    if keys is None:
        return None
    overrides = {key: None if limit is None else limit_record(limit) for key, limit in keys.overrides.items()}
    return {**limit_record(keys.limit), "share": keys.share, "overrides": overrides}


def _override(text: str) -> tuple[str, KeyLimit]:
    from timerd.client import KeyLimit

    key, equals, value = text.rpartition("=")
    if value == ANY and equals:
        return key, KeyLimit()
    if "/" in value and equals:
        return key, KeyLimit(rate=value)
    if value.isdecimal() and equals:
        return key, KeyLimit(max_in_hand=int(value))
    raise WrongInput(f"--key is {text!r:.80}: write KEY=20 (in hand), KEY=30/m (a rate) or KEY=any (no limit).")
