"""Cancel or purge many tasks with a few requests: the same steps as core/protocol/cancel.py, each for all at once.

Only for tasks that still live at home and have not ended; one that was moved, carried or settled goes the long way,
which is core/protocol/cancel.py, each by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import compress, repeat
from operator import is_
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.core.partition import Asked
from timerd.core.protocol.cancel import Cancelled
from timerd.core.protocol.procedures import (
    NOT_ENDED,
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
from timerd.model.identity import RowKey, TaskId
from timerd.model.outcomes import MARK_OF_OUTCOME
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.row_keys import RowKeys, TaskDigests, digests_of, only_of, places_of
from timerd.model.settle import Outcome
from timerd.model.storage import Found, Look, Looked, Mark, MarkKind, SameMarks
from timerd.model.task_ids import TaskIds

ManyTasks = Sequence[TaskId]
FoundOf = Mapping[tuple[Partition, RowKey], Found]
# For fewer tasks arrays cost more than they save.
COLUMNS_FROM = 16
# The holder does not know how the row stands: it is nobody, or still reads, or has forgotten what is over.
NOT_KNOWN = (None, Asked.UNKNOWN)


class Group(NamedTuple):
    """Rows of one home, each once. `keys`: columns where the call names many."""

    partition: Partition
    keys: Sequence[RowKey]

    def only(self, chosen: Sequence[bool]) -> Group:
        return self if all(chosen) else Group(self.partition, only_of(self.keys, chosen))


class Marked(NamedTuple):
    """`fresh`: see SetMarks. `quiet`: partitions in which nothing has settled that does not know of the marks."""

    fresh: int
    moved: Set[bytes]
    quiet: Set[Partition]


class EndedMany(NamedTuple):
    """`said`: one answer a task, in order; None: it goes the long way. `marked`: digests of those of these that had no
    mark before: what the long way finds of the call there is this try's own."""

    said: Sequence[Cancelled | None]
    marked: Set[bytes] = frozenset()


def end_many(tasks: ManyTasks, outcome: Outcome, request: bytes, now_ms: int = 0) -> Procedure[EndedMany]:
    """`now_ms`: what has expired by then goes the long way; 0: it is as everything else."""
    homes = _home_keys(tasks)
    groups = yield from _plain(_by_home(tasks, homes))
    if outcome is Outcome.CANCELLED and now_ms:
        groups = _without(groups, (yield from _expired(groups, now_ms)))
    if not groups:
        return EndedMany([None] * len(tasks))
    plain, kind = groups, MARK_OF_OUTCOME[outcome]
    marks = _marks(groups, kind, request)
    fresh, moved, quiet = yield from _mark_and_look(groups, marks)
    groups = _without(groups, moved)
    firsts = None
    if fresh != len(marks):
        firsts = _firsts((yield from _rows_of(groups)), kind)
    answers = _Answers()
    unsure: list[tuple[Group, list[HolderAnswer]]] = []
    for group in groups:
        replies: list[HolderAnswer] = yield AskToEndMany(group.partition, group.keys, outcome, request)
        _know(answers, group, replies, request, firsts)
        unsure += _unsure(group, replies)
    yield from _conclude(answers, unsure, request, firsts, quiet)
    said = answers.of(homes)
    return EndedMany(said, _left_of(plain, homes, said))


def _left_of(groups: Sequence[Group], homes: Sequence[RowKey], said: Sequence[Cancelled | None]) -> Set[bytes]:
    """Digests of the rows that have no answer, of which there are few."""
    if None not in said:
        return frozenset()
    left = {key.digest for key, each in zip(homes, said, strict=True) if each is None}
    return left & set(_digests(groups))


class _Answers:
    """Most are said of all rows of a group, and then of all groups alike."""

    def __init__(self) -> None:
        self._of_groups: list[tuple[Group, Cancelled]] = []
        self._of_rows: dict[RowKey, Cancelled] = {}

    def say(self, group: Group, said: Cancelled) -> None:
        self._of_groups.append((group, said))

    def say_each(self, said: Iterable[tuple[RowKey, Cancelled]]) -> None:
        self._of_rows.update(said)

    def of(self, homes: Sequence[RowKey]) -> list[Cancelled | None]:
        said = {said for _, said in self._of_groups}
        if len(said) == 1 and sum(len(group.keys) for group, _ in self._of_groups) == len(homes):
            return [*said] * len(homes)
        for group, each in self._of_groups:
            self._of_rows.update(dict.fromkeys(group.keys, each))
        return list(map(self._of_rows.get, homes))


def _mark_and_look(groups: Sequence[Group], marks: Sequence[Mark]) -> Procedure[Marked]:
    """The marks, then where the tasks are. A partition that nobody held from before the marks until after a look that
    found no settle record of it is quiet: a later holder reads the marks before it sends anything, so it need not
    be asked for its records once more."""
    tasks, partitions = _digests(groups), [group.partition for group in groups]
    vacant: Vacant | None = yield FindVacant(partitions)
    if vacant is None:
        count: int = yield SetMarks(marks)
        looked: Looked = yield LookAt(Look((), tasks))
        return Marked(count, looked.moved, frozenset())
    unheld = [partition for partition in partitions if partition in vacant.partitions]
    count, looked = yield MarkAndLook(marks, Look((), tasks, unheld))
    again: Vacant | None = yield FindVacant(partitions)
    return Marked(count, looked.moved, vacant.partitions - looked.settled if again == vacant else frozenset())


def _home_keys(tasks: ManyTasks) -> Sequence[RowKey]:
    if isinstance(tasks, TaskIds) and len(tasks) >= COLUMNS_FROM:
        return tasks.row_keys()
    keys = [RowKey(task.position_ms, task.digest, 0) for task in tasks]
    return keys if len(keys) < COLUMNS_FROM else RowKeys.of(keys)


def _marks(groups: Sequence[Group], kind: MarkKind, request: bytes) -> Sequence[Mark]:
    columns = [(partition, keys) for partition, keys in groups if isinstance(keys, RowKeys)]
    if len(columns) == len(groups):
        return SameMarks(columns, kind, request)
    return [Mark(partition, key, kind, request) for partition, keys in groups for key in keys]


def _is_one_answer(replies: Sequence[HolderAnswer]) -> bool:
    """Whether it was said once for all of them: nobody holds the partition, or all of them wait there."""
    return _is_one(replies, replies[0])


def _is_one(said: Sequence[object], one: object) -> bool:
    return all(map(is_, said, repeat(one)))


def _by_home(tasks: ManyTasks, keys: Sequence[RowKey]) -> list[Group]:
    if isinstance(keys, RowKeys):
        return _columns_by_home(tasks, keys)
    homes: defaultdict[Partition, dict[RowKey, None]] = defaultdict(dict)
    for task, key in zip(tasks, keys, strict=True):
        homes[task.home][key] = None
    return [Group(partition, list(rows)) for partition, rows in homes.items()]


def _columns_by_home(tasks: ManyTasks, keys: RowKeys) -> list[Group]:
    """In the order of their homes."""
    shards = tasks.columns["shard"] if isinstance(tasks, TaskIds) else np.array([task.shard for task in tasks])
    numbers = keys.positions_ms // BUCKET_MS
    order = np.lexsort((numbers, shards))
    order = order if len(set(keys.digest_list())) == len(keys) else order[_firsts_among(keys, order)]
    numbers, shards, keys = numbers[order], shards[order], keys.only(order)
    is_next = (numbers[1:] != numbers[:-1]) | (shards[1:] != shards[:-1])
    starts = [0, *(np.flatnonzero(is_next) + 1).tolist()]
    homes = zip(numbers[starts].tolist(), shards[starts].tolist(), strict=True)
    ends = [*starts[1:], len(keys)]
    return [
        Group(Partition(TIME_SCOPE, number * BUCKET_MS, shard), keys.only(slice(start, end)))
        for (number, shard), start, end in zip(homes, starts, ends, strict=True)
    ]


def _firsts_among(keys: RowKeys, order: npt.NDArray[np.intp]) -> list[int]:
    """Where each of them stands first: a call may name a task twice."""
    return sorted({keys[at]: n for n, at in reversed(list(enumerate(order.tolist())))}.values())


def _digests(groups: Sequence[Group]) -> Sequence[bytes]:
    columns = [group.keys.digests for group in groups if isinstance(group.keys, RowKeys)]
    if len(columns) == len(groups):
        return TaskDigests(np.concatenate(columns))
    return [key.digest for group in groups for key in group.keys]


def _without(groups: Sequence[Group], moved: Set[bytes]) -> list[Group]:
    if not moved:
        return list(groups)
    left = (group.only([digest not in moved for digest in digests_of(group.keys)]) for group in groups)
    return [group for group in left if group.keys]


def _plain(groups: Sequence[Group]) -> Procedure[list[Group]]:
    """Whose row is at home, unmarked, not over, and whose task was not moved. This chooses the way and decides nothing,
    so all of it is asked for at once."""
    if not groups:
        return []
    partitions = [group.partition for group in groups]
    vacant: Vacant | None = yield FindVacant(partitions)
    unheld = [p for p in partitions if vacant is not None and p in vacant.partitions]
    first = LookAt(Look([(group.partition, places_of(group.keys)) for group in groups], _digests(groups), unheld))
    held = [group for group in groups if group.partition not in unheld]
    looked: Looked
    looked, *said = yield Together([first, *map(_settled_of, held)])
    left = [group for group in groups if group.partition in looked.settled]
    said += (yield Together(list(map(_settled_of, left)))) if left else []
    endings: dict[Partition, list[Ending]] = dict(zip([g.partition for g in (*held, *left)], said, strict=True))
    alive = [
        group.only(_still_alive(bare, endings.get(group.partition)))
        for group, bare in zip(groups, looked.bare, strict=True)
    ]
    return _without([group for group in alive if group.keys], looked.moved)


def _expired(groups: Sequence[Group], now_ms: int) -> Procedure[Set[bytes]]:
    """Digests of what has expired. What is not due has not."""
    due = [
        group.only([key.position_ms <= now_ms for key in group.keys]) for group in groups if _may_be_due(group, now_ms)
    ]
    if not (due := [group for group in due if group.keys]):
        return frozenset()
    found: list[list[Found]] = yield Together([Find(group.partition, list(places_of(group.keys))) for group in due])
    rows = [place.rows for places in found for place in places if len(place.rows)]
    return {each.digests()[0] for each in rows if 0 < each.expiry_ms(0) <= now_ms}


def _may_be_due(group: Group, now_ms: int) -> bool:
    return group.partition.bucket_ms <= now_ms


def _settled_of(group: Group) -> FindSettledMany:
    return FindSettledMany(group.partition, group.keys)


def _still_alive(bare: Sequence[bool], endings: Sequence[Ending] | None) -> Sequence[bool]:
    """Without an answer none has a record."""
    if endings is None or _is_one(endings, NOT_ENDED):
        return bare
    return [is_bare and ending.outcome is None for is_bare, ending in zip(bare, endings, strict=True)]


def _rows_of(groups: Sequence[Group]) -> Procedure[FoundOf]:
    """With the marks that are there now, after ours are durable."""
    found: list[list[Found]] = yield Together([Find(group.partition, list(places_of(group.keys))) for group in groups])
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


def _know(
    answers: _Answers,
    group: Group,
    replies: Sequence[HolderAnswer],
    request: bytes,
    firsts: dict[RowKey, bytes] | None,
) -> None:
    """What the holder decides. What has ended meanwhile goes the long way. Whose cancel it was the marks say, which
    stay: the holder may not have heard of one that came before. `firsts` None: all marks are ours."""
    mine = [True] * len(group.keys) if firsts is None else [firsts.get(key) == request for key in group.keys]
    if not (all(mine) and _is_one_answer(replies)):
        known = zip(group.keys, replies, mine, strict=True)
        each = ((key, _said(reply, mine=is_mine)) for key, reply, is_mine in known)
        answers.say_each((key, said) for key, said in each if said is not None)
    elif (said := _said(replies[0], mine=True)) is not None:
        answers.say(group, said)


def _said(reply: HolderAnswer, *, mine: bool) -> Cancelled | None:
    if reply.asked is Asked.WAITING:
        return Cancelled.CANCELLED if mine else Cancelled.ALREADY_CANCELLED
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
    answers: _Answers,
    unsure: Sequence[tuple[Group, list[HolderAnswer]]],
    request: bytes,
    firsts: dict[RowKey, bytes] | None,
    quiet: Set[Partition],
) -> Procedure[None]:
    """The marks are durable and nobody knows of an end: then the holder that takes the rows in reads the marks. What is
    settled or gone goes the long way. `firsts` None: all marks are ours."""
    if not unsure:
        return
    asked = [_settled_of(group) for group, _ in unsure if group.partition not in quiet]
    settled: list[list[Ending]] = (yield Together(asked)) if asked else []
    found = {each.partition: endings for each, endings in zip(asked, settled, strict=True)}
    for group, replies in unsure:
        endings = found.get(group.partition)
        has_ended = endings is not None and not _is_one(endings, NOT_ENDED)
        if firsts is None and not has_ended and _is_one_answer(replies):
            answers.say(group, Cancelled.IN_FLIGHT if replies[0].in_hand else Cancelled.CANCELLED)
        else:
            each = endings or [NOT_ENDED] * len(replies)
            answers.say_each(_concluded(group, replies, each, request, firsts))


def _concluded(
    group: Group,
    replies: Sequence[HolderAnswer],
    endings: Sequence[Ending],
    request: bytes,
    firsts: dict[RowKey, bytes] | None,
) -> Iterator[tuple[RowKey, Cancelled]]:
    for key, reply, ending in zip(group.keys, replies, endings, strict=True):
        if ending.outcome is not None or (firsts is not None and key not in firsts):
            continue
        mine = firsts is None or firsts[key] == request
        said = Cancelled.CANCELLED if mine else Cancelled.ALREADY_CANCELLED
        yield key, Cancelled.IN_FLIGHT if reply.in_hand else said
