"""The judge, on logs that were made up: each broken promise is found, and what a promise allows is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pytest

from tests.chaos.lines import Writer
from tests.chaos.regulated.judging import Verdict, judged
from tests.chaos.regulated.plan import (
    BURST,
    HALT,
    HOLD,
    LEASE_MS,
    OFFERS,
    PARTNER,
    PASS,
    QUEUES,
    RATE_PER_S,
    RATED,
    is_doomed,
    is_hopeless,
    is_rejected,
    key_of,
    queue_of,
)
from tests.chaos.regulated.records import (
    DONE,
    FAILED,
    LOST,
    REJECTED,
    Begun,
    Ended,
    Given,
    Gone,
    Logs,
    Released,
    Seen,
    Window,
    logs_of,
)
from timerd.demo.records import CallRecord, LogWriter

S = 1_000
START = 1_800_000_000_000
_SERIALS = count(1)
Run = tuple[Begun, Ended]
FAULT = Window(START, START + 60 * S, stops=True)


def at(seconds: float) -> int:
    return START + round(seconds * S)


def numbers(queue: str, some: int, key: str = "key-1") -> list[int]:
    """Of a queue, and of one key where it has keys; none of them ends as a dead letter."""
    fit = (n for n in count() if queue_of(n) == queue and key_of(n) in ("", key) and not is_doomed(n))
    return list(islice(fit, some))


def stored(number: int, fire_s: float, asked_s: float = -1) -> CallRecord:
    return CallRecord("schedule", number, at(asked_s), at(asked_s) + 10, "OK", f"t{number}", at(fire_s))


def ran(number: int, from_s: float, to_s: float, *, fire_s: float = 0, how: str = DONE, **fields: object) -> Run:
    """By a worker that offers its queue."""
    kind = next(kind for kind, offer in enumerate(OFFERS) if queue_of(number) in offer.queues)
    of = {"worker": f"w{kind}", "offer": kind, "queue": queue_of(number), "key": key_of(number)}
    of |= {"task_id": f"t{number}", "delivery_id": f"d{number}", "attempt": 1, "fire_at_ms": at(fire_s)}
    of |= {"fence": (at(from_s), 1, 1) if key_of(number) else (), "scope": "0.0.1", "token": 1}
    begun = Begun(number=number, serial=next(_SERIALS), at_ms=at(from_s), **{**of, **fields})  # type: ignore[arg-type]
    return begun, Ended(begun.worker, begun.serial, how, at(to_s))


def judge(calls: Iterable[CallRecord], runs: Sequence[Run], **more: object) -> Verdict:
    begun, ended = tuple(run[0] for run in runs), tuple(run[1] for run in runs if run[1].at_ms)
    return judged(Logs(tuple(calls), begun, ended, **more))  # type: ignore[arg-type]


def broken(verdict: Verdict) -> list[str]:
    """The promises that were."""
    return [promise for promise, sentences in verdict.wrong.items() if sentences]


def one_after_the_other(queue: str) -> tuple[list[CallRecord], list[Run]]:
    """Three tasks of a key, due at 0, 1 and 2 s."""
    some = numbers(queue, 3)
    calls = [stored(number, due) for due, number in enumerate(some)]
    return calls, [ran(number, due, due + 0.5, fire_s=due) for due, number in enumerate(some)]


def test_the_plan_has_all_kinds_of_queues_and_the_helpers_find_them() -> None:
    assert {queue_of(number) for number in range(100)} == set(QUEUES)
    assert {queue for offer in OFFERS for queue in offer.queues} == set(QUEUES)
    assert len({key_of(number) for number in numbers(HOLD, 3)}) == 1


@pytest.mark.parametrize("queue", QUEUES)
def test_what_comes_as_it_should_is_right(queue: str) -> None:
    verdict = judge(*one_after_the_other(queue))
    assert verdict.holds, verdict.wrong
    assert verdict.arrived == 3
    assert verdict.placed == (3 if key_of(numbers(queue, 1)[0]) else 0)


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", [HOLD, HALT, PASS, "docs"])
def test_two_of_a_key_at_a_time_are_found(queue: str) -> None:
    calls, runs = one_after_the_other(queue)
    longer = replace(runs[0][1], at_ms=at(1.2))
    assert broken(judge(calls, [(runs[0][0], longer), *runs[1:]])) == ["G21, one at a time"]


def test_a_later_task_that_comes_first_is_found() -> None:
    for queue in (HOLD, HALT, PASS):
        calls, _ = one_after_the_other(queue)
        first, second, third = numbers(queue, 3)
        runs = [ran(second, 1, 1.1, fire_s=1), ran(first, 1.2, 1.3), ran(third, 2, 2.1, fire_s=2)]
        assert broken(judge(calls, runs)) == ["G21, in order"]


def test_whether_a_task_that_fails_is_passed_is_said_by_its_queue() -> None:
    for queue, wrong in ((HOLD, ["G21, in order"]), (HALT, ["G21, in order"]), (PASS, [])):
        calls, runs = one_after_the_other(queue)
        first = numbers(queue, 1)[0]
        failed, again = ran(first, 0, 0.1, how=FAILED), ran(first, 1.6, 1.7, attempt=2)
        assert broken(judge(calls, [failed, *runs[1:], again])) == wrong


def test_a_key_that_stands_still_goes_on_when_it_is_let_go_and_not_before() -> None:
    doomed = next(n for n in count() if is_rejected(n) and queue_of(n) == HALT)
    other = next(
        n for n in count(doomed + 1) if (queue_of(n), key_of(n)) == (HALT, key_of(doomed)) and not is_doomed(n)
    )
    calls, seen = [stored(doomed, 0), stored(other, 1)], (Seen(doomed, "DEAD"),)
    runs = [ran(doomed, 0, 0.1, how=REJECTED), ran(doomed, 2, 2.1, how=REJECTED), ran(other, 3, 3.1, fire_s=1)]
    redriven, skipped = Released(f"t{doomed}", True, at(1.5)), Released(f"t{doomed}", False, at(2.5))
    verdict = judge(calls, runs, seen=seen, released=(redriven, skipped))
    assert (verdict.holds, verdict.halted) == (True, 2)
    for released in ((redriven,), (redriven, replace(skipped, asked_ms=at(3.5)))):
        assert broken(judge(calls, runs, seen=seen, released=released)) == ["G21, halts"]
    cancelled = CallRecord("cancel", doomed, at(2.2), at(2.3), "ALREADY_FIRED", "", 0)
    assert judge([*calls, cancelled], runs, seen=seen, released=(redriven,)).holds


def test_what_is_late_has_no_place_that_its_caller_knows() -> None:
    first, second = numbers(HOLD, 2)
    late, other = stored(first, 0, asked_s=0.5), stored(second, 1)
    assert judge([late, other], [ran(second, 1, 1.1, fire_s=1), ran(first, 1.2, 1.3)]).holds


def test_what_is_moved_has_its_place_by_its_new_time() -> None:
    first, second = numbers(HOLD, 2)
    calls = [stored(first, 0.5), stored(second, 1), CallRecord("move", first, at(0), at(0.1), "OK", "", at(2))]
    as_moved = [ran(second, 1, 1.1, fire_s=1), ran(first, 2, 2.1, fire_s=2)]
    assert judge(calls, as_moved).holds
    too_early = [ran(first, 2, 2.1, fire_s=2), ran(second, 3, 3.1, fire_s=1)]
    assert broken(judge(calls, too_early)) == ["G21, in order"]


def test_of_one_time_the_call_decides_and_within_a_message_the_order_there() -> None:
    first, second = numbers(HOLD, 2)
    swapped = [ran(second, 1, 1.1, fire_s=1), ran(first, 1.2, 1.3, fire_s=1)]
    assert broken(judge([stored(first, 1), stored(second, 1)], swapped)) == ["G21, in order"]
    assert broken(judge([stored(first, 1), stored(second, 1, asked_s=0)], swapped)) == ["G21, in order"]
    assert judge([stored(first, 1), stored(second, 1, asked_s=-0.95)], swapped).holds


def test_a_fence_that_goes_back_is_found_or_of_a_stale_holder() -> None:
    calls, runs = one_after_the_other(HOLD)
    lower = replace(runs[1][0], fence=(at(-1), 1, 1))
    back = [runs[0], (lower, runs[1][1]), runs[2]]
    assert broken(judge(calls, back)) == ["G21, fences"]
    stale = judge(calls, back, windows=(FAULT,))
    assert (stale.stale, broken(stale)) == (1, [])
    assert broken(judge(calls, back, windows=(replace(FAULT, stops=False),))) == ["G21, fences"]


def test_what_was_on_its_way_for_longer_than_its_lease_may_come_beside_the_next_task_and_no_sooner() -> None:
    first, second = numbers(HOLD, 2)
    calls = [stored(first, 0), stored(second, 1)]
    again, after = ran(first, 4, 4.2, worker="w2"), ran(second, 5.05, 6, fire_s=1)
    late = ran(first, 5.1, 5.2, fence=(at(0), 1, 1))
    assert judge(calls, [again, after, late]).stale == 1
    assert judge(calls, [again, after, late]).holds
    sooner = ran(first, 5.1, 5.2, fence=(at(0.2), 1, 1))
    assert "G21, fences" in broken(judge(calls, [again, after, sooner]))


def test_a_task_of_a_key_without_a_fence_is_found() -> None:
    calls, runs = one_after_the_other(HOLD)
    assert broken(judge(calls, [(replace(runs[0][0], fence=()), runs[0][1]), *runs[1:]])) == ["G21, fences"]


def test_what_a_killed_worker_had_ends_with_it() -> None:
    calls, runs = one_after_the_other(HOLD)
    first = numbers(HOLD, 1)[0]
    killed = (replace(runs[0][0], worker="killed"), replace(runs[0][1], at_ms=0))
    later = [ran(first, 0.7, 0.8), *runs[1:]]
    gone = (Gone("killed", at(0.6)),)
    assert judge(calls, [killed, *later], gone=gone).holds
    assert broken(judge(calls, [killed, *later])) == ["G21, one at a time"]


def test_who_has_lost_the_lease_may_go_on_beside_the_next_task_but_not_before_that() -> None:
    first, second = numbers(HOLD, 2)
    lease_s = LEASE_MS / S
    calls = [stored(first, 0), stored(second, 1)]
    hanging, again = ran(first, 0, lease_s + 9, how=LOST), ran(first, lease_s + 0.1, lease_s + 0.2, worker="w2")
    beside = ran(second, lease_s + 0.5, lease_s + 0.6, fire_s=1)
    assert judge(calls, [hanging, again, beside]).holds
    early = ran(second, lease_s - 0.5, lease_s - 0.4, fire_s=1)
    assert "G21, one at a time" in broken(judge(calls, [hanging, again, early]))
    for how in (DONE, FAILED):
        assert "G21, one at a time" in broken(judge(calls, [ran(first, 0, lease_s + 9, how=how), again, beside]))


def test_what_was_sent_once_more_over_a_fault_may_go_on_when_the_first_worker_has_ended_it() -> None:
    first, second = numbers(HOLD, 2)
    calls = [stored(first, 0), stored(second, 1)]
    one, more = ran(first, 0, 1.5), ran(first, 1, 3, worker="w2")
    after = ran(second, 2, 2.1, fire_s=1)
    verdict = judge(calls, [one, more, after], windows=(FAULT,))
    assert (verdict.beside, broken(verdict)) == (1, [])
    assert broken(judge(calls, [one, more, after])) == ["G21, one at a time"]
    still = (one[0], replace(one[1], at_ms=at(2.5)))
    assert broken(judge(calls, [still, more, after], windows=(FAULT,))) == ["G21, one at a time"]
    smaller = ran(second, 2, 2.1, fire_s=1, fence=(at(0.9), 1, 1))
    assert "G21, one at a time" in broken(judge(calls, [one, more, smaller], windows=(replace(FAULT, stops=False),)))


# -- limits -----------------------------------------------------------------------------------------------------------


def at_once(queues: Sequence[str], some: int, **fields: object) -> tuple[list[CallRecord], list[Run]]:
    """So many of the queues in turn, in hand together for a second."""
    each = {queue: iter(numbers(queue, some)) for queue in queues}
    chosen = [next(each[queues[n % len(queues)]]) for n in range(some)]
    runs = [ran(number, 0.01 * n, 1, worker=f"w{n}", **fields) for n, number in enumerate(chosen)]  # type: ignore[arg-type]
    return [stored(number, 0) for number in chosen], runs


def test_one_above_a_limit_is_found() -> None:
    assert judge(*at_once(["hands"], 4)).holds
    assert broken(judge(*at_once(["hands"], 5))) == ["G20, in hand"]


def test_a_limit_counts_over_all_queues_that_list_it() -> None:
    three, two = numbers("docs", 1), numbers("shared-a", 3)
    some = [*three, *two]
    calls = [stored(number, 0) for number in some]
    runs = [ran(number, 0.01 * n, 1, worker=f"w{n}") for n, number in enumerate(some)]
    assert judge(calls[:3], runs[:3]).holds
    assert judge(calls[:3], runs[:3]).most[PARTNER.name] == 3
    assert broken(judge(calls, runs)) == ["G20, in hand"]


def test_a_queue_keeps_to_its_own_limit_beside_the_shared_one() -> None:
    assert broken(judge(*at_once(["shared-b"], 2))) == ["G20, in hand"]


def test_what_has_lost_its_lease_counts_until_that_is_over() -> None:
    calls, runs = at_once(["hands"], 4)
    hanging = [(begun, replace(ended, how=LOST, at_ms=at(30))) for begun, ended in runs]
    again = [ran(begun.number, LEASE_MS / S + 1 + n, LEASE_MS / S + 1.5 + n) for n, (begun, _) in enumerate(runs)]
    [extra] = numbers("hands", 5)[4:]
    assert judge(calls, [*hanging, *again]).holds
    early = ran(extra, 2, 2.1)
    assert broken(judge([*calls, stored(extra, 0)], [*hanging, *again, early])) == ["G20, in hand"]


def paced(some: int, per_s: float) -> tuple[list[CallRecord], list[Run]]:
    chosen = numbers(RATED, some)
    calls = [stored(number, 0) for number in chosen]
    return calls, [ran(number, n / per_s, n / per_s + 0.01, worker=f"w{n}") for n, number in enumerate(chosen)]


def test_a_rate_that_is_doubled_is_found() -> None:
    assert judge(*paced(60, RATE_PER_S)).holds
    assert broken(judge(*paced(60, 2 * RATE_PER_S))) == ["G20, rate"]


def test_while_somebody_stands_still_what_was_sent_may_come_together_but_not_any_number() -> None:
    calls, runs = paced(BURST + 5 * RATE_PER_S, 1000)
    assert broken(judge(calls, runs)) == ["G20, rate"]
    assert judge(calls, runs, windows=(FAULT,)).holds
    assert broken(judge(*paced(BURST + 14 * RATE_PER_S, 1000), windows=(FAULT,))) == ["G20, rate"]


# -- types ------------------------------------------------------------------------------------------------------------


def test_a_worker_that_gets_what_it_has_not_offered_is_found() -> None:
    [number] = numbers("rare", 1)
    assert judge([stored(number, 0)], [ran(number, 0, 1)]).holds
    assert broken(judge([stored(number, 0)], [ran(number, 0, 1, offer=0, worker="w0")])) == ["G23, types"]


def test_more_at_a_time_than_there_are_slots_is_found_over_all_types_of_a_pool() -> None:
    some = [*numbers("pdf", 2), *numbers("excel", 2)]
    calls = [stored(number, 0) for number in some]
    runs = [ran(number, 0.01 * n, 1, offer=0, worker="w0") for n, number in enumerate(some)]
    assert judge(calls[:3], runs[:3]).holds
    assert broken(judge(calls, runs)) == ["G23, types"]
    hanging = [(begun, replace(ended, how=LOST, at_ms=at(30))) for begun, ended in runs[:3]]
    again = [ran(begun.number, 9, 9.1, offer=2, worker=f"w{begun.number}") for begun, _ in runs[:2]]
    again.append(ran(some[2], 9, 9.1, offer=1, worker="w1"))
    assert judge(calls[:3], [*hanging, *again]).holds
    late = ran(some[3], 20, 21, offer=0, worker="w0")
    assert broken(judge(calls, [*hanging, *again, late])) == ["G23, types"]


def test_a_task_that_comes_by_another_queue_or_key_is_found() -> None:
    [number] = numbers("pdf", 1)
    assert broken(judge([stored(number, 0)], [ran(number, 0, 1, queue="excel")])) == ["G23, types"]
    [keyed] = numbers(PASS, 1)
    assert broken(judge([stored(keyed, 0)], [ran(keyed, 0, 1, key="key-9")])) == ["G23, types"]


# -- single tasks -----------------------------------------------------------------------------------------------------


def test_what_never_comes_or_is_never_done_is_lost() -> None:
    one, other = numbers("pdf", 2)
    calls = [stored(one, 0), stored(other, 0)]
    assert broken(judge(calls, [ran(one, 0, 1)])) == ["lost", "unfinished"]
    for how in (FAILED, LOST):
        assert broken(judge(calls, [ran(one, 0, 1), ran(other, 0, 1, how=how)])) == ["unfinished"]


def test_what_fails_each_time_ends_as_a_dead_letter() -> None:
    number = next(n for n in count() if is_hopeless(n) and queue_of(n) == "pdf")
    runs = [ran(number, n, n + 0.1, how=FAILED, attempt=n + 1) for n in range(4)]
    assert judge([stored(number, 0)], runs, seen=(Seen(number, "DEAD"),)).holds
    for seen in ((), (Seen(number, "ACKED"),)):
        assert broken(judge([stored(number, 0)], runs, seen=seen)) == ["unfinished"]


def test_a_second_id_is_found() -> None:
    [number] = numbers("pdf", 1)
    once = ran(number, 0, 1)
    for fields, promise in (({"delivery_id": "other"}, "fired twice"), ({"task_id": "other"}, "wrong facts")):
        again = ran(number, 2, 3, **fields)  # type: ignore[arg-type]
        assert broken(judge([stored(number, 0)], [once, again], windows=(FAULT,))) == [promise]


def test_what_comes_before_its_time_is_early() -> None:
    [number] = numbers("pdf", 1)
    assert broken(judge([stored(number, 5)], [ran(number, 4, 6, fire_s=5)])) == ["early"]


def test_after_cancelled_nothing_begins_and_what_had_failed_may_be_cancelled() -> None:
    [number] = numbers("pdf", 1)
    calls = [stored(number, 0), CallRecord("cancel", number, at(1), at(1.1), "CANCELLED", f"t{number}")]
    assert judge(calls, [ran(number, 0, 0.5, how=FAILED)]).holds
    assert broken(judge(calls, [ran(number, 2, 2.5)])) == ["delivered after CANCELLED"]
    assert broken(judge(calls, [ran(number, 0, 0.5)])) == ["delivered after CANCELLED"]


def test_what_is_written_down_is_read_again_as_it_was(tmp_path: Path) -> None:
    [number] = numbers(HOLD, 1)
    begun, ended = ran(number, 0, 1)
    some = (begun, ended, Gone("w", 1.5), FAULT, Seen(number, "DEAD"), Given("0.0.1", 2.5))
    log, caller = tmp_path / "worker.log", tmp_path / "caller.log"
    writer = Writer(log)
    for record in some:
        writer.write(record)
    writer.close()
    told = LogWriter(caller)
    told.write([stored(number, 0)])
    told.close()
    expected = Logs((stored(number, 0),), (begun,), (ended,), (some[2],), (FAULT,), (some[4],), (some[5],))
    assert logs_of([caller], [log]) == expected
