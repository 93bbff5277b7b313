from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.deliveries import NOW_MS, PLAIN, QUEUE, SECRET, ids_of, keys_of, taken_of, tokens_of
from timerd.core.dispatch.before_restart import HELD_MS
from timerd.core.dispatch.delivery_machine import MOST_FAILED, DeliveryMachine
from timerd.core.dispatch.sentences import SENT_AGAIN
from timerd.core.dispatch.settlement import Action, Settlement
from timerd.core.dispatch.stalls import WORD_MS
from timerd.core.taken import Taken
from timerd.model.attempts import AttemptEnd, attempts_of
from timerd.model.identity import encode_id, is_genuine, parse_task_id
from timerd.model.progress import ProgressReport
from timerd.model.settle import Outcome
from timerd.model.task import RetryPolicy, Template

LEASE_MS = 5_000
GRACE_MS = 1_000
RETRIED = Template("default", "mail", retry=RetryPolicy(initial_backoff_ms=2_000, jitter=0.0))
ENDING = Template("default", "mail", expire_after_ms=3_000)
FEW = Template("default", "mail", retry=RetryPolicy(max_attempts=2, jitter=0.0, attempt_timeout_ms=8_000))


@pytest.fixture
def machine() -> DeliveryMachine:
    machine = DeliveryMachine(SECRET, GRACE_MS)
    for worker in (1, 2):
        machine.join(worker, "default", LEASE_MS)
    return machine


def send(machine: DeliveryMachine, taken: Taken, worker: int = 1, now_ms: int = NOW_MS) -> bytes:
    """Everything to one worker; returns the ack tokens."""
    machine.credit(worker, "mail", len(taken))
    assert [a.worker for a in machine.assign(QUEUE, [taken], now_ms)] == [worker]
    machine.check()
    return tokens_of(taken)


def test_presence_is_told_once(machine: DeliveryMachine) -> None:
    assert machine.credit(1, "mail", 0) == QUEUE
    assert machine.credit(1, "mail", 5) is None
    assert machine.credit(2, "mail", 5) is None
    machine.broken(1, NOW_MS)
    machine.broken(2, NOW_MS)
    assert machine.tick(NOW_MS + GRACE_MS - 1)[1] == []
    assert machine.tick(NOW_MS + GRACE_MS)[1] == [QUEUE]
    machine.check()


def test_shares_are_cut_from_several_partitions_in_order(machine: DeliveryMachine) -> None:
    machine.credit(1, "mail", 6)
    machine.credit(2, "mail", 4)
    batches = [taken_of(range(4)), taken_of(range(4, 10), position_ms=NOW_MS + 300_000)]
    assignments = machine.assign(QUEUE, batches, NOW_MS)
    sent = [(a.worker, a.taken.rows.columns["index"].tolist()) for a in assignments]
    assert sent == [(1, [0, 1, 2, 3]), (1, [4, 5]), (2, [6, 7, 8, 9])]
    assert (machine.in_flight, machine.wanted(QUEUE)) == (10, 0)


def test_attempt_timeouts_part_what_is_sent(machine: DeliveryMachine) -> None:
    mixed = taken_of(range(4))
    mixed.rows.templates.append(FEW)
    mixed.rows.columns["template"] = [0, 1, 1, 0]
    machine.credit(1, "mail", 4)
    sent = machine.assign(QUEUE, [mixed], NOW_MS)
    assert [(a.attempt_timeout_ms, a.taken.rows.columns["index"].tolist()) for a in sent] == [
        (3_600_000, [0, 3]),
        (8_000, [1, 2]),
    ]


def test_an_ack_ends_and_a_repeated_one_is_late(machine: DeliveryMachine) -> None:
    taken = taken_of(range(3))
    tokens = send(machine, taken)
    done = machine.settle("default", Action.ACK, tokens, NOW_MS, None, "")
    assert [(e.partition, e.key, e.outcome) for e in done.ended] == [
        (taken.partition, key, Outcome.ACKED) for key in keys_of(taken)
    ]
    again = machine.settle("default", Action.ACK, tokens, NOW_MS, None, "")
    assert (again.ended, [*again.late.values()], again.refused) == ([], ids_of(taken), {})
    assert machine.in_flight == 0


def test_a_forged_token_is_refused(machine: DeliveryMachine) -> None:
    tokens = bytearray(tokens_of(taken_of(range(2))))
    tokens[-1] ^= 1
    for action in Action:
        settled = machine.settle("default", action, bytes(tokens), NOW_MS, None, "")
        assert 1 in settled.refused
        assert not settled.ended


def test_a_nack_goes_on_by_the_policy_or_by_the_worker(machine: DeliveryMachine) -> None:
    tokens = send(machine, taken_of(range(2), FEW))
    own = machine.settle("default", Action.NACK, tokens[:64], NOW_MS + 10, None, "no")
    assert [(a.position_ms, a.failed_at_ms, a.last_error) for a in own.again] == [(NOW_MS + 1_010, NOW_MS + 10, "no")]
    asked = machine.settle("default", Action.NACK, tokens[64:], NOW_MS + 10, 77, "no")
    assert [a.position_ms for a in asked.again] == [NOW_MS + 87]


def test_the_last_attempt_makes_a_dead_letter(machine: DeliveryMachine) -> None:
    taken = taken_of([3], FEW, version=1)
    settled = machine.settle("default", Action.NACK, send(machine, taken), NOW_MS + 10, 0, "hopeless")
    [letter], [end] = settled.dead_letters, settled.dead
    assert (letter.attempts, letter.last_error, letter.payload, letter.died_at_ms) == (
        2,
        "hopeless",
        b"payload",
        NOW_MS + 10,
    )
    assert (end.key, end.outcome) == (keys_of(taken)[0], Outcome.DEAD)
    task = parse_task_id(encode_id(letter.task_id))
    assert task is not None
    assert is_genuine(task, SECRET, "default")
    assert task.digest == taken.digests[0]


def test_a_reject_is_a_dead_letter_at_once(machine: DeliveryMachine) -> None:
    settled = machine.settle("default", Action.REJECT, send(machine, taken_of([1])), NOW_MS, None, "bad input")
    assert [letter.last_error for letter in settled.dead_letters] == ["bad input"]
    assert machine.in_flight == 0


def test_an_older_attempt_may_end_the_task_but_not_fail_it(machine: DeliveryMachine) -> None:
    old = tokens_of(taken_of([1]))
    newer = taken_of([1], version=1, position_ms=NOW_MS + 5)
    send(machine, newer, worker=2, now_ms=NOW_MS + 5)
    for action in (Action.NACK, Action.REJECT):
        assert not machine.settle("default", action, old, NOW_MS + 6, None, "late")
    assert [e.key for e in machine.settle("default", Action.ACK, old, NOW_MS + 6, None, "").ended] == keys_of(newer)


def test_what_an_earlier_holder_sent_and_a_later_one_sent_again_fails_by_the_later_ones_word(
    machine: DeliveryMachine,
) -> None:
    """The same attempt after a crash: the worker that has not heard of it speaks of its own, which is over."""
    lost = tokens_of(taken_of([1], token=7))
    again = taken_of([1], token=9)
    tokens = send(machine, again, worker=2)
    for action in (Action.NACK, Action.RELEASE):
        assert not machine.settle("default", action, lost, NOW_MS + 1, None, "late")
    assert machine.extend(1, lost, NOW_MS + 2).lost == [lost]
    assert machine.resume(1, lost, NOW_MS + 2).lost == [lost]
    assert machine.in_flight == 1
    assert [e.key for e in machine.settle("default", Action.NACK, tokens, NOW_MS + 3, None, "no").again] == keys_of(
        again
    )


def test_that_a_task_is_hopeless_counts_whichever_holder_sent_that_attempt(machine: DeliveryMachine) -> None:
    lost, again = tokens_of(taken_of([1], token=7)), taken_of([1], token=9)
    send(machine, again, worker=2)
    settled = machine.settle("default", Action.REJECT, lost, NOW_MS + 1, None, "bad input")
    assert [letter.key for letter in settled.dead_letters] == keys_of(again)


def test_a_silent_worker_loses_its_lease(machine: DeliveryMachine) -> None:
    send(machine, taken_of(range(2), FEW))
    assert not machine.tick(NOW_MS + LEASE_MS - 1)[0]
    wake_ms = machine.next_wake_ms()
    assert wake_ms is not None
    assert NOW_MS + LEASE_MS <= wake_ms < NOW_MS + LEASE_MS + 100
    settled, _ = machine.tick(wake_ms)
    assert [a.last_error.split(":")[0] for a in settled.again] == ["lease ended"] * 2
    assert (machine.in_flight, machine.next_wake_ms()) == (0, None)


def test_a_lease_is_extended_up_to_the_attempt_timeout(machine: DeliveryMachine) -> None:
    """The worker ends the attempt by itself then; its word has 2 s to come."""
    tokens = send(machine, taken_of(range(2), FEW))
    assert machine.extend(1, tokens[:64], NOW_MS + 4_000).lost == []
    settled, _ = machine.tick(NOW_MS + 5_100)
    assert len(settled.again) == 1
    machine.extend(1, tokens[:64], NOW_MS + 7_000)
    machine.extend(1, tokens[:64], NOW_MS + 9_000)
    assert not machine.tick(NOW_MS + 8_000 + WORD_MS - 1)[0]
    settled, _ = machine.tick(NOW_MS + 8_100 + WORD_MS)
    assert [a.last_error.split(":")[0] for a in settled.again] == ["attempt timed out"]
    assert machine.extend(1, tokens, NOW_MS + 8_200 + WORD_MS).lost == [tokens[:64], tokens[64:]]


def test_a_broken_stream_comes_back_with_what_it_holds(machine: DeliveryMachine) -> None:
    taken = taken_of(range(3), FEW)
    tokens = send(machine, taken)
    machine.broken(1, NOW_MS)
    machine.join(3, "default", LEASE_MS)
    assert machine.resume(3, tokens[64:], NOW_MS + 500).lost == []
    machine.check()
    settled, _ = machine.tick(NOW_MS + GRACE_MS)
    # Its worker went away during the first attempt, so it goes on at once.
    assert [(a.key, a.position_ms) for a in settled.again] == [(keys_of(taken)[0], NOW_MS + GRACE_MS)]
    assert len(machine.settle("default", Action.ACK, tokens[64:], NOW_MS + 1_200, None, "").ended) == 2
    machine.check()


def test_a_second_loss_waits_for_the_backoff(machine: DeliveryMachine) -> None:
    send(machine, taken_of([1], Template("default", "mail", retry=RetryPolicy(jitter=0.0)), version=1))
    machine.broken(1, NOW_MS)
    [again] = machine.tick(NOW_MS + GRACE_MS)[0].again
    assert again.position_ms == NOW_MS + GRACE_MS + 1_000


def test_resume_takes_over_from_a_stream_that_seems_alive(machine: DeliveryMachine) -> None:
    tokens = send(machine, taken_of(range(2)))
    machine.resume(2, tokens, NOW_MS + 10)
    machine.broken(1, NOW_MS + 20)
    assert not machine.tick(NOW_MS + 20 + GRACE_MS)[0]
    assert machine.in_flight == 2
    machine.check()


def test_what_a_dead_worker_held_fails_by_the_thousand_and_who_comes_back_saves_the_rest(
    machine: DeliveryMachine,
) -> None:
    first, last = taken_of(range(MOST_FAILED)), taken_of(range(MOST_FAILED, MOST_FAILED + 3))
    send(machine, first)
    tokens = send(machine, last)
    machine.broken(1, NOW_MS)
    over_ms = NOW_MS + GRACE_MS
    failed, gone = machine.tick(over_ms)
    assert ([item.key for item in failed.again], gone) == (keys_of(first), [])
    assert machine.next_wake_ms() == over_ms
    assert machine.resume(2, tokens, over_ms).lost == []
    failed, gone = machine.tick(over_ms)
    assert (failed.again, gone, machine.in_flight) == ([], [QUEUE], 3)
    machine.check()


def test_leases_that_end_together_fail_by_the_thousand(machine: DeliveryMachine) -> None:
    send(machine, taken_of(range(MOST_FAILED)))
    send(machine, taken_of(range(MOST_FAILED, MOST_FAILED + 3)))
    failed = [len(machine.tick(NOW_MS + LEASE_MS)[0].again) for _ in range(3)]
    assert failed == [MOST_FAILED, 3, 0]
    machine.check()


def test_the_death_of_a_worker_is_each_of_its_tasks_own_affair(machine: DeliveryMachine) -> None:
    """After the first attempt it goes on at once, after a later one by its policy, after its last one not at all."""
    send(machine, taken_of(range(2), FEW))
    send(machine, taken_of(range(2, 4), FEW, version=1))
    send(machine, taken_of([4], RETRIED, version=1))
    machine.broken(1, NOW_MS)
    over_ms = NOW_MS + GRACE_MS
    failed, _ = machine.tick(over_ms)
    assert [(item.key.version, item.position_ms - over_ms) for item in failed.again] == [(0, 0), (0, 0), (1, 2_000)]
    assert [letter.key.version for letter in failed.dead_letters] == [1, 1]
    [(_, stats)] = machine.queue_stats.queues.items()
    assert (stats.outcomes["lost"], stats.dead) == (5, 2)


def test_an_extension_on_another_stream_saves_what_a_broken_one_held(machine: DeliveryMachine) -> None:
    tokens = send(machine, taken_of(range(2)))
    machine.broken(1, NOW_MS)
    assert machine.extend(2, tokens[:64], NOW_MS + 10).lost == []
    settled, _ = machine.tick(NOW_MS + GRACE_MS)
    assert [a.key.digest[-1] for a in settled.again] == [1]
    machine.check()


def test_rows_of_one_batch_are_looked_at_as_their_own_leases_end(machine: DeliveryMachine) -> None:
    tokens = send(machine, taken_of(range(3)))
    machine.extend(1, tokens[64:128], NOW_MS + 1_000)
    machine.extend(1, tokens[128:], NOW_MS + 2_000)
    ends = []
    while (wake_ms := machine.next_wake_ms()) is not None:
        ends.append((wake_ms - NOW_MS, len(machine.tick(wake_ms)[0].again)))
    assert ends == [(5_000, 1), (6_000, 1), (7_000, 1)]


def test_resume_loses_what_another_worker_has(machine: DeliveryMachine) -> None:
    old = tokens_of(taken_of([1]))
    send(machine, taken_of([1], version=1), worker=2)
    assert machine.resume(1, old, NOW_MS).lost == [old]


def test_deliveries_from_before_a_restart_are_held(machine: DeliveryMachine) -> None:
    taken = taken_of(range(2))
    tokens = tokens_of(taken)
    held = machine.resume(1, tokens, NOW_MS)
    assert (held.lost, held.until) == ([], dict.fromkeys(ids_of(taken), NOW_MS + LEASE_MS))
    assert machine.extend(1, tokens, NOW_MS + 100).until == dict.fromkeys(ids_of(taken), NOW_MS + 100 + LEASE_MS)
    released = machine.settle("default", Action.NACK, tokens[:64], NOW_MS + 200, None, "no")
    assert released.released == ids_of(taken)[:1]
    assert [(late.token.key, late.failure.error) for late in released.failed_late] == [(keys_of(taken)[0], "no")]
    late = machine.settle("default", Action.ACK, tokens[64:], NOW_MS + 200, None, "")
    assert late.late == dict(enumerate(ids_of(taken)[1:]))
    assert machine.extend(1, tokens, NOW_MS + 300).lost == [tokens[:64], tokens[64:]]


def test_an_older_attempt_that_fails_does_not_free_the_one_in_hand(machine: DeliveryMachine) -> None:
    """A worker says again what was not confirmed before the restart; the next attempt came meanwhile."""
    older, newer = tokens_of(taken_of([1], version=1)), tokens_of(taken_of([1], version=2))
    machine.resume(1, newer, NOW_MS)
    for action in (Action.NACK, Action.REJECT, Action.RELEASE):
        said = machine.settle("default", action, older, NOW_MS + 1, None, "no")
        assert (said.failed_late, said.released) == ([], [])
        assert said.refused == ({0: SENT_AGAIN} if action is Action.REJECT else {})
    assert machine.extend(1, newer, NOW_MS + 2).lost == []
    assert machine.settle("default", Action.NACK, newer, NOW_MS + 3, None, "no").released == ids_of(taken_of([1]))


def test_what_was_not_begun_goes_back_as_it_was(machine: DeliveryMachine) -> None:
    """The same attempt, for somebody else: the worker that stops has no credit any more."""
    taken = taken_of(range(3), version=2)
    tokens = send(machine, taken)
    machine.credit(1, "mail", 5)
    machine.retire(1)
    back = machine.settle("default", Action.RELEASE, tokens[:128], NOW_MS + 7, None, "")
    assert [each.key for each in back.back] == keys_of(taken)[:2]
    assert (back.again, back.dead_letters, back.refused, back.size) == ([], [], {}, 2)
    assert (machine.in_flight, machine.wanted(QUEUE)) == (1, 0)
    assert not machine.settle("default", Action.RELEASE, tokens[:128], NOW_MS + 8, None, "")
    send(machine, taken_of(range(2), version=2), worker=2)
    machine.check()
    old = tokens_of(taken_of([2], version=1))
    assert not machine.settle("default", Action.RELEASE, old, NOW_MS + 9, None, "")
    assert machine.in_flight == 3


def test_what_a_worker_has_not_of_a_stream_that_it_replaced_goes_back_as_it_was(machine: DeliveryMachine) -> None:
    machine.join(3, "default", LEASE_MS, b"old")
    taken = taken_of(range(4), version=2)
    tokens = send(machine, taken, worker=3)
    machine.credit(3, "mail", 5)
    machine.resume(1, tokens[:128], NOW_MS + 1)
    assert machine.replaced("another", [b"old"], NOW_MS + 2) == (Settlement(), []), "names of others are no names"
    settled, workers = machine.replaced("default", [b"old", b"never was"], NOW_MS + 3)
    assert [each.key for each in settled.back] == keys_of(taken)[2:]
    assert (settled.again, settled.dead_letters, workers) == ([], [], [3])
    assert (machine.in_flight, machine.wanted(QUEUE)) == (2, 0)
    machine.check()
    # The same attempts, sent to another one.
    send(machine, taken_of(range(2, 4), version=2), worker=2)


def test_a_name_is_known_in_its_own_namespace_only(machine: DeliveryMachine) -> None:
    machine.join(3, "another", LEASE_MS, b"old")
    assert machine.replaced("default", [b"old"], NOW_MS) == (Settlement(), [])
    assert machine.replaced("another", [b"old"], NOW_MS) == (Settlement(), [3])


def test_a_name_is_known_until_the_grace_is_over(machine: DeliveryMachine) -> None:
    machine.join(3, "default", LEASE_MS, b"old")
    send(machine, taken_of([1]), worker=3)
    machine.broken(3, NOW_MS)
    assert not machine.tick(NOW_MS + GRACE_MS - 1)[0]
    settled, _ = machine.replaced("default", [b"old"], NOW_MS + GRACE_MS - 1)
    assert len(settled.back) == 1
    assert not machine.tick(NOW_MS + GRACE_MS)[0]
    assert machine.replaced("default", [b"old"], NOW_MS + GRACE_MS) == (Settlement(), [])
    machine.check()


def test_what_was_not_begun_before_a_restart_may_fire(machine: DeliveryMachine) -> None:
    tokens = tokens_of(taken_of([1]))
    machine.resume(1, tokens, NOW_MS)
    given = machine.settle("default", Action.RELEASE, tokens, NOW_MS + 1, None, "")
    assert (given.released, given.failed_late) == (ids_of(taken_of([1])), [])


def test_a_drain_assigns_nothing_and_keeps_leases(machine: DeliveryMachine) -> None:
    taken = taken_of(range(2))
    send(machine, taken)
    machine.credit(1, "mail", 5)
    machine.drain()
    assert (machine.turn(), machine.wanted(QUEUE)) == ([], 0)
    machine.broken(1, NOW_MS)
    assert not machine.tick(NOW_MS + GRACE_MS)[0]
    assert [(d.key, d.lease_until_ms) for d in machine.open_deliveries()] == [
        (key, NOW_MS + LEASE_MS) for key in keys_of(taken)
    ]


def test_what_outlives_its_first_lease_lets_go_of_the_shared_arena(machine: DeliveryMachine) -> None:
    machine.credit(1, "mail", 100)
    machine.assign(QUEUE, [taken_of(range(100), payload=bytes(5_000))], NOW_MS)
    tokens = tokens_of(taken_of(range(100), payload=bytes(5_000)))
    machine.settle("default", Action.ACK, tokens[64:], NOW_MS, None, "")
    machine.extend(1, tokens[:64], NOW_MS + 4_000)
    machine.tick(NOW_MS + LEASE_MS + 100)
    [batch] = machine._flights.all()
    assert len(batch.taken.rows.payloads) == 5_000
    [letter] = machine.settle("default", Action.REJECT, tokens[:64], NOW_MS + 6_000, None, "x").dead_letters
    assert letter.payload == bytes(5_000)
    assert letter.template == PLAIN


def test_what_is_held_from_before_a_restart_is_not_held_for_ever(machine: DeliveryMachine) -> None:
    tokens = tokens_of(taken_of([1]))
    assert machine.resume(1, tokens, NOW_MS).lost == []
    assert machine.extend(1, tokens, NOW_MS + HELD_MS - 1_000).until == {
        ids_of(taken_of([1]))[0]: NOW_MS + HELD_MS,
    }
    assert machine.extend(1, tokens, NOW_MS + HELD_MS).lost == [tokens]
    machine.tick(NOW_MS + 2 * HELD_MS)
    assert machine.settle("default", Action.NACK, tokens, NOW_MS + 2 * HELD_MS, None, "").released == []


@pytest.mark.parametrize("action", list(Action))
def test_a_token_that_only_looks_right_settles_nothing(machine: DeliveryMachine, action: Action) -> None:
    """All of it but the MAC can be read from a task's id."""
    tokens = send(machine, taken_of(range(3)))
    forged = tokens[64:120] + bytes(8)
    said = machine.settle("default", action, tokens[:64] + forged, NOW_MS, None, "")
    assert list(said.refused) == [1]
    assert machine.in_flight == 2
    assert machine.extend(1, forged, NOW_MS).lost == [forged]
    machine.check()


def test_what_waits_in_a_partition_goes_away_with_it_wherever_it_was_sent_from(machine: DeliveryMachine) -> None:
    here, next_bucket = taken_of(range(3)), taken_of(range(3, 5), position_ms=NOW_MS + 300_000)
    for taken in (here, next_bucket):
        send(machine, taken)
    carried = set(ids_of(here)[:1])
    gone = machine.move_away(next_bucket.partition, carried)
    assert [(worker, taken.partition, len(taken)) for worker, taken in gone] == [
        (1, here.partition, 1),
        (1, next_bucket.partition, 2),
    ]
    assert machine.in_flight == 2
    machine.check()


def test_with_deadlines_each_attempt_has_its_own_end(machine: DeliveryMachine) -> None:
    """Of tasks that were due one after the other. The first two seconds after it are for what their worker says."""
    taken = taken_of(range(2), ENDING)
    taken.rows.columns["fire_at_ms"] = [NOW_MS - 1_000, NOW_MS]
    machine.credit(1, "mail", 2)
    machine.assign(QUEUE, [taken], NOW_MS)
    machine.check()
    for at_ms, keys in ((NOW_MS + 2_000 + WORD_MS, [0]), (NOW_MS + 3_000 + WORD_MS, [1])):
        assert not machine.tick(at_ms - 100)[0]
        assert [each.key for each in machine.tick(at_ms)[0].expired] == [keys_of(taken)[row] for row in keys]
    assert machine.in_flight == 0


def test_the_last_attempt_expires_at_its_deadline_and_is_a_dead_letter_before(machine: DeliveryMachine) -> None:
    last = replace(ENDING, retry=RetryPolicy(max_attempts=1))
    for at_ms, dead in ((NOW_MS + 2_999, 1), (NOW_MS + 3_000, 0)):
        settled = machine.settle("default", Action.NACK, send(machine, taken_of([1], last)), at_ms, None, "no")
        assert (len(settled.dead), len(settled.expired)) == (dead, 1 - dead)


def test_a_lease_is_not_extended_beyond_a_deadline(machine: DeliveryMachine) -> None:
    taken = taken_of([1], ENDING)
    tokens = send(machine, taken)
    machine.extend(1, tokens, NOW_MS + 2_000)
    machine.check()
    assert machine.lease_of(keys_of(taken)[0]) == NOW_MS + 3_000 + WORD_MS


def test_who_takes_over_a_delivery_has_its_deadline(machine: DeliveryMachine) -> None:
    taken = taken_of(range(2), ENDING)
    taken.rows.columns["fire_at_ms"] = [NOW_MS - 1_000, NOW_MS]
    tokens = send(machine, taken)
    machine.resume(2, tokens[:64], NOW_MS + 1)
    machine.check()
    assert machine.lease_of(keys_of(taken)[0]) == NOW_MS + 2_000 + WORD_MS


@pytest.mark.parametrize(("delay_ms", "expires"), [(2_989, False), (2_990, True)])
def test_what_would_begin_when_it_is_over_has_expired(machine: DeliveryMachine, delay_ms: int, expires: bool) -> None:
    taken = taken_of([1], ENDING)
    settled = machine.settle("default", Action.NACK, send(machine, taken), NOW_MS + 10, delay_ms, "no")
    assert [(e.key, e.last_error) for e in settled.expired] == [(keys_of(taken)[0], "no")] * expires
    assert len(settled.again) == (not expires)
    assert settled.size == 1


def test_what_a_worker_has_said_last_goes_with_its_failure(machine: DeliveryMachine) -> None:
    taken = taken_of(range(2))
    tokens = send(machine, taken)
    machine.report("default", tokens[:64], ProgressReport("0.1 "), NOW_MS)
    machine.report("default", tokens[:64], ProgressReport("0.4 "), NOW_MS)
    machine.report("other", tokens[64:], ProgressReport("0.9 "), NOW_MS)
    settled = machine.settle("default", Action.NACK, tokens, NOW_MS + 10, None, "no")
    assert [again.progress for again in settled.again] == ["0.4 ", ""]


def test_it_is_not_lost_where_another_stream_takes_over(machine: DeliveryMachine) -> None:
    tokens = send(machine, taken_of(range(2)))
    machine.report("default", tokens[64:], ProgressReport("0.4 "), NOW_MS)
    machine.resume(2, tokens[64:], NOW_MS + 1)
    assert [machine.progress_of(key) for key in keys_of(taken_of(range(2)))] == ["", "0.4 "]


def test_what_an_earlier_attempt_says_is_not_that_of_the_later_one(machine: DeliveryMachine) -> None:
    old = tokens_of(taken_of([1]))
    newer = taken_of([1], version=1, position_ms=NOW_MS + 5)
    send(machine, newer, worker=2, now_ms=NOW_MS + 5)
    machine.report("default", old, ProgressReport("0.4 "), NOW_MS)
    assert machine.progress_of(keys_of(newer)[0]) == ""


STALLING = Template("default", "mail", retry=RetryPolicy(max_attempts=1), stall_timeout_ms=1_000)


def ends_at(machine: DeliveryMachine, now_ms: int) -> list[AttemptEnd]:
    machine.check()
    return [AttemptEnd(attempts_of(each.history)[-1].end) for each in machine.tick(now_ms)[0].dead_letters]


def test_a_handler_that_says_nothing_stalls_however_often_its_lease_is_extended(machine: DeliveryMachine) -> None:
    """The first two seconds after it are for what its worker says. A task that may be silent goes on."""
    tokens = send(machine, taken_of([1], STALLING)) + send(machine, taken_of([2], FEW))
    assert machine.extend(1, tokens, NOW_MS + 900).lost == []
    assert ends_at(machine, NOW_MS + 900 + WORD_MS) == []
    assert ends_at(machine, NOW_MS + 1_000 + WORD_MS) == [AttemptEnd.STALLED]
    assert machine.extend(1, tokens, NOW_MS + 1_000 + WORD_MS).lost == [tokens[:64]]


def test_what_it_says_counts_from_when_it_said_it(machine: DeliveryMachine) -> None:
    """Also to begin is a word, which leaves what was said before. What is said again is none, nor what comes late."""
    taken = taken_of([1], STALLING)
    tokens = send(machine, taken)
    machine.report("default", tokens, ProgressReport("0.1 ", age_ms=100), NOW_MS + 900)
    for age_ms in (1_900, 2_100):
        machine.report("default", tokens, ProgressReport("", age_ms), NOW_MS + 2_800)
        machine.extend(1, tokens, NOW_MS + 2_800)
    assert machine.progress_of(keys_of(taken)[0]) == "0.1 "
    assert ends_at(machine, NOW_MS + 1_800 + WORD_MS) == []
    assert ends_at(machine, NOW_MS + 1_900 + WORD_MS) == [AttemptEnd.STALLED]


def test_a_worker_that_is_silent_has_lost_its_lease_and_not_stalled(machine: DeliveryMachine) -> None:
    send(machine, taken_of([1], replace(STALLING, stall_timeout_ms=LEASE_MS - WORD_MS)))
    assert ends_at(machine, NOW_MS + LEASE_MS) == [AttemptEnd.LEASE_ENDED]


def test_who_takes_over_a_delivery_has_what_its_handler_has_said(machine: DeliveryMachine) -> None:
    tokens = send(machine, taken_of([1, 2], STALLING))
    machine.report("default", tokens[64:], ProgressReport("0.4 "), NOW_MS + 500)
    machine.resume(2, tokens[64:], NOW_MS + 600)
    assert ends_at(machine, NOW_MS + 1_000 + WORD_MS) == [AttemptEnd.STALLED]
    assert machine.in_flight == 1
    assert ends_at(machine, NOW_MS + 1_500 + WORD_MS) == [AttemptEnd.STALLED]


class Kept:
    """Who hears that a worker has what another one has ended."""

    def __init__(self) -> None:
        self.until_ms: dict[bytes, int] = {}

    def __len__(self) -> int:
        return 1

    def hold(self, digest: bytes, until_ms: int) -> None:
        self.until_ms[digest] = until_ms


@pytest.mark.parametrize("action", [Action.ACK, Action.REJECT])
def test_who_has_it_from_before_a_crash_ends_it_and_the_one_that_was_sent_it_since_keeps_its_key(
    machine: DeliveryMachine, action: Action
) -> None:
    """Rule O7: both are at the task, and nothing else of its key may start."""
    kept = Kept()
    machine.on_older_ack(kept)
    taken = taken_of([1, 2], token=7)
    mine = send(machine, taken)
    before = tokens_of(taken_of([1], token=6))
    settlement = machine.settle("default", action, before, NOW_MS + 10, None, "")
    assert len(settlement.acked or settlement.ended or settlement.dead) == 1
    assert kept.until_ms == {taken.digests[0]: NOW_MS + LEASE_MS}
    machine.settle("default", action, mine[64:], NOW_MS + 20, None, "")
    assert list(kept.until_ms) == [taken.digests[0]], "its own word keeps nobody waiting"


def test_a_reject_of_an_earlier_attempt_changes_nothing(machine: DeliveryMachine) -> None:
    kept = Kept()
    machine.on_older_ack(kept)
    send(machine, taken_of([1], version=1))
    settlement = machine.settle("default", Action.REJECT, tokens_of(taken_of([1])), NOW_MS, None, "")
    assert settlement.refused == {0: SENT_AGAIN}
    assert kept.until_ms == {}
