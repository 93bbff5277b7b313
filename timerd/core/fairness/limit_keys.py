"""Whose turn it is among the limit keys of each queue, over all partitions of an instance.

Due rows of a queue that has limit keys are filed here by their keys, and a take picks them in turn: a key that has a
hundred thousand due delays the others by no more than what they have due themselves. A key that has as much in hand as
its limit or its share allows is not looked at until something of it ends. A queue without limit keys is not here, but
for one that goes by deadlines: of that no key takes turns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple, Protocol

from timerd.core.fairness.deadlines import DeadlineOrder, DeadlineTurn, Pick
from timerd.core.fairness.lines import FiledChunk, KeyLine, runs_of
from timerd.core.fairness.turns import Turns
from timerd.core.taken import QueueKey
from timerd.model.partition import Partition


class KeyRoom(NamedTuple):
    """How many `tasks` of a key may go. Of none: when to ask again, infinite: when something of it has ended.
    `is_shared`: nothing but the key's share of the queue keeps it back. `limit`: the limit with a name that keeps it
    back; empty: a rule of the queue does. Where the queue itself may start few: `draws`, the key gets a token for one
    of them when it waits; `may`, there is one for it, as far as is known."""

    tasks: int
    next_ms: float
    is_shared: bool = False
    limit: str = ""
    draws: bool = False
    may: bool = False

    @property
    def stays(self) -> bool:
        """It waits for nothing but the queue."""
        return bool(self.tasks) or (self.may and not self.draws and self.next_ms == math.inf)


# So many keys are asked for at a time of which nothing is known; and so many are looked at in all.
ASKED_FOR, LOOKED_AT = 16, 256
# Others are asked for where these have not answered by then.
ANSWER_MS = 10


class KeyLimits(Protocol):
    """What the rules of a queue allow its keys."""

    def rules(self, queue: QueueKey) -> object:
        """By what the keys of the queue go: another object, other rules."""
        ...

    def share(self, queue: QueueKey) -> int:
        """How many deliveries a key may have in hand, as its share of the queue."""
        ...

    def room(self, queue: QueueKey, limit_key: str, picked: int, now_ms: int) -> KeyRoom:
        """How many of a key may go, when so many are about to be sent already."""
        ...

    def weight(self, queue: QueueKey, limit_key: str, now_ms: int) -> float:
        """How many turns the key has for one of a key of weight one."""
        ...

    def sent(self, queue: QueueKey, limit_key: str, tasks: int, now_ms: int) -> None:
        """So many of the key start."""
        ...

    def on_less(self, queue: QueueKey, limit_key: str, told: Callable[[], None]) -> None:
        """`told` is called once, when fewer of the key are in hand."""
        ...


class NoKeyLimits:
    """Implements KeyLimits where keys take turns and nothing else."""

    def rules(self, _: QueueKey) -> object:
        return None

    def share(self, _: QueueKey) -> int:
        return 0

    def room(self, _: QueueKey, __: str, ___: int, ____: int) -> KeyRoom:
        return KeyRoom(1 << 30, math.inf)

    def weight(self, queue: QueueKey, limit_key: str, now_ms: int) -> float:
        return 1.0

    def sent(self, queue: QueueKey, limit_key: str, tasks: int, now_ms: int) -> None:
        """Nothing is counted."""

    def on_less(self, queue: QueueKey, limit_key: str, told: Callable[[], None]) -> None:
        """Nothing is waited for."""


class LimitKeys:
    """Of one instance. `queues`: those of which a task with a limit key was in memory, and those that go by deadlines.
    `touched`: hears of queues of which something may be sent that could not before."""

    def __init__(self, touched: set[QueueKey]) -> None:
        self.queues: set[QueueKey] = set()
        self.limits: KeyLimits = NoKeyLimits()
        # How often a key of a queue had to wait for the limit of that name; of an empty name, for a rule of the queue.
        self.waits: Counter[tuple[QueueKey, str]] = Counter()
        self._touched = touched
        self._turns: dict[QueueKey, Turns] = {}
        self._by_deadline: dict[QueueKey, DeadlineOrder] = {}
        self._takes = 0
        self._given: Callable[[], None] = lambda: None
        self._gives: Callable[[Partition], bool] = lambda _: True

    def goes_by(self, limits: KeyLimits) -> None:
        """From now on."""
        self.limits = limits
        for turns in self._turns.values():
            turns.release()

    def on_given(self, given: Callable[[], None], gives: Callable[[Partition], bool]) -> None:
        """`given` is called when something may be sent that waited for its key. `gives`: whether rows of the partition
        are sent now."""
        self._given, self._gives = given, gives

    def has_turns(self, queue: QueueKey) -> bool:
        """Whether its keys are told apart."""
        return queue in self.queues and queue not in self._by_deadline

    def go_by_deadlines(self, queue: QueueKey, *, is_so: bool) -> None:
        """From now on. What was filed by another order is filed anew."""
        before = self._by_deadline.get(queue)
        if is_so == (before is not None):
            return
        for chunk in before.chunks() if before is not None else self._turns.get(queue, Turns()).chunks():
            chunk.home.give_back(chunk)
        if is_so:
            self._by_deadline[queue] = DeadlineOrder()
            self.queues.add(queue)
        else:
            del self._by_deadline[queue]

    # -- what waits -----------------------------------------------------------------------------------------------

    def add(self, chunk: FiledChunk) -> None:
        """These rows wait for their turn."""
        if (by_deadline := self._by_deadline.get(chunk.queue)) is not None:
            by_deadline.add(chunk)
            return
        turns = self._turns.get(chunk.queue)
        if turns is None:
            turns = self._turns[chunk.queue] = Turns()
        for limit_key, run in runs_of(chunk).items():
            turns.line(limit_key).file(run)

    def lose(self, queue: QueueKey, limit_keys: Counter[str]) -> None:
        """So many rows of each wait here no more, and were not picked."""
        if (by_deadline := self._by_deadline.get(queue)) is not None:
            by_deadline.lose(limit_keys.total())
            return
        turns = self._turns[queue]
        for limit_key, rows in limit_keys.items():
            turns.lines[limit_key].rows -= rows
        turns.drop_empty()

    def next_ms(self, queue: QueueKey) -> float:
        """When something that waits here may be sent; infinite: when something has ended, or nothing waits."""
        if (by_deadline := self._by_deadline.get(queue)) is not None:
            return -math.inf if by_deadline.rows else math.inf
        turns = self._turns.get(queue)
        if turns is None:
            return math.inf
        if turns.blocked and (share := self.limits.share(queue)) > turns.share_was:
            turns.share_was = share
            turns.release_shared()
        return turns.next_ms()

    def head_order(self, queue: QueueKey) -> int | None:
        """By what the row goes whose turn it is; None: none may be sent."""
        if (by_deadline := self._by_deadline.get(queue)) is not None:
            return by_deadline.head_order()
        turns = self._turns.get(queue)
        line = turns.first(-math.inf) if turns is not None else None
        head = line.head() if line is not None else None
        return None if head is None else int(head[0].order[head[1]])

    def waiting(self, queue: QueueKey, limit_key: str) -> int:
        """How many rows of a key are due."""
        turns = self._turns.get(queue)
        line = turns.lines.get(limit_key) if turns is not None else None
        return 0 if line is None else line.rows

    def held(self, queue: QueueKey, now_ms: int) -> Collection[KeyLine]:
        """Keys with due rows that may send none of them now."""
        turns = self._turns.get(queue)
        return turns.held(now_ms) if turns is not None and self.has_turns(queue) else ()

    def opens_ms(self, queue: QueueKey, draws: int, now_ms: int) -> float:
        """When a key may go whose turn is next, as far as is known: not later than `now_ms`, one may. What is not known
        is asked for, and up to so many keys draw a token."""
        if not self.has_turns(queue):
            return -math.inf
        turns = self._turns.get(queue)
        if turns is None:
            return math.inf
        is_there, is_asked, left = False, False, draws or ASKED_FOR
        for _ in range(LOOKED_AT):
            if not left or (line := turns.first(now_ms)) is None:
                break
            room = self.limits.room(queue, line.limit_key, 0, now_ms)
            if room.stays:
                return -math.inf
            turns.rest(line)
            self.wait(queue, turns, line, room)
            is_there, is_asked = is_there or room.may, is_asked or room.next_ms == math.inf
            left -= room.draws if draws else room.next_ms == math.inf
        return -math.inf if is_there else max(now_ms + (ANSWER_MS if is_asked else 1), turns.next_ms())

    # -- whose turn it is -----------------------------------------------------------------------------------------

    def turn(self, queue: QueueKey, now_ms: int) -> KeyTurn | DeadlineTurn:
        """One take."""
        if (by_deadline := self._by_deadline.get(queue)) is not None:
            return DeadlineTurn(by_deadline, self.gives, now_ms)
        turns = self._turns.get(queue)
        if turns is None:
            turns = self._turns[queue] = Turns()
        rules, share = self.limits.rules(queue), self.limits.share(queue)
        if rules is not turns.rules:
            turns.release()
        elif share > turns.share_was:
            turns.release_shared()
        turns.rules, turns.share_was = rules, share
        self._takes += 1
        return KeyTurn(self, queue, turns, self._takes, now_ms)

    def gives(self, partition: Partition) -> bool:
        return self._gives(partition)

    def wait(self, queue: QueueKey, turns: Turns, line: KeyLine, room: KeyRoom) -> None:
        """A key that may send nothing."""
        line.is_shared, line.held_by = room.is_shared, room.limit
        self.waits[queue, room.limit] += 1
        turns.wait(line, room.next_ms)
        if room.next_ms == math.inf:
            self.limits.on_less(queue, line.limit_key, partial(self._less, queue, line.limit_key))

    def opened(self, queue: QueueKey) -> None:
        """What keeps keys of the queue back may be over."""
        if (turns := self._turns.get(queue)) is not None:
            turns.release()

    def _less(self, queue: QueueKey, limit_key: str) -> None:
        """Workers have less of the key than they had."""
        turns = self._turns[queue]
        line = turns.lines.get(limit_key)
        if line is not None and line in turns.blocked:
            turns.ready(line)
            self._touched.add(queue)
            self._given()


class KeyTurn:
    """One take of a queue: keys in turn, as far as each may go."""

    def __init__(self, keys: LimitKeys, queue: QueueKey, turns: Turns, number: int, now_ms: int) -> None:
        self._keys, self._queue, self._turns = keys, queue, turns
        self._number, self._now_ms = number, now_ms
        self._picked: dict[str, tuple[KeyLine, int]] = {}
        self._spent: list[KeyLine] = []
        # How many have nothing and draw a token for one of the starts.
        self._drawing = 0

    def pick(self, most: int) -> list[Pick]:
        """Up to so many rows, whose turn it is; they wait no more."""
        turns, picks = self._turns, list[Pick]()
        self._picked = {}
        while len(picks) + self._drawing < most and (line := turns.first(self._now_ms)) is not None:
            room = self._room(line)
            if not room:
                turns.rest(line)
                self._spent.append(line)
            elif found := self._next(line, turns.lead(min(most - len(picks) - self._drawing, room, line.rows))):
                picks += found
                self._count(line, len(found))
                turns.pay(line, len(found))
        return picks

    def arranged(self, picks: list[Pick]) -> list[Pick]:
        """As they are to be delivered: rows of one key lie side by side."""
        return sorted(picks, key=lambda pick: (pick[0].home.partition, id(pick[0]), pick[0].limit_key(pick[1])))

    def taken(self, sent: Counter[str]) -> None:
        """Of what was picked last, so many of each key are sent; the others were not to be sent, and take no turn."""
        for limit_key, (line, picked) in self._picked.items():
            if unsent := picked - sent[limit_key]:
                line.picked -= unsent
                line.room += unsent
                self._turns.refund(line, unsent)
            if sent[limit_key]:
                self._keys.limits.sent(self._queue, limit_key, sent[limit_key], self._now_ms)

    def end(self) -> None:
        """All of it was said."""
        for line in self._spent:
            room = self._keys.limits.room(self._queue, line.limit_key, line.picked, self._now_ms)
            if room.stays:
                self._turns.ready(line)
            elif self._turns.lines.get(line.limit_key) is line:
                self._keys.wait(self._queue, self._turns, line, room)

    def _room(self, line: KeyLine) -> int:
        if line.take != self._number:
            line.take, line.picked = self._number, 0
            line.weight = self._keys.limits.weight(self._queue, line.limit_key, self._now_ms)
            room = self._keys.limits.room(self._queue, line.limit_key, 0, self._now_ms)
            line.room = room.tasks
            self._drawing += room.draws and not room.tasks
        return line.room

    def _count(self, line: KeyLine, rows: int) -> None:
        line.room -= rows
        line.picked += rows
        _, before = self._picked.get(line.limit_key, (line, 0))
        self._picked[line.limit_key] = line, before + rows

    def _next(self, line: KeyLine, most: int) -> list[Pick]:
        """The next rows of a key. A partition that gives nothing now gets back what was filed of it: then there may be
        none."""
        found: list[Pick] = []
        while len(found) < most and (head := line.head()) is not None:
            chunk, row = head
            if not self._keys.gives(chunk.home.partition):
                chunk.home.give_back(chunk)
                break
            chunk.remove(row)
            line.rows -= 1
            found.append(head)
        return found
