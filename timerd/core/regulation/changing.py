"""How the rules of queues, and limits with names, are read and changed at the store.

Q1: the note that lists the queue, THEN the compare-and-set, THEN who lives is read, THEN each of those is told. Q2: an
instance reads that others can see it, THEN the list, THEN the rules. So of a change and a reader that pass each other,
either the reader sees the change or its maker sees the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from timerd.core.protocol import ListEntries, Procedure, ReadRegister, ReadRegisters, TryCas, WriteEntries
from timerd.core.taken import QueueKey
from timerd.model.codec import check_understood
from timerd.model.errors import Aborted
from timerd.model.instance import ROSTER, InstanceEntry, instance_key, roster_of
from timerd.model.named_limits import (
    LimitName,
    NamedLimit,
    limit_entry,
    limit_key,
    name_of_limit,
    named_limit,
    read_limit,
)
from timerd.model.registers import RegisterKey
from timerd.model.regulations import (
    REGULATED,
    Regulation,
    name_of,
    named,
    read_regulation,
    regulated_entry,
    regulation_key,
)
from timerd.model.storage import Cas, CasResult, CasStatus, Entry, EntryKey

TRIES = 10
PAGE = 1_000
# Who goes by the rules of before is another one: (name, incarnation). None: there is nobody else.
Identity = tuple[str, int] | None
RuleChange = Callable[[Regulation], Regulation]
LimitChange = Callable[[NamedLimit], NamedLimit]
_NAMED = b"1"
_Rules = TypeVar("_Rules", Regulation, NamedLimit)


@dataclass(slots=True)
class AllRules:
    """Those of queues, and the limits with names."""

    queues: dict[QueueKey, Regulation] = field(default_factory=dict)
    limits: dict[LimitName, NamedLimit] = field(default_factory=dict)


class _Kept(NamedTuple):
    """Where something is kept, and what people call it."""

    key: RegisterKey
    entry: EntryKey
    shown: str
    has: str


def read_rules(queue: QueueKey) -> Procedure[Regulation]:
    stored: bytes | None = yield ReadRegister(regulation_key(*queue))
    return read_regulation(stored)


def read_named_limits(names: Sequence[LimitName]) -> Procedure[list[NamedLimit]]:
    stored: Sequence[bytes | None] = yield ReadRegisters([limit_key(name) for name in names])
    return [read_limit(each) for each in stored]


def read_all_rules(me: Identity) -> Procedure[AllRules | None]:
    """None: others do not see yet that this instance lives, so that they would change a rule without it."""
    if me is not None and not (yield from _is_seen(*me)):
        return None
    found, after = AllRules(), b""
    while names := (yield from _names_after(after)):
        after = names[-1]
        found.queues.update((yield from _rules_of(names)))
        found.limits.update((yield from _limits_of(names)))
    return found


def list_regulated(namespace: str, after: str, limit: int) -> Procedure[list[tuple[QueueKey, Regulation]]]:
    """Queues of a namespace with what is known of their rules, behind a queue's name."""
    names = yield from _names_after(name_of(namespace, after), limit)
    found = yield from _rules_of(names)
    return [(queue, rules) for queue, rules in found if queue.namespace == namespace]


def list_limits(namespace: str, after: str, limit: int) -> Procedure[list[tuple[LimitName, NamedLimit]]]:
    """Of a namespace, behind a name, those that were deleted among them."""
    names = yield from _names_after(name_of_limit(namespace, after), limit)
    found = yield from _limits_of(names)
    return [(name, kept) for name, kept in found if name.namespace == namespace]


def change_rules(queue: QueueKey, request: str, revision: int, decide: RuleChange) -> Procedure[Regulation]:
    """The rules that are in force by then. A call that was carried out before changes nothing; one that asks for what
    there is keeps the revision. Raises Aborted, and NotUnderstood."""
    shown = f"the rules of the queue {queue.queue!r}"
    kept = _Kept(regulation_key(*queue), regulated_entry(*queue), shown, "have")
    return _change(kept, Regulation.from_bytes, Regulation(), request, revision, decide)


def change_limit(name: LimitName, request: str, revision: int, decide: LimitChange) -> Procedure[NamedLimit]:
    """As `change_rules`, of a limit with a name."""
    kept = _Kept(limit_key(name), limit_entry(name), f"the limit {name.limit!r}", "has")
    return _change(kept, _understood, NamedLimit(), request, revision, decide)


def _change(
    kept: _Kept,
    read: Callable[[bytes], _Rules],
    none: _Rules,
    request: str,
    revision: int,
    decide: Callable[[_Rules], _Rules],
) -> Procedure[_Rules]:
    for _ in range(TRIES):
        stored: bytes | None = yield ReadRegister(kept.key)
        rules = read(stored) if stored is not None else none
        if request in rules.requests:
            return rules
        _check_revision(kept, rules.revision, revision)
        wanted = decide(rules)
        if stored is None:
            yield WriteEntries([Entry(kept.entry, _NAMED)])
        fresh = wanted if wanted == rules and rules.revision else replace(wanted, revision=rules.revision + 1)
        result: CasResult = yield TryCas(Cas(kept.key, stored, fresh.asked(request).to_bytes()))
        if result.status is CasStatus.APPLIED:
            return fresh.asked(request)
    raise Aborted(f"Others change {kept.shown} all the time: try again.", "BUSY")


def _understood(stored: bytes) -> NamedLimit:
    found = NamedLimit.from_bytes(stored)
    check_understood("A limit", found.kept)
    return found


def _rules_of(names: Sequence[bytes]) -> Procedure[list[tuple[QueueKey, Regulation]]]:
    """Of the queues among them."""
    queues = [QueueKey(*queue) for name in names if (queue := named(name)) is not None]
    if not queues:
        return []
    stored: Sequence[bytes | None] = yield ReadRegisters([regulation_key(*queue) for queue in queues])
    return list(zip(queues, map(read_regulation, stored), strict=True))


def _limits_of(names: Sequence[bytes]) -> Procedure[list[tuple[LimitName, NamedLimit]]]:
    """Of the limits among them."""
    limits = [limit for name in names if (limit := named_limit(name)) is not None]
    return list(zip(limits, (yield from read_named_limits(limits)), strict=True)) if limits else []


def _is_seen(name: str, incarnation: int) -> Procedure[bool]:
    roster, stored = yield ReadRegisters([ROSTER, instance_key(name)])
    if name not in roster_of(roster) or stored is None:
        return False
    return InstanceEntry.from_bytes(stored).incarnation == incarnation


def _names_after(after: bytes, limit: int = PAGE) -> Procedure[list[bytes]]:
    (entries,) = yield ListEntries([(REGULATED, after, limit)])
    return [entry.key.name for entry in entries]


def _check_revision(kept: _Kept, revision: int, asked: int) -> None:
    if asked and asked != revision:
        raise Aborted(
            f"{kept.shown[0].upper()}{kept.shown[1:]} {kept.has} revision {revision} by now, not {asked}: look "
            "again, then decide.",
            "REVISION_CHANGED",
            field="revision",
        )
