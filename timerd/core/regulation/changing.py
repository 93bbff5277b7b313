"""How the rules of queues are read and changed at the store.

Q1: the note that lists the queue, THEN the compare-and-set, THEN who lives is read, THEN each of those is told. Q2: an
instance reads that others can see it, THEN the list, THEN the rules. So of a change and a reader that pass each other,
either the reader sees the change or its maker sees the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from timerd.core.protocol import ListEntries, Procedure, ReadRegister, ReadRegisters, TryCas, WriteEntries
from timerd.core.taken import QueueKey
from timerd.model.errors import Aborted
from timerd.model.instance import ROSTER, InstanceEntry, instance_key, roster_of
from timerd.model.regulations import (
    REGULATED,
    Regulation,
    name_of,
    named,
    read_regulation,
    regulated_entry,
    regulation_key,
)
from timerd.model.storage import Cas, CasResult, CasStatus, Entry

TRIES = 10
PAGE = 1_000
# Who goes by the rules of before is another one: (name, incarnation). None: there is nobody else.
Identity = tuple[str, int] | None
RuleChange = Callable[[Regulation], Regulation]
_NAMED = b"1"


def read_rules(queue: QueueKey) -> Procedure[Regulation]:
    stored: bytes | None = yield ReadRegister(regulation_key(*queue))
    return read_regulation(stored)


def read_all_rules(me: Identity) -> Procedure[dict[QueueKey, Regulation] | None]:
    """None: others do not see yet that this instance lives, so that they would change a rule without it."""
    if me is not None and not (yield from _is_seen(*me)):
        return None
    found: dict[QueueKey, Regulation] = {}
    after = b""
    while names := (yield from _names_after(after)):
        after = names[-1]
        queues = [QueueKey(*queue) for name in names if (queue := named(name)) is not None]
        stored: Sequence[bytes | None] = yield ReadRegisters([regulation_key(*queue) for queue in queues])
        found.update(zip(queues, map(read_regulation, stored), strict=True))
    return found


def list_regulated(namespace: str, after: str, limit: int) -> Procedure[list[tuple[QueueKey, Regulation]]]:
    """Queues of a namespace with what is known of their rules, behind a queue's name."""
    names = yield from _names_after(name_of(namespace, after), limit)
    queues = [QueueKey(*queue) for name in names if (queue := named(name)) is not None and queue[0] == namespace]
    if not queues:
        return []
    stored: Sequence[bytes | None] = yield ReadRegisters([regulation_key(*queue) for queue in queues])
    return list(zip(queues, map(read_regulation, stored), strict=True))


def change_rules(queue: QueueKey, request: str, revision: int, decide: RuleChange) -> Procedure[Regulation]:
    """The rules that are in force by then. A call that was carried out before changes nothing; one that asks for what
    there is keeps the revision. Raises Aborted."""
    for _ in range(TRIES):
        stored: bytes | None = yield ReadRegister(regulation_key(*queue))
        rules = Regulation.from_bytes(stored) if stored is not None else Regulation()
        if request in rules.requests:
            return rules
        _check_revision(queue, rules, revision)
        if stored is None:
            yield WriteEntries([Entry(regulated_entry(*queue), _NAMED)])
        wanted = decide(rules)
        fresh = wanted if wanted == rules and rules.revision else replace(wanted, revision=rules.revision + 1)
        result: CasResult = yield TryCas(Cas(regulation_key(*queue), stored, fresh.asked(request).to_bytes()))
        if result.status is CasStatus.APPLIED:
            return fresh.asked(request)
    raise Aborted(f"Others change the rules of the queue {queue.queue!r} all the time: try again.", "BUSY")


def _is_seen(name: str, incarnation: int) -> Procedure[bool]:
    roster, stored = yield ReadRegisters([ROSTER, instance_key(name)])
    if name not in roster_of(roster) or stored is None:
        return False
    return InstanceEntry.from_bytes(stored).incarnation == incarnation


def _names_after(after: bytes, limit: int = PAGE) -> Procedure[list[bytes]]:
    (entries,) = yield ListEntries([(REGULATED, after, limit)])
    return [entry.key.name for entry in entries]


def _check_revision(queue: QueueKey, rules: Regulation, revision: int) -> None:
    if revision and revision != rules.revision:
        raise Aborted(
            f"The rules of the queue {queue.queue!r} have revision {rules.revision} by now, not {revision}: look at "
            "them again, then decide.",
            "REVISION_CHANGED",
            field="revision",
        )
