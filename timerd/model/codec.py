"""What a release does with stored fields that a later one has added.

Every stored form is a JSON object, and releases agree on four rules. Fields are only appended: none gets another name,
place or meaning, so what is written again is byte for byte the same, as compare-and-set needs it. A reader keeps the
fields that it does not know, as text, and writes them back behind its own. A form may name in `needs` what its reader
must understand; a reader that does not leaves it alone. A form of a later version (`v`, 1 where it does not say) has
another layout, and is left alone as well. No field is ever named `kept`.

A new form is written only when every living instance has announced that it understands it: `known_by_all`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import fields
from enum import IntEnum
from functools import lru_cache
from typing import Any, TypeVar

from timerd.model.errors import NotUnderstood

# `json.dumps` would make one each time.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
VERSION, NEEDS = "v", "needs"
# Of the forms that this release reads and writes.
FORM_VERSION = 1
# Of an instance that keeps fields which it does not know; those from before it announce nothing.
KEEPS_FIELDS = "keeps_fields"
# Of an instance that goes by the rules of queues.
REGULATES = "regulations"
# Of an instance that knows when a task expires that says so by a span.
EXPIRES_AFTER = "expire_after"
# Of an instance that hands on to the next attempt how far one has come.
PROGRESS = "progress"
# Of an instance that starts the tasks of an ordering key one after the other.
ORDERING_KEY = "ordering_key"
Number = TypeVar("Number", bound=IntEnum)
# Of an instance that knows the places of a cycle.
PLACES = "places"
# Of an instance whose deliveries say that a result is kept.
KEEPS_RESULTS = "keep_result"
# Of an instance that borrows the permits of a limit which it sends by.
LENDS = "lent_permits"
# Of an instance that ends an attempt whose handler says nothing for too long.
STALLS = "stall_timeout"
# Of an instance that draws the tokens of a rate which it starts by.
DRAWS = "drawn_tokens"
# Of an instance that tells others of the ends of tasks that they ask for.
TELLS_ENDS = "tells_ends"
# Of an instance that sends the tasks of an ordering key in a cluster only if it keeps its key shard.
KEY_SHARDS = "key_shards"
# Of an instance that inserts a task when another one ends that asks for it.
ON_END = "on_end"
# Of an instance that finds out by itself how many tasks of a queue its target bears.
ADAPTS = "adaptive"
# Of an instance that counts a limit for each limit key.
KEYED_LIMITS = "keyed_limits"
# Of an instance that borrows the permits of limit keys which it sends by.
LENDS_KEYS = "lent_keys"
# Of an instance that draws the tokens of the rates of limit keys which it starts by.
DRAWS_KEYS = "drawn_keys"
# Of an instance that lends and borrows the share of a limit key as a limit of it.
SHARES_KEYS = "shared_keys"
# Of an instance that knows tasks on demand, and names their message as the others do.
ON_DEMAND = "on_demand"
# What this release understands, as `needs` and the instances' own rows name it.
CAPABILITIES = frozenset(
    {KEEPS_FIELDS, REGULATES, EXPIRES_AFTER, PROGRESS, PLACES, KEEPS_RESULTS}
    | {ORDERING_KEY, LENDS, STALLS, DRAWS, TELLS_ENDS, ON_END, ADAPTS, KEYED_LIMITS, KEY_SHARDS, LENDS_KEYS}
    | {DRAWS_KEYS, SHARES_KEYS, ON_DEMAND}
)


def dump_json(value: object) -> bytes:
    """The one JSON form of everything stored."""
    return _ENCODER.encode(value).encode()


def load_json(stored: bytes) -> Any:  # noqa: ANN401 - as it stood there
    """The inverse of `dump_json`. `json.loads` would find out first which Unicode it is."""
    return json.loads(stored.decode())


def field_names(form: Any) -> Set[str]:  # noqa: ANN401 - a dataclass
    """Those that this release knows, in the order in which they are written."""
    return dict.fromkeys(each.name for each in fields(form) if each.name != "kept").keys()


def split_known(
    stored: Mapping[str, Any], known: Set[str], in_all_versions: Set[str] = frozenset()
) -> tuple[dict[str, Any], str]:
    """The fields that this release knows, and the text of the others.

    Of a form of a later version only `in_all_versions` are known."""
    if stored.keys() <= known:
        return dict(stored), ""
    if stored.get(VERSION, FORM_VERSION) > FORM_VERSION:
        known = in_all_versions
    kept = {name: value for name, value in stored.items() if name not in known}
    return {name: value for name, value in stored.items() if name in known}, dump_json(kept).decode() if kept else ""


def with_kept(values: dict[str, Any], kept: str) -> dict[str, Any]:
    """The inverse of `split_known`."""
    return values | json.loads(kept) if kept else values


def lacking(kept: str) -> frozenset[str]:
    """What this release would have to understand of a form, by the text of its unknown fields."""
    return _needs(kept) - CAPABILITIES if kept else frozenset()


@lru_cache(maxsize=1024)
def _needs(kept: str) -> frozenset[str]:
    fields = json.loads(kept)
    version = fields.get(VERSION, FORM_VERSION)
    return frozenset([*fields.get(NEEDS, ()), *([f"version {version}"] if version > FORM_VERSION else [])])


def unknown_member(kind: type[Number], value: object) -> Number:
    """For an enumeration that later releases add to: a number that it does not name. Raises ValueError for others."""
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is no {kind.__name__}")
    member = int.__new__(kind, value)
    member._name_, member._value_ = f"UNKNOWN_{value}", value
    return member


def needing(*names: str) -> str:
    """What a form has in `kept` that a reader without these capabilities is to leave alone."""
    return dump_json({NEEDS: sorted(names)}).decode()


def with_need(kept: str, name: str) -> str:
    """What was kept, with one more capability that a reader needs."""
    return _with_needs(kept, {*_named(kept), name})


def without_need(kept: str, name: str) -> str:
    """What was kept, without it."""
    return _with_needs(kept, {*_named(kept)} - {name})


def _named(kept: str) -> Sequence[str]:
    found: Sequence[str] = json.loads(kept).get(NEEDS, ()) if kept else ()
    return found


def _with_needs(kept: str, names: Set[str]) -> str:
    fields = {name: value for name, value in json.loads(kept or "{}").items() if name != NEEDS}
    fields |= {NEEDS: sorted(names)} if names else {}
    return dump_json(fields).decode() if fields else ""


def check_understood(what: str, kept: str) -> None:
    """Raises NotUnderstood."""
    if kept and (lacks := lacking(kept)):
        raise NotUnderstood(what, lacks)


def known_by_all(announced: Mapping[str, Collection[str]]) -> frozenset[str]:
    """The rule for new forms: what all living instances understand, by what each has announced
    (`Membership.announced`). One that nobody has looked at yet understands nothing."""
    return frozenset.intersection(*map(frozenset, announced.values())) if announced else frozenset()
