"""What became of deliveries: ended, on to the next attempt, or dead. In batches, for the partition machines."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from timerd.core.dispatch.flights import Batch
from timerd.core.dispatch.retry import backoff_ms, is_exhausted, next_position_ms
from timerd.core.taken import AckedRows, Again, Ended, Taken
from timerd.model.ack_token import AckToken
from timerd.model.attempts import AttemptEnd, FailedAttempt, with_attempt
from timerd.model.identity import RowKey, TaskId, attempt_of, mac_of
from timerd.model.ordering import place_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.settle import Outcome
from timerd.model.storage import DeadLetter
from timerd.model.task import Extra


class Action(IntEnum):
    """As SettleAction in the proto."""

    ACK = 1
    NACK = 2
    REJECT = 3
    RELEASE = 4


@dataclass(frozen=True, slots=True)
class Failure:
    """Why attempts failed, and when they go on: `delay_ms` where the worker said so, else by the retry policy.
    `sent_ms`, `worker`: of the delivery, where it is open here. `progress`: what the attempt had said last."""

    at_ms: int
    error: str
    delay_ms: int | None = None
    end: AttemptEnd = AttemptEnd.FAILED
    sent_ms: int = 0
    worker: str = ""
    progress: str = ""

    @property
    def lost(self) -> bool:
        """The worker went away, which is seldom the task's fault: after its first attempt it goes on at once."""
        return self.end is AttemptEnd.WORKER_LOST

    @property
    def hopeless(self) -> bool:
        return self.end is AttemptEnd.REJECTED

    def again(self, partition: Partition, key: RowKey, position_ms: int) -> Again:
        """The attempt of `key` goes on there as the next one."""
        said = self.error, self.end, self.sent_ms, self.worker, self.progress
        return Again(partition, key, position_ms, self.at_ms, *said)

    def of_attempt(self, number: int) -> FailedAttempt:
        return FailedAttempt(number, self.sent_ms, self.at_ms, self.end, self.worker, self.error)


# Of a task that lives on, is a dead letter, or has expired: as in TaskState.
PENDING, DEAD, EXPIRED = 1, 5, 6
NOT_LISTED = "LIMIT_NOT_LISTED"


class Refusal(NamedTuple):
    """Why a token settles nothing, or not as was asked. `state`: what its task is, as TaskState in the proto; 0: that
    is not the reason."""

    sentence: str
    state: int = 0
    reason: str = "NOT_SETTLED"


class LateFailure(NamedTuple):
    """Of a delivery that is not open here. Whether it counts shows when its row has been looked for. `at`: its place in
    the message."""

    token: AckToken
    failure: Failure
    at: int


@dataclass(slots=True)
class Settlement:
    """`ended` and `acked` are over for good. `dead[i]` is the end that belongs to `dead_letters[i]`. `expired`: failed,
    and could not begin again in time. `late`: genuine acks of what is not open here, place in the message -> delivery
    id; `failed_late`: failures of such. `back`: not begun, to be sent to somebody else as they are (what cannot be goes
    on as an `Again`). `refused`: by place in the message. `released`: delivery ids whose lease is over although their
    rows are not open here."""

    ended: list[Ended] = field(default_factory=list)
    acked: list[AckedRows] = field(default_factory=list)
    again: list[Again] = field(default_factory=list)
    back: list[Again] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    dead: list[Ended] = field(default_factory=list)
    expired: list[Again] = field(default_factory=list)
    late: dict[int, bytes] = field(default_factory=dict)
    failed_late: list[LateFailure] = field(default_factory=list)
    refused: dict[int, Refusal] = field(default_factory=dict)
    released: list[bytes] = field(default_factory=list)

    def refuse_throttle(self, at: int, key: RowKey, sentence: str) -> None:
        """This delivery, which was settled last, has failed: the limit that was to hold it is none of its queue's."""
        is_dead = bool(self.dead) and self.dead[-1].key == key
        is_over = bool(self.expired) and self.expired[-1].key == key
        self.refused[at] = Refusal(sentence, DEAD if is_dead else EXPIRED if is_over else PENDING, NOT_LISTED)

    def __bool__(self) -> bool:
        return bool(self.size or self.released)

    @property
    def size(self) -> int:
        """How many deliveries it speaks of."""
        failed = len(self.again) + len(self.dead_letters) + len(self.failed_late) + len(self.expired)
        acked = sum(map(len, self.acked))
        return len(self.ended) + acked + len(self.back) + len(self.late) + failed

    def ended_digests(self) -> Iterator[bytes]:
        """Of the tasks that are over."""
        for rows in self.acked:
            yield from rows.digests
        for each in (*self.ended, *self.dead):
            yield each.key.digest
        for failed in self.expired:
            yield failed.key.digest

    def add(self, other: Settlement) -> None:
        """Takes over what the other one would have done at once; what speaks of places in its message stays with it."""
        self.ended += other.ended
        self.acked += other.acked
        self.again += other.again
        self.back += other.back
        self.dead_letters += other.dead_letters
        self.dead += other.dead
        self.expired += other.expired
        self.released += other.released


def fail(
    settlement: Settlement,
    batch: Batch,
    rows: Sequence[int],
    failure: Failure,
    secret: bytes,
    stopped: Container[bytes] = (),
) -> None:
    """What a worker that dies had in hand is tens of thousands of rows, and the loop waits: those that go on at once,
    which are most, are told by few numbers. `stopped`: short ids of those whose tasks were cancelled meanwhile."""
    taken, at_ms = batch.taken, failure.at_ms
    kinds = taken.rows.columns["template"].tolist()
    at_once = [failure.lost and t.retry.max_attempts > 1 for t in taken.rows.templates]
    for row in rows:
        key, said = batch.key(row), batch.progress(row)
        mine = replace(failure, progress=said) if said else failure
        if at_once[kinds[row]] and attempt_of(key.version) == 1:
            position_ms = next_position_ms(key.position_ms, at_ms, 0)
            _go_on(settlement, taken, row, mine.again(taken.partition, key, position_ms))
        else:
            fail_row(settlement, taken, row, key, mine, secret, is_stopped=batch.ids[row] in stopped)


def fail_row(
    settlement: Settlement,
    taken: Taken,
    row: int,
    key: RowKey,
    failure: Failure,
    secret: bytes,
    *,
    is_stopped: bool = False,
) -> None:
    """One failed attempt, that of `key`: the next one by the policy, or a dead letter, or nothing: it is too late.
    `is_stopped`: its task was cancelled, so the next one ends it, also where there would be none."""
    policy = taken.rows.template_of(row).retry
    if not failure.hopeless and 0 < taken.rows.deadline_ms(row) <= failure.at_ms:
        settlement.expired.append(failure.again(taken.partition, key, failure.at_ms))
        return
    if failure.hopeless or (is_exhausted(policy, key.version) and not is_stopped):
        settlement.dead_letters.append(letter_of(taken, row, key, attempt_of(key.version), failure, secret))
        settlement.dead.append(Ended(taken.partition, key, Outcome.DEAD))
        return
    wait_ms = failure.delay_ms
    if wait_ms is None:
        attempt = attempt_of(key.version) - failure.lost
        wait_ms = backoff_ms(policy, attempt, key.digest) if attempt else 0
    position_ms = next_position_ms(key.position_ms, failure.at_ms, wait_ms)
    _go_on(settlement, taken, row, failure.again(taken.partition, key, position_ms))


def _go_on(settlement: Settlement, taken: Taken, row: int, again: Again) -> None:
    """What could not begin before its task expires does not wait for that."""
    if 0 < taken.rows.expiry_ms(row) <= again.position_ms:
        settlement.expired.append(again)
    else:
        settlement.again.append(again)


def letter_of(taken: Taken, row: int, key: RowKey, attempts: int, failure: Failure, secret: bytes) -> DeadLetter:
    """`attempts`: so many it had; `failure` is that of the last one."""
    rows = taken.rows
    extra = rows.extra_of(row)
    return DeadLetter(
        task_id=task_id_of(taken, row, key.position_ms, extra, secret).to_bytes(),
        key=key,
        partition=taken.partition,
        template=rows.template_of(row),
        fire_at_ms=int(rows.columns["fire_at_ms"][row]),
        died_at_ms=failure.at_ms,
        attempts=attempts,
        last_error=failure.error,
        payload=rows.payload(row),
        row_key=extra.key,
        occurrence=extra.occurrence,
        row_kept=extra.kept,
        history=with_attempt(extra.history, failure.of_attempt(attempts)),
        ordering_key=extra.ordering_key,
        order_place=place_of(rows, row) if extra.ordering_key else None,
    )


def task_id_of(taken: Taken, row: int, position_ms: int, extra: Extra, secret: bytes) -> TaskId:
    """The id that its caller knows: it names the home, wherever the row lives now."""
    template = taken.rows.template_of(row)
    shard = taken.partition.shard
    if extra.home_position_ms >= 0:
        position_ms, shard = extra.home_position_ms, extra.home_shard
    digest = taken.digests[row]
    home = Partition(TIME_SCOPE, bucket_of(position_ms), shard)
    mac = mac_of(secret, template.namespace, digest[:12], home, template.scope, template.priority)
    item = int.from_bytes(digest[12:], "big")
    return TaskId(position_ms, shard, template.scope, template.priority, digest[:12], item, mac)
