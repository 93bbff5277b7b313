"""Cancel or purge many tasks with a few requests: the same steps as core/cancel.py, each for all at once.

Only for tasks that still live at home and have not ended; whoever was moved, carried or settled goes the long way,
which is core/cancel.py, each by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import compress, repeat
from typing import NamedTuple

from timerd.core.cancel import KINDS, Cancelled
from timerd.core.holding import Asked
from timerd.core.procedures import (
    AskToEndMany,
    Ending,
    Find,
    FindSettledMany,
    FindVacant,
    HolderAnswer,
    LookAt,
    MarkAndLook,
    Procedure,
    SetMarks,
    Together,
    Vacant,
)
from timerd.core.ties import anchor_of, tied_to
from timerd.model.identity import RowKey, TaskId, digest_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.registers import Place
from timerd.model.settle import Outcome
from timerd.model.storage import Found, Look, Looked, Mark, MarkKind

Tasks = Sequence[TaskId]
FoundOf = Mapping[tuple[Partition, RowKey], Found]
NOT_ENDED = Ending(None)
# The holder does not know how the row stands: it is nobody, or still reads, or has forgotten what is over.
NOT_KNOWN = (None, Asked.UNKNOWN)
# Of a thousand tasks a message: from columns, without a call of Python's for each.
_ROW_KEY: Callable[[tuple[int, bytes, int]], RowKey] = partial(tuple.__new__, RowKey)
_MARK: Callable[[tuple[Partition, RowKey, MarkKind, bytes]], Mark] = partial(tuple.__new__, Mark)


class Group(NamedTuple):
    """Rows of one home, each once."""

    partition: Partition
    keys: Sequence[RowKey]

    def only(self, chosen: Collection[bool]) -> Group:
        return self if all(chosen) else Group(self.partition, list(compress(self.keys, chosen)))

    @property
    def places(self) -> list[tuple[int, bytes]]:
        return [(position_ms, digest) for position_ms, digest, _ in self.keys]


class Marked(NamedTuple):
    """`fresh`: see SetMarks. `quiet`: partitions in which nothing has settled that does not know of the marks."""

    fresh: int | None
    moved: Set[bytes]
    quiet: Set[Partition]


def end_many(tasks: Tasks, outcome: Outcome, request: bytes) -> Procedure[list[Cancelled | None]]:
    """One answer a task, in order; None: it goes the long way."""
    homes = _home_keys(tasks)
    groups = yield from _plain(_by_home(tasks, homes))
    if not groups:
        return [None] * len(tasks)
    kind = KINDS[outcome]
    marks = [mark for group in groups for mark in _marks(group, kind, request)]
    fresh, moved, quiet = yield from _mark_and_look(groups, marks)
    groups = _without(groups, moved)
    firsts = None
    if fresh != len(marks):
        found = yield from _rows_of(groups)
        firsts = _firsts(found, kind)
        groups = _only_of_one_place(groups, (yield from _tied(found, kind, request)))
    answers: dict[RowKey, Cancelled] = {}
    unsure: list[tuple[Group, list[HolderAnswer]]] = []
    for group in groups:
        replies: list[HolderAnswer] = yield AskToEndMany(group.partition, group.keys, outcome, request)
        answers.update(_known(group, replies, request))
        unsure += _unsure(group, replies)
    answers.update((yield from _conclude(unsure, request, firsts, quiet)))
    return list(map(answers.get, homes))


def _mark_and_look(groups: Sequence[Group], marks: Sequence[Mark]) -> Procedure[Marked]:
    """The marks, then where the tasks are. A partition that nobody held from before the marks until after a look that
    found no settle record of it is quiet: whoever comes later reads the marks before he sends anything, so it need not
    be asked for its records once more."""
    tasks, partitions = _digests(groups), [group.partition for group in groups]
    vacant: Vacant | None = yield FindVacant(partitions)
    if vacant is None:
        count: int | None = yield SetMarks(marks)
        looked: Looked = yield LookAt(Look((), tasks))
        return Marked(count, looked.moved, frozenset())
    unheld = [partition for partition in partitions if partition in vacant.partitions]
    count, looked = yield MarkAndLook(marks, Look((), tasks, unheld))
    again: Vacant | None = yield FindVacant(partitions)
    return Marked(count, looked.moved, vacant.partitions - looked.settled if again == vacant else frozenset())


def _home_keys(tasks: Tasks) -> list[RowKey]:
    digests = (digest_of(task.prefix, task.item) for task in tasks)
    return list(map(_ROW_KEY, zip([task.position_ms for task in tasks], digests, repeat(0))))


def _marks(group: Group, kind: MarkKind, request: bytes) -> Iterable[Mark]:
    return map(_MARK, zip(repeat(group.partition), group.keys, repeat(kind), repeat(request)))


def _is_one_answer(replies: Sequence[HolderAnswer]) -> bool:
    """Whether it was said once for all of them: nobody holds the partition, or all of them wait there."""
    return len(set(map(id, replies))) == 1


def _by_home(tasks: Tasks, keys: Sequence[RowKey]) -> list[Group]:
    homes: defaultdict[tuple[int, int], dict[RowKey, None]] = defaultdict(dict)
    for task, key in zip(tasks, keys, strict=True):
        homes[key.position_ms // BUCKET_MS, task.shard][key] = None
    return [
        Group(Partition(TIME_SCOPE, number * BUCKET_MS, shard), list(rows)) for (number, shard), rows in homes.items()
    ]


def _digests(groups: Sequence[Group]) -> list[bytes]:
    return [key.digest for _, keys in groups for key in keys]


def _without(groups: Sequence[Group], moved: Set[bytes]) -> list[Group]:
    if not moved:
        return list(groups)
    left = (group.only([key.digest not in moved for key in group.keys]) for group in groups)
    return [group for group in left if group.keys]


def _plain(groups: Sequence[Group]) -> Procedure[list[Group]]:
    """Whose row is at home, unmarked, not over, and whose task was not moved. This chooses the way and decides nothing,
    so all of it is asked for at once."""
    if not groups:
        return []
    partitions = [group.partition for group in groups]
    vacant: Vacant | None = yield FindVacant(partitions)
    unheld = [p for p in partitions if vacant is not None and p in vacant.partitions]
    first = LookAt(Look([(group.partition, group.places) for group in groups], _digests(groups), unheld))
    held = [group for group in groups if group.partition not in unheld]
    looked: Looked
    looked, *said = yield Together([first, *map(_settled_of, held)])
    left = [group for group in groups if group.partition in looked.settled]
    said += (yield Together(list(map(_settled_of, left)))) if left else []
    endings: dict[Partition, list[Ending]] = dict(zip([g.partition for g in (*held, *left)], said, strict=True))
    alive = [
        group.only([is_bare and not _has_ended(endings, group, n) for n, is_bare in enumerate(bare)])
        for group, bare in zip(groups, looked.bare, strict=True)
    ]
    return _without([group for group in alive if group.keys], looked.moved)


def _settled_of(group: Group) -> FindSettledMany:
    return FindSettledMany(group.partition, group.keys)


def _has_ended(endings: Mapping[Partition, Sequence[Ending]], group: Group, at: int) -> bool:
    """Without an answer it has no record."""
    return group.partition in endings and endings[group.partition][at].outcome is not None


def _rows_of(groups: Sequence[Group]) -> Procedure[FoundOf]:
    """With the marks that are there now, after ours are durable."""
    found: list[list[Found]] = yield Together([Find(group.partition, group.places) for group in groups])
    return {
        (group.partition, key): place
        for group, places in zip(groups, found, strict=True)
        for key, place in zip(group.keys, places, strict=True)
    }


def _firsts(found: FoundOf, kind: MarkKind) -> dict[RowKey, bytes]:
    """Whose mark came first: another call may have been faster."""
    return {
        key: next(m.value for m in place.marks if m.kind == kind)
        for (_, key), place in found.items()
        if any(m.kind == kind for m in place.marks)
    }


def _tied(found: FoundOf, kind: MarkKind, request: bytes) -> Procedure[set[RowKey]]:
    """Who has copies in other buckets, or may have (core/ties.py). Of what came late within its bucket its instant says
    so, which is marked and read like its place."""
    tied = {key for (_, key), place in found.items() if tied_to(place.marks)}
    late: dict[Place, RowKey] = {}
    for (partition, key), place in found.items():
        anchor = anchor_of(Place(partition, key), int(place.rows.columns["fire_at_ms"][0])) if len(place.rows) else None
        if anchor is not None:
            late[anchor] = key
    if late:
        yield SetMarks([Mark(anchor.partition, anchor.key, kind, request) for anchor in late])
        anchors = _by_partition(late)
        there = yield from _rows_of(anchors)
        tied |= {late[Place(*at)] for at, place in there.items() if tied_to(place.marks)}
    return tied


def _by_partition(places: Iterable[Place]) -> list[Group]:
    keys: defaultdict[Partition, list[RowKey]] = defaultdict(list)
    for place in places:
        keys[place.partition].append(place.key)
    return [Group(partition, rows) for partition, rows in keys.items()]


def _only_of_one_place(groups: Sequence[Group], tied: set[RowKey]) -> list[Group]:
    if not tied:
        return list(groups)
    left = (group.only([key not in tied for key in group.keys]) for group in groups)
    return [group for group in left if group.keys]


def _known(group: Group, replies: Sequence[HolderAnswer], request: bytes) -> dict[RowKey, Cancelled]:
    """What the holder decides. What has ended meanwhile goes the long way."""
    if _is_one_answer(replies):
        said = _said(replies[0], request)
        return dict.fromkeys(group.keys, said) if said is not None else {}
    answers = ((key, _said(reply, request)) for key, reply in zip(group.keys, replies, strict=True))
    return {key: said for key, said in answers if said is not None}


def _said(reply: HolderAnswer, request: bytes) -> Cancelled | None:
    if reply.asked is Asked.WAITING:
        return Cancelled.CANCELLED if reply.request == request else Cancelled.ALREADY_CANCELLED
    if reply.asked is Asked.SILENT:
        return Cancelled.PENDING
    if reply.asked is Asked.OPEN:
        return Cancelled.IN_FLIGHT
    return None


def _unsure(group: Group, replies: Sequence[HolderAnswer]) -> list[tuple[Group, list[HolderAnswer]]]:
    if _is_one_answer(replies):
        return [(group, list(replies))] if replies[0].asked in NOT_KNOWN else []
    unknown = [reply.asked in NOT_KNOWN for reply in replies]
    return [(group.only(unknown), list(compress(replies, unknown)))] if any(unknown) else []


def _conclude(
    unsure: Sequence[tuple[Group, list[HolderAnswer]]],
    request: bytes,
    firsts: dict[RowKey, bytes] | None,
    quiet: Set[Partition],
) -> Procedure[dict[RowKey, Cancelled]]:
    """The marks are durable and nobody knows of an end: then whoever takes the rows in reads the marks. What is settled
    or gone goes the long way. `firsts` None: all marks are ours."""
    out: dict[RowKey, Cancelled] = {}
    if not unsure:
        return out
    asked = [_settled_of(group) for group, _ in unsure if group.partition not in quiet]
    settled: list[list[Ending]] = (yield Together(asked)) if asked else []
    found = {each.partition: endings for each, endings in zip(asked, settled, strict=True)}
    for group, replies in unsure:
        if firsts is None and group.partition not in found and _is_one_answer(replies):
            out.update(dict.fromkeys(group.keys, Cancelled.IN_FLIGHT if replies[0].in_hand else Cancelled.CANCELLED))
            continue
        endings = found.get(group.partition) or [NOT_ENDED] * len(replies)
        for key, reply, ending in zip(group.keys, replies, endings, strict=True):
            if ending.outcome is not None or (firsts is not None and key not in firsts):
                continue
            mine = firsts is None or firsts[key] == request
            said = Cancelled.CANCELLED if mine else Cancelled.ALREADY_CANCELLED
            out[key] = Cancelled.IN_FLIGHT if reply.in_hand else said
    return out
