"""Judges a history by what was promised (docs/understand/guarantees.md, G1-G9). It sees calls, replies and deliveries,
and knows neither machine nor store.

A task may be delivered when its instant has come (G4), at an instant that was asked for (G8), unless somebody has it in
hand (G5), its end was confirmed (G5), a cancel was answered (G7) or its schedule was refused (G2). When all has run out
each stored task has an end, and one that somebody gave it (G1, G3).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tests.simulator.answers import Answers
from tests.simulator.events import (
    Broke,
    Called,
    Confirmed,
    Delivered,
    Event,
    Held,
    Lost,
    Overdrawn,
    Replied,
    Said,
    Server,
    Settled,
    Verb,
)
from tests.simulator.keys import Keys
from tests.simulator.known import InHand, Known
from tests.simulator.lost import GRACE_MS, LostOnTheWay
from tests.simulator.order import Order
from timerd.core.dispatch.redelivery_gate import RETURN_MS

# A stop that took so long was not waited for by all: what it left open may come again, as after a crash.
CLEAN_STOP_MS = 5_000
# The server counts leases in whole milliseconds.
ROUNDED_MS = 1
LIVE = ("PENDING", "IN_FLIGHT", "RETRYING")

# Of one delivery only one of the two is so.
CONTRADICTIONS = frozenset((("ack", "its reject was confirmed"), ("reject", "its ack was confirmed")))
# A worker says it again each 200 ms: no fault of these histories lasts for ten minutes.
MOST_PUT_OFF = 3_000


class Checker:
    """`broken`: sentences, with the number of the event that each speaks of."""

    def __init__(self, *, ordered: bool) -> None:
        self.broken: list[tuple[int, str]] = []
        self._ordered = ordered
        self._tasks: dict[str, Known] = {}
        self._calls: dict[int, Called] = {}
        self._answers = Answers()
        # Tries of a cancel that were not refused, by request.
        self._cancelling: defaultdict[str, set[int]] = defaultdict(set)
        self._settled: dict[tuple[str, int], Settled] = {}
        # How often a worker was told to say it again.
        self._put_off: Counter[tuple[str, int]] = Counter()
        self._tokens: defaultdict[str, int] = defaultdict(int)
        self._keys = Keys()
        self._order = Order()
        self._lost = LostOnTheWay()
        self._at = 0
        self._now_ms = 0.0
        self._stopping_ms = self._crashed_ms = 0.0
        self._is_stopping = False
        # How each task stood when all had run out.
        self._looks: dict[str, str] = {}
        self._all_over = False
        self._connected: set[str] = set()

    # By how much the clocks may differ of who judges an expiry, and who looks.
    _clocks_apart_ms = 1.0

    @property
    def _is_shaken(self) -> bool:
        """Whether a fault was a short while ago, so that holders may not answer."""
        return False

    @property
    def judged_orders(self) -> int:
        return self._order.judged

    def judge(self, events: Iterable[Event]) -> list[tuple[int, str]]:
        for self._at, event in enumerate(events):
            self._now_ms = event.at_ms
            match event:
                case Called():
                    self._called(event)
                case Replied():
                    self._replied(event, self._calls[event.call])
                case Delivered():
                    self._delivered(event)
                case Settled():
                    self._say(event)
                case Confirmed():
                    self._confirmed(event)
                case Held():
                    self._held(event)
                case Lost():
                    self._release(event.worker, event.delivery_ids)
                case Broke():
                    self._broke(event)
                case Server():
                    self._server(event)
                case Overdrawn():
                    self._wrong(f"G9: {event.worker} got {event.name} without having given credit for it")
                case _:
                    self._other(event)
        self._close()
        return self.broken

    def _other(self, event: Event) -> None:
        """Of one instance nothing else is seen."""

    def _wrong(self, sentence: str) -> None:
        self.broken.append((self._at, sentence))

    # -- callers --------------------------------------------------------------------------------------------------

    def _called(self, called: Called) -> None:
        """A repeat of what was answered changes nothing."""
        self._calls[called.call] = called
        for name, wanted in zip(called.names, called.wanted, strict=False):
            task = self._tasks.setdefault(name, Known(name, wanted, first_ms=called.asked_ms or called.at_ms))
            task.schedules.add(called.call)
            self._keys.asked(called, task, wanted)
        if called.verb is Verb.CANCEL:
            self._cancelling[called.request].add(called.call)
        if called.key:
            self._keys.cancel_asked(called)
        for task in self._of(called):
            if called.verb is Verb.CANCEL and not self._answers.is_answered(called):
                task.cancels.add(called.request)
            elif called.verb in (Verb.MOVE, Verb.REDRIVE):
                changes = task.moves if called.verb is Verb.MOVE else task.redrives
                before = set(task.attempts)
                changes.asked(called.call, called.request, called.fire_at_ms, called.at_ms, called.asked_ms, before)
                task.redriven()

    def _of(self, called: Called) -> list[Known]:
        return [self._tasks[name] for name in called.names]

    def _replied(self, replied: Replied, called: Called) -> None:
        is_repeat = self._answers.is_answered(called)
        for sentence in self._answers.compared(called, replied):
            self._wrong(sentence)
        match called.verb:
            case Verb.SCHEDULE:
                self._scheduled(replied, called)
            case Verb.CANCEL:
                self._cancelled(replied, called)
            case Verb.MOVE if not is_repeat:
                self._moved(replied, called)
            case Verb.REDRIVE:
                self._redriven(replied, called)
            case Verb.GET:
                self._looked(replied, called)

    def _scheduled(self, replied: Replied, called: Called) -> None:
        # A row of a try that had reserved the key before the later call may be on its way.
        is_alone = self._keys.is_alone(called)
        first_ms = self._keys.answered(called, replied)
        for n, task in enumerate(self._of(called)):
            if replied.said is Said.UNKNOWN:
                continue
            answer = replied.answers[n] if replied.said is Said.OK else replied.answers[0]
            if (other := self._tasks.get(answer.removeprefix("kept "))) is not None:
                self._kept(task, other, min(first_ms, called.asked_ms or first_ms))
            task.overtaken |= is_alone and "OVERTAKEN" in answer
            if answer == "stored":
                self._stored(task, replied, first_ms)
            else:
                task.refused.add(called.call)

    def _stored(self, task: Known, replied: Replied, first_ms: float) -> None:
        if task.stored:
            return
        task.stored_ms, task.was_sent_first = replied.at_ms, task.delivered > 0
        self._order.stored(task)
        for other in self._keys.replaced_by(task, first_ms):
            other.replaced |= not other.over
            self._end(other, f"{task.name} took its key over")
        for other in self._keys.unsent_before(task, first_ms):
            self._end(other, f"it had expired and {task.name} got its key")

    def _kept(self, task: Known, other: Known, made_ms: float) -> None:
        """What has expired keeps no key, unless a worker has it, or it may be on its way there. A repeat says what was
        said of it when the call was made."""
        expired_ms = other.wanted.expire_at_ms + self._clocks_apart_ms
        is_over = other.wanted.expire_at_ms and expired_ms <= made_ms and not self._is_shaken
        if is_over and not (other.delivered or self._lost.may_be(other, self._now_ms)):
            self._wrong(f"G7: {other.name} has expired, and kept its key from {task.name}")

    def _end(self, task: Known, why: str) -> None:
        if not task.over:
            task.over, task.over_ms = why, self._now_ms

    def _cancelled(self, replied: Replied, called: Called) -> None:
        if called.key:
            self._keys.cancel_answered(called, replied)
        # Where the holder was silent the cancel is stored.
        if replied.said is Said.NOT_DONE and replied.answers[0] != "HOLDER_SILENT":
            self._cancelling[called.request].discard(called.call)
        names = replied.ids if called.key else called.names
        for n, task in enumerate(self._tasks[name] for name in names if name in self._tasks):
            if replied.said is Said.OK:
                self._cancel_answered(task, replied.answers[n], called)
            elif not self._cancelling[called.request]:
                task.cancels.discard(called.request)

    def _cancel_answered(self, task: Known, answer: str, called: Called) -> None:
        if answer in ("CANCELLED", "ALREADY_CANCELLED", "IN_FLIGHT"):
            self._end(task, answer)
        if answer == "ALREADY_CANCELLED" and not task.cancels - {called.request}:
            self._wrong(f"G7: {task.name} is said to be cancelled already, and nobody has done it")
        if answer in ("IN_FLIGHT", "ALREADY_FIRED") and not (self._was_sent(task, answer) or task.wanted.expire_at_ms):
            self._wrong(f"G7: {answer} of {task.name}, which was never delivered")
        if answer == "ALREADY_FIRED" and not self._has_end(task):
            self._wrong(f"G7: {task.name} is said to have fired, and no worker has ended it")
        if answer == "NOT_FOUND":
            self._not_found(task, called)

    def _not_found(self, task: Known, called: Called) -> None:
        """By its key a task may be looked for before its call is answered; a repeat says what was said then."""
        is_repeat = called.request in task.not_found_by
        if task.stored and task.stored_ms <= called.at_ms and not is_repeat:
            self._wrong(f"G7: {task.name} was stored and is not found")
        task.not_found_by.add(called.request)

    def _was_sent(self, task: Known, answer: str) -> bool:
        return task.delivered > 0 or (answer == "IN_FLIGHT" and self._lost.may_be(task, self._now_ms))

    def _moved(self, replied: Replied, called: Called) -> None:
        [task] = self._of(called)
        if replied.said is Said.NOT_DONE:
            task.moves.of[called.request].overtaken |= "OVERTAKEN" in replied.answers
            task.moves.refused(called.call, called.request)
        if replied.said is not Said.OK:
            return
        move, fire_at_ms = task.moves.of[called.request], int(replied.answers[0])
        if fire_at_ms not in move.tries.values():
            self._wrong(f"G8: {task.name} was moved to {set(move.tries.values())}, and the reply says {fire_at_ms}")
        if task.over in ("CANCELLED", "ALREADY_CANCELLED") and task.over_ms < move.first_ms:
            self._wrong(f"G8: {task.name} was moved after {task.over}")
        move.fire_at_ms, move.answered_ms = fire_at_ms, self._now_ms
        for delivery_id in move.before:
            task.end(delivery_id, f"it was moved ({called.request})", self._now_ms)

    def _redriven(self, replied: Replied, called: Called) -> None:
        [task] = self._of(called)
        change = task.redrives.of.get(called.request)
        if change is None or change.is_answered or replied.said is Said.UNKNOWN:
            return
        if replied.answers[0] == "True":
            change.answered_ms = self._now_ms
            if not task.delivered:
                self._wrong(f"G8: {task.name} lives again, and was never delivered")
        else:
            task.redrives.refused(called.call, called.request)
        task.redriven()

    def _looked(self, replied: Replied, called: Called) -> None:
        [task] = self._of(called)
        if self._all_over:
            self._looks[task.name] = replied.answers[0]
        if replied.said is Said.NOT_DONE and replied.answers[0] == "NOT_FOUND" and task.stored:
            self._wrong(f"G1: {task.name} was stored and is not found")
        if replied.said is Said.OK:
            self._told_of_expiry(task, replied.answers[0], called)
        if replied.said is Said.OK and replied.answers[0] == "ACKED":
            self._end(task, "it was said to be acknowledged")

    def _told_of_expiry(self, task: Known, state: str, called: Called) -> None:
        """What is said to have expired is not sent after that; what has, and was never sent, is said to have. What was
        sent and has failed has expired as soon as no attempt could begin in time."""
        ends_ms = task.wanted.expire_at_ms
        if state == "EXPIRED":
            self._end(task, "it was said to have expired")
            if ends_ms > self._now_ms + self._clocks_apart_ms and not task.delivered:
                self._wrong(f"G7: {task.name} is said to have expired before its time")
        is_over = ends_ms and ends_ms + self._clocks_apart_ms <= called.at_ms and not self._is_shaken
        if task.wanted.expire_after_ms and not task.is_where_it_was:
            # Its expiry has gone along, to an instant that is not known for sure.
            return
        if state in ("PENDING", "RETRYING") and is_over and not task.delivered:
            self._wrong(f"G7: {task.name} has expired, and is said to be {state}")

    # -- workers --------------------------------------------------------------------------------------------------

    def _delivered(self, got: Delivered) -> None:
        task = self._tasks.get(got.name)
        if task is None:
            self._wrong(f"G3: {got.name} was delivered, and nobody scheduled it")
            return
        self._may_start(task, got)
        self._numbered(task, got)
        task.came_ms[got.delivery_id] = got.at_ms
        self._connected.add(got.worker)
        self._in_hand(task, got)
        task.delivered += 1
        for other in self._order.passed_over(task, got) if self._ordered else ():
            self._wrong(f"G9: {task.name} was delivered before {other.name}, whose turn it was")

    def _numbered(self, task: Known, got: Delivered) -> None:
        if got.token < self._tokens[got.scope]:
            self._wrong(f"G6: the fencing token of {got.scope} went back to {got.token}")
        self._tokens[got.scope] = got.token
        if got.attempt < task.attempts.get(got.delivery_id, 0):
            self._wrong(f"G6: {task.name} came as attempt {got.attempt} after a later one")
        task.attempts[got.delivery_id] = got.attempt

    def _in_hand(self, task: Known, got: Delivered) -> None:
        until_ms = task.leases[got.delivery_id] = (got.sent_ms or got.at_ms) + got.lease_ms - ROUNDED_MS
        task.in_hand, task.acking = InHand(got.worker, got.delivery_id, got.attempt, until_ms), False
        task.attempt_of[got.worker, got.delivery_id] = got.attempt

    def _may_start(self, task: Known, got: Delivered) -> None:
        if got.fire_at_ms > (got.sent_ms or got.at_ms):
            self._wrong(f"G4: {task.name} came {got.fire_at_ms - got.at_ms:.3f} ms early")
        if task.overtaken:
            self._wrong(f"G2: {task.name} was delivered, and its call was refused as overtaken")
        if task.refused == task.schedules:
            self._wrong(f"G2: {task.name} was delivered, and every call that scheduled it was told that it is not done")
        self._is_its_turn(task, got)

    def _is_its_turn(self, task: Known, got: Delivered) -> None:
        if got.fire_at_ms not in task.asked and not any(lo - 1 <= got.fire_at_ms <= hi for lo, hi in task.between):
            self._wrong(f"G8: {task.name} came for an instant that it was moved away from, or never to")
        expires_ms = task.wanted.expiry_ms(got.fire_at_ms)
        if 0 < expires_ms <= got.at_ms:
            self._wrong(f"G4: {task.name} was delivered {got.at_ms - expires_ms:.3f} ms after it expired")
        if task.over and not task.may_live_again(got):
            self._wrong(f"G7: {task.name} was delivered after {task.over}")
        if got.delivery_id in task.ended:
            self._wrong(f"G5: {task.name} was delivered although {task.ended[got.delivery_id]}")
        if task.in_hand is not None and (task.acking or task.in_hand.keeps_from(got)):
            self._wrong(f"G5: {task.name} was delivered while {task.in_hand.worker} had it in hand")

    def _say(self, said: Settled) -> None:
        task = self._tasks[said.name]
        self._settled[said.worker, said.sequence] = said
        task.acked |= said.action == "ack"
        task.rejected |= said.action == "reject"
        task.failed += said.action == "nack"
        if said.action == "reject" or (said.action == "nack" and said.attempt >= task.wanted.max_attempts):
            task.given_up.setdefault(said.delivery_id, said.at_ms)
        task.unconfirmed[said.worker, said.sequence] = said
        if said.action != "ack":
            self._failed(task, said)
        elif (had := task.in_hand) is not None and had.delivery_id == said.delivery_id and said.at_ms < had.until_ms:
            # Of another delivery, as before a redrive, it says nothing about this one.
            task.acking = had.worker == said.worker and said.worker in self._connected

    def _failed(self, task: Known, said: Settled) -> None:
        if task.in_hand is not None and task.in_hand.is_of(said):
            task.in_hand = None

    def _confirmed(self, confirmed: Confirmed) -> None:
        said = self._settled[confirmed.worker, confirmed.sequence]
        task = self._tasks[said.name]
        if confirmed.again:
            self._put_off[confirmed.worker, confirmed.sequence] += 1
            if self._put_off[confirmed.worker, confirmed.sequence] == MOST_PUT_OFF:
                self._wrong(f"G18: the {said.action} of {task.name} was put off {MOST_PUT_OFF} times")
        else:
            task.unconfirmed.pop((confirmed.worker, confirmed.sequence), None)
        if confirmed.refused:
            task.acking = False
            return
        before = task.ended.get(said.delivery_id, "")
        if (said.action, before) in CONTRADICTIONS:
            self._wrong(f"G18: the {said.action} of {task.name} was confirmed although {before}")
        if said.action == "ack":
            task.end(said.delivery_id, "its ack was confirmed", self._now_ms)
            if task.in_hand is not None and task.in_hand.delivery_id == said.delivery_id:
                task.in_hand, task.acking = None, False
        elif said.action == "reject" and said.attempt == task.attempts[said.delivery_id]:
            task.end(said.delivery_id, "its reject was confirmed", self._now_ms)

    def _held(self, held: Held) -> None:
        """A server that is going away may have handed the leases over already: nobody hears of one that is extended
        then, and its worker, who sees the stream end, comes back before it would have had to be extended again."""
        self._connected.add(held.worker)
        if self._is_stopping:
            return
        until_ms = held.at_ms + held.lease_ms - ROUNDED_MS
        for task, delivery_id in self._with(held.delivery_ids):
            known, had_ms = task.in_hand, task.leases[delivery_id]
            task.leases[delivery_id] = max(until_ms, had_ms)
            lapsed = held.resumed and held.at_ms >= had_ms
            if known is None and held.resumed and delivery_id not in task.ended:
                attempt = task.attempt_of.get((held.worker, delivery_id), 1)
                task.in_hand = self._brought(task, InHand(held.worker, delivery_id, attempt, until_ms, lapsed=lapsed))
            elif known is not None and known.worker == held.worker and (known.delivery_id == delivery_id or not lapsed):
                if held.at_ms >= known.until_ms:
                    known.silent_ms = known.until_ms, held.at_ms
                known.delivery_id, known.until_ms = delivery_id, max(until_ms, known.until_ms)
                known.lapsed |= lapsed

    def _brought(self, task: Known, in_hand: InHand) -> InHand | None:
        """What came before a crash is not known to the server before its worker comes back: until then nothing holds
        back a move, or a redrive of what was given up."""
        if task.says_again(in_hand):
            return None
        in_hand.brought = task.came_ms[in_hand.delivery_id] <= self._crashed_ms
        in_hand.lapsed |= in_hand.brought and task.may_have_left(in_hand.delivery_id)
        return in_hand

    def _broke(self, broke: Broke) -> None:
        """Whether an ack was still heard is not known. A server that goes away keeps the leases of the streams that it
        ends itself; of one that breaks before that it knows no more than of any other: the grace is what is left."""
        self._connected.discard(broke.worker)
        self._lost.broke(broke)
        for task in self._tasks.values():
            if task.in_hand is not None and task.in_hand.worker == broke.worker:
                task.acking = False
        if not broke.going_away:
            self._release(broke.worker, None)
        elif broke.hung_up:
            self._shorten(broke.worker, broke.at_ms + GRACE_MS - ROUNDED_MS)

    def _shorten(self, worker: str, until_ms: float) -> None:
        for task in self._tasks.values():
            if task.in_hand is not None and task.in_hand.worker == worker:
                task.in_hand.until_ms = min(task.in_hand.until_ms, until_ms)

    def _release(self, worker: str, ids: Sequence[bytes] | None) -> None:
        """None: all that the worker has."""
        tasks = self._tasks.values() if ids is None else [task for task, _ in self._with(ids)]
        for task in tasks:
            if task.in_hand is not None and task.in_hand.worker == worker:
                task.in_hand, task.acking = None, False

    def _with(self, ids: Sequence[bytes]) -> list[tuple[Known, bytes]]:
        return [(task, i) for i in ids for task in self._tasks.values() if i in task.attempts]

    def _server(self, event: Server) -> None:
        self._all_over |= event.what == "all over"
        self._is_stopping = event.what == "stopping"
        if event.what == "started":
            self._order.server_started()
            self._lost.server_started()
            self._give_time_to_return(event.at_ms + RETURN_MS - ROUNDED_MS)
        elif event.what == "killed":
            self._lost.server_killed()
        if event.what == "stopping":
            self._stopping_ms = event.at_ms
            self._lost.server_stopping(event.at_ms)
        crashed = event.what == "killed" or (
            event.what == "stopped" and event.at_ms - self._stopping_ms >= CLEAN_STOP_MS
        )
        if crashed:
            self._crashed_ms = event.at_ms
        for task in self._tasks.values():
            # What a worker brought after a crash is in memory alone, and forgotten even when the server stops in peace.
            is_forgotten = event.what == "stopped" and task.in_hand is not None and task.in_hand.brought
            if crashed or is_forgotten:
                task.in_hand, task.acking = None, False
            elif event.what == "stopped" and task.in_hand is not None:
                task.in_hand.returns = self._now_ms < task.in_hand.until_ms

    def _give_time_to_return(self, until_ms: float) -> None:
        """What was handed over with its lease stays with its worker, although that could not extend it meanwhile."""
        for task in self._tasks.values():
            if task.in_hand is not None and task.in_hand.returns:
                task.in_hand.returns = False
                task.in_hand.until_ms = max(task.in_hand.until_ms, until_ms)

    # -- the end --------------------------------------------------------------------------------------------------

    def _has_end(self, task: Known) -> bool:
        """Whether anybody gave it one."""
        return task.acked or task.rejected or task.wanted.max_attempts < 20 or bool(task.wanted.expire_at_ms)

    def _close(self) -> None:
        for task in self._tasks.values():
            if task.stored:
                self._closed(task, self._looks.get(task.name, "unknown"))

    def _closed(self, task: Known, state: str) -> None:
        if state in (*LIVE, "unknown"):
            self._wrong(f"G3: {task.name} was stored and never ended: {state}")
        if state == "ACKED" and not task.acked:
            self._wrong(f"G3: {task.name} counts as acked, and nobody acknowledged it")
        if state == "ACKED" and task.over == "CANCELLED":
            self._wrong(f"G7: {task.name} counts as acked, and CANCELLED was answered")
        if state == "CANCELLED" and not task.cancels:
            self._wrong(f"G2: {task.name} counts as cancelled, and no cancel was answered or left open")
        has_failed = task.wanted.max_attempts < 20 or 20 in task.attempts.values()
        if state == "DEAD" and not (task.rejected or has_failed):
            self._wrong(f"G3: {task.name} is a dead letter, and nobody rejected it")
        if state == "PURGED" or (state == "EXPIRED" and not task.wanted.expire_at_ms):
            self._wrong(f"G3: {task.name} is {state}, which nobody asked for")
        is_lost_on_the_way = state == "DEAD" and self._lost.may_have_used_up(task)
        if not (task.delivered or task.cancels or state == "EXPIRED" or is_lost_on_the_way):
            self._wrong(f"G3: {task.name} was stored and never delivered")
