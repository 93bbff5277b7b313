"""One partition machine that is told a story: its facts are made of words, and its effects are said in words.

Rows are named `a@1000`: task a, 1000 ms after the bucket begins. `+1` is an attempt that was used up, `~1` the
generation after a move.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.scenarios.story import Step
from timerd.adapters.memory import MemoryStore
from timerd.core.partition.effects import (
    AskMoves,
    ChangeControl,
    CountRows,
    Effect,
    FailMove,
    FlagFinishing,
    ReadControl,
    ReadPage,
    ReadSettled,
    WriteCarried,
    WriteSettled,
)
from timerd.core.partition.holding import HoldingSettings
from timerd.core.partition.memory import Memory
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.taken import Again, Ended, QueueKey
from timerd.model.identity import RowKey, digest_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.registers import Control, Move, MoveState, Place
from timerd.model.rows import FLAG_CARRIED, FLAG_MOVED_IN, RowGroup, concat, single_row
from timerd.model.settle import Carry, CarryReason, Outcome, SettleRecord, settle_entries
from timerd.model.storage import CasStatus, Mark, MarkKind, Page
from timerd.model.store_traits import StoreTraits
from timerd.model.task import NO_EXTRA, Template

START_MS = 1_800_000_000_000
HERE = Partition(TIME_SCOPE, START_MS, 0)
QUEUE, MAIL = QueueKey("default", "mail"), Template("default", "mail")
MESSAGE = b"message-0123"
FLAGS = {"moved-in": FLAG_MOVED_IN, "carried": FLAG_CARRIED}
GENERATION = 16


def _machine(traits: StoreTraits) -> PartitionMachine:
    remembered = 0 if traits.knows_repeats else 10
    return PartitionMachine(HERE, HoldingSettings("me", remembered=remembered, traits=traits), Memory(1 << 30))


def key_of(name: str) -> RowKey:
    found = re.fullmatch(r"([a-z])@(\d+)(?:~(\d+))?(?:\+(\d+))?", name)
    assert found, name
    task, after_ms, generation, attempts = found.groups()
    return RowKey(START_MS + int(after_ms), digest(task), int(generation or 0) << GENERATION | int(attempts or 0))


def digest(task: str) -> bytes:
    return digest_of(MESSAGE, ord(task) - ord("a"))


NAMES = {digest(chr(letter)): chr(letter) for letter in range(ord("a"), ord("z") + 1)}


def name_of(key: RowKey) -> str:
    return f"{NAMES[key.digest]}@{key.position_ms - START_MS}{_version(key.version)}"


def _version(version: int) -> str:
    generation, attempts = version >> GENERATION, version & ((1 << GENERATION) - 1)
    return (f"~{generation}" if generation else "") + (f"+{attempts}" if attempts else "")


class Rig:
    """`step` tells the machine one step of a story, and returns its answer."""

    def __init__(self) -> None:
        self.machine = _machine(MemoryStore.traits)
        self.now_ms = START_MS + 60_000
        self._record: SettleRecord | None = None
        self._change: Control | None = None
        # What was asked of `moves` when a read began.
        self._asked: dict[bytes, int] = {}
        self._phase = self.machine.phase

    def step(self, step: Step) -> list[str]:
        if "now" in step.options:
            self.now_ms = START_MS + int(step.options["now"])
        tell: Callable[[Step], Sequence[str | Effect]] = getattr(self, "_" + step.name.replace("-", "_"))
        answer = [said if isinstance(said, str) else self._wanted(said) for said in tell(step)]
        if self.machine.phase is not self._phase:
            self._phase = self.machine.phase
            answer.append(f"phase: {self._phase.value}")
        return answer

    def _of_a_store(self, step: Step) -> Sequence[str]:
        """`of-a-store with pages in order` or `without request ids`, before anything else."""
        traits = StoreTraits(pages_in_order=True) if "order" in step.words else MemoryStore.traits
        self.machine = _machine(replace(traits, knows_repeats="ids" not in step.words))
        return []

    # -- facts ----------------------------------------------------------------------------------------------------

    def _hot(self, step: Step) -> Sequence[Effect]:
        """All until the first page is read: `hot`, the fields of the control row that is found, and the page below."""
        self.machine.start()
        stored = _control_of(step.options) if step.options.keys() & {"closing", "verified", "token"} else None
        self.machine.control_read(stored, self.now_ms)
        self.machine.control_changed(CasStatus.APPLIED, self.now_ms)
        self.machine.settled_read([], self.now_ms)
        return self._page(step)

    def _start(self, _: Step) -> Sequence[Effect]:
        return self.machine.start()

    def _control(self, step: Step) -> Sequence[Effect]:
        """`control none`, `control mine` (what it wanted to write), or its fields."""
        stored = None if "none" in step.words else self._change if "mine" in step.words else _control_of(step.options)
        return self.machine.control_read(stored, self.now_ms)

    def _cas(self, step: Step) -> Sequence[Effect]:
        return self.machine.control_changed(CasStatus[step.words[0].upper()], self.now_ms)

    def _records(self, step: Step) -> Sequence[Effect]:
        return self.machine.settled_read([_record_of(line) for line in step.more], self.now_ms)

    def _page(self, step: Step) -> Sequence[Effect]:
        groups, marks = [], []
        for line in step.more:
            kind, *words = line.split()
            if kind == "mark":
                marks.append(Mark(HERE, key_of(words[1]), MarkKind[words[0]], " ".join(words[2:]).encode()))
            else:
                groups.append(_rows_of(line))
        through_ms = START_MS + int(step.options["through"]) if "through" in step.options else 0
        cursor = int(step.options.get("cursor", -7 if through_ms else 0))
        found = Page(groups, marks, cursor, "more" not in step.words, through_ms)
        return self.machine.page_read(found, self.now_ms)

    def _hint(self, step: Step) -> Sequence[str]:
        rows = _rows_of(step.text)
        self.machine.hint(rows, rows.source)
        return []

    def _offer(self, step: Step) -> Sequence[str]:
        rows = _rows_of(step.text)
        return [self.machine.offer(rows, rows.source, is_repeat="repeat" in step.words).value]

    def _cancel(self, step: Step) -> Sequence[str]:
        return self._given(step, Outcome.CANCELLED)

    def _ack_late(self, step: Step) -> Sequence[str]:
        """By the delivery of another attempt: `ack-late ROW REQUEST`."""
        return self._given(step, Outcome.ACKED)

    def _given(self, step: Step, outcome: Outcome) -> Sequence[str]:
        row, request = step.words
        return [f"given by {self.machine.cancel(key_of(row), outcome, request.encode()).decode()}"]

    def _end_met(self, step: Step) -> Sequence[str]:
        self.machine.end_met(key_of(step.words[0]), Outcome.CANCELLED)
        return []

    def _suspend(self, step: Step) -> Sequence[str]:
        self.machine.suspend(digest(step.words[0]))
        return []

    def _read_moves(self, step: Step) -> Sequence[str]:
        """A read begins now; its answer is `moves ... as-read`."""
        task = digest(step.words[0])
        self._asked[task] = self.machine.asking(task)
        return []

    def _moves(self, step: Step) -> Sequence[Effect]:
        """`moves a forgotten`, or `moves a MOVED generation=1 to=2000`."""
        task, state = step.words[:2]
        asked = self._asked if "as-read" in step.words else {digest(task): self.machine.asking(digest(task))}
        return self.machine.moves_read({digest(task): _move_of(task, state, step.options)}, dict(asked))

    def _take(self, step: Step) -> Sequence[str]:
        taken = self.machine.take(QUEUE, int(step.options.get("limit", 100)), self.now_ms)
        return [" ".join(map(name_of, taken.rows.keys())) if taken is not None else "nothing"]

    def _end(self, step: Step) -> Sequence[str]:
        *rows, outcome = step.words
        lsn, missing = self.machine.end([Ended(HERE, key_of(row), Outcome[outcome]) for row in rows])
        not_open = [f"not open: {' '.join(name_of(each.key) for each in missing)}"] if missing else []
        return [f"lsn {lsn}", *not_open]

    def _again(self, step: Step) -> Sequence[str]:
        at_ms = START_MS + int(step.options["at"])
        return [f"lsn {self.machine.again([Again(HERE, key_of(r), at_ms, self.now_ms, 'no') for r in step.words])}"]

    def _guard(self, step: Step) -> Sequence[str]:
        until_ms = START_MS + int(step.options["until"])
        return [f"lsn {self.machine.guard({key_of(r): until_ms for r in step.words}, self.now_ms, CarryReason.GUARD)}"]

    def _put_back(self, step: Step) -> Sequence[str]:
        return ["put back" if self.machine.put_back(key_of(step.words[0])) else "not put back"]

    def _flush(self, _: Step) -> Sequence[Effect]:
        return self.machine.flush()

    def _settled(self, _: Step) -> Sequence[Effect]:
        """The record that was written last is durable."""
        assert self._record is not None
        return self.machine.settled_written(self._record)

    def _carried(self, step: Step) -> Sequence[str]:
        self.machine.carried_written(int(step.words[0]))
        return []

    def _carried_waits(self, step: Step) -> Sequence[str]:
        self.machine.carried_waits(int(step.words[0]))
        return []

    def _tick(self, _: Step) -> Sequence[Effect]:
        return self.machine.tick(self.now_ms)

    def _flagged(self, _: Step) -> Sequence[Effect]:
        return self.machine.flagged()

    def _counted(self, step: Step) -> Sequence[Effect]:
        rows, forwards = int(step.options["rows"]), int(step.options.get("forwards", 0))
        return self.machine.counted(rows, self.now_ms, forwards)

    def _hand_over(self, step: Step) -> Sequence[Effect]:
        return self.machine.hand_over(step.words[0])

    # -- questions ------------------------------------------------------------------------------------------------

    def _ask(self, step: Step) -> Sequence[str]:
        asked, outcome = self.machine.ask(key_of(step.words[0]))
        return [asked.value if outcome is None else f"{asked.value}: {outcome.name}"]

    def _states(self, step: Step) -> Sequence[str]:
        return [f"{row} {self.machine.state_of(key_of(row)).value}" for row in step.words]

    def _marks(self, _: Step) -> Sequence[str]:
        floor_ms, verifiable_ms = self.machine.floor_ms - START_MS, self.machine.verifiable_ms() - START_MS
        return [f"floor={floor_ms} verifiable={verifiable_ms} {'idle' if self.machine.is_idle else 'not idle'}"]

    def _durable(self, _: Step) -> Sequence[str]:
        return [f"through lsn {self.machine.done_through}"]

    # -- effects --------------------------------------------------------------------------------------------------

    def _wanted(self, effect: Effect) -> str:  # noqa: PLR0911 - one for each kind
        match effect:
            case ReadControl():
                return "read the control row"
            case ChangeControl(_, _, value):
                self._change = value
                return f"change the control row: {_said_of(value)}"
            case ReadSettled():
                return "read the settle records"
            case ReadPage(_, lo_ms, _, cursor):
                return f"read a page from={lo_ms - START_MS} cursor={cursor}"
            case WriteSettled(record):
                self._record = record
                return f"write record {record.sequence}: {', '.join(_endings(record))}"
            case WriteCarried(_, sequence, groups, given):
                marks = [f"with mark {mark.kind.name} {name_of(mark.key)}" for mark in given]
                return "; ".join([f"write the rows of record {sequence}: {', '.join(_rows(groups))}", *marks])
            case AskMoves(_, digests):
                return f"ask moves: {' '.join(NAMES[each] for each in digests)}"
            case FailMove(_, task, _):
                return f"fail the move of {NAMES[task]}"
            case FlagFinishing():
                return "flag the bucket as finishing"
            case CountRows(_, again):
                return "count the rows again" if again else "count the rows"


def _control_of(fields: dict[str, str]) -> Control:
    closing_ms, verified_ms = (START_MS + int(fields.get(name, 0)) for name in ("closing", "verified"))
    finished_ms = START_MS + int(fields["finished"]) if "finished" in fields else 0
    token, holder = int(fields.get("token", 5)), fields.get("holder", "old")
    return Control(token, holder, "", closing_ms, verified_ms, finished_at_ms=finished_ms)


def _record_of(line: str) -> SettleRecord:
    """`record 0 token=5: a@1000 ACKED, b@1000 CARRIED to 9000+1`"""
    head, _, tail = line.partition(":")
    fields = dict(word.partition("=")[::2] for word in head.split()[2:])
    endings, carries = [], []
    for said in tail.split(","):
        row, outcome, *to = said.split()
        endings.append((key_of(row), Outcome[outcome]))
        if to:
            place = key_of(f"{row[0]}@{to[1]}")
            reason = CarryReason.RETRY if place.version > key_of(row).version else CarryReason.GUARD
            carries.append(Carry(key_of(row), reason, HERE, place.position_ms, place.version))
    return SettleRecord(
        HERE, int(fields.get("token", 5)), int(head.split()[1]), settle_entries(endings), tuple(carries)
    )


def _rows_of(line: str) -> RowGroup:
    """`rows a@1000 b@2000 source=3 moved-in`"""
    words = line.split()[1:]
    flags = sum(FLAGS.get(word, 0) for word in words)
    keys = [key_of(word) for word in words if "@" in word]
    group = concat([single_row(key, key.position_ms, MAIL, b"body", NO_EXTRA, flags) for key in keys])
    options = dict(word.partition("=")[::2] for word in words if "=" in word)
    group.source = int(options.get("source", 0))
    return group


def _move_of(task: str, state: str, fields: dict[str, str]) -> Move | None:
    if state == "forgotten":
        return None
    generation, source = int(fields.get("generation", 1)), Place(HERE, key_of(f"{task}@1000"))
    target = Place(HERE, key_of(f"{task}@{fields.get('to', '2000')}~{generation}"))
    at_ms = target.key.position_ms
    return Move(generation, MoveState[state], source, target, "r", at_ms, at_ms)


def _said_of(value: Control) -> str:
    counts = " ".join(f"{Outcome(outcome).name}={rows}" for outcome, rows in value.counts)
    told = [
        f"token={value.token}",
        f"closing={value.closing_ms - START_MS}",
        f"verified={value.verified_ms - START_MS}",
    ]
    told += ["nobody holds it"] if not value.holder else []
    told += [f"successor={value.successor}"] if value.successor else []
    told += [f"finished inserted={value.inserted}"] if value.finished else []
    return " ".join([*told, counts]).strip()


def _endings(record: SettleRecord) -> Iterator[str]:
    to = {carry.source: carry for carry in record.carries}
    for key, outcome in record.outcomes():
        carry = to.get(key)
        where = f" to {carry.position_ms - START_MS}{_version(carry.version)}" if carry is not None else ""
        yield f"{name_of(key)} {outcome.name}{where}"


def _rows(groups: Sequence[tuple[Partition, RowGroup]]) -> Iterator[str]:
    for partition, group in groups:
        bucket = (partition.bucket_ms - START_MS) // BUCKET_MS
        where = "to the backlog" if partition.scope != TIME_SCOPE else f"to bucket {bucket}" if bucket else "here"
        flags = [" ".join(name for name, flag in FLAGS.items() if int(bits) & flag) for bits in group.columns["flags"]]
        named = [f"{name_of(key)} {flag}".strip() for key, flag in zip(group.keys(), flags, strict=True)]
        yield f"{' '.join(named)} {where}"
