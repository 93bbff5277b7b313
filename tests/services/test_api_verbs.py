"""Each verb of TimerService over a real connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

import timerd
from tests.services.api_rig import NOW_MS, Rig, running, template_of
from timerd.model.identity import TaskId, is_genuine, parse_task_id
from timerd.model.task import RetryPolicy
from timerd.services.engine.verbs import State
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire

HOUR_MS = 3_600_000


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with running() as made:
        yield made


def at(ms: int) -> Timestamp:
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def ms(stamp: Timestamp) -> int:
    return stamp.seconds * 1000 + stamp.nanos // 1_000_000


def order(**fields: object) -> wire.ScheduleRequest:
    plain = {"template": task_wire.TaskTemplate(queue="mail"), "payload": b"hello", "fire_time": at(NOW_MS + HOUR_MS)}
    return wire.ScheduleRequest(**(plain | fields))  # type: ignore[arg-type]


def everything() -> wire.TaskFilter:
    return wire.TaskFilter(start_time=at(0), end_time=at(NOW_MS + 10 * HOUR_MS))


async def test_schedule_stores_and_answers_id_and_fire_time(rig: Rig) -> None:
    reply = await rig.stub.Schedule(order(namespace="shop", request_id="r1"))
    task = parse_task_id(reply.task_id)
    assert task is not None
    assert is_genuine(task, rig.verbs.secret, "shop")
    assert ms(reply.fire_time) == NOW_MS + HOUR_MS
    assert reply.outcome == task_wire.ITEM_OUTCOME_STORED
    (tasks,) = rig.verbs.scheduled
    assert (tasks.namespace, template_of(tasks).queue, tasks.rows.payload(0)) == ("shop", "mail", b"hello")


async def test_the_same_request_has_the_same_id_and_other_content_another(rig: Rig) -> None:
    first = await rig.stub.Schedule(order(request_id="r"))
    again = await rig.stub.Schedule(order(request_id="r"))
    other = await rig.stub.Schedule(order(request_id="r", payload=b"other"))
    unnamed = {(await rig.stub.Schedule(order())).task_id for _ in range(2)}
    assert first.task_id == again.task_id != other.task_id
    assert len(unnamed) == 2


async def test_a_fraction_of_a_millisecond_is_never_early(rig: Rig) -> None:
    late = Timestamp(seconds=NOW_MS // 1000, nanos=1)
    expires = Timestamp(seconds=NOW_MS // 1000 + 5, nanos=999_999)
    template = task_wire.TaskTemplate(queue="mail", expire_time=expires)
    reply = await rig.stub.Schedule(order(fire_time=late, template=template))
    assert ms(reply.fire_time) == NOW_MS + 1
    assert template_of(rig.verbs.scheduled[0]).expire_at_ms == NOW_MS + 5_000


async def test_a_past_fire_time_is_kept_as_asked(rig: Rig) -> None:
    reply = await rig.stub.Schedule(order(fire_time=at(NOW_MS - HOUR_MS)))
    assert ms(reply.fire_time) == NOW_MS - HOUR_MS


@pytest.mark.parametrize(("request_ms", "origin_ms"), [(None, NOW_MS), (NOW_MS - 59_000, NOW_MS - 59_000)])
async def test_a_delay_counts_from_request_time(rig: Rig, request_ms: int | None, origin_ms: int) -> None:
    fields = {} if request_ms is None else {"request_time": at(request_ms)}
    reply = await rig.stub.Schedule(order(fire_time=None, delay=Duration(seconds=90), **fields))
    assert ms(reply.fire_time) == origin_ms + 90_000


async def test_the_template_arrives_whole(rig: Rig) -> None:
    template = task_wire.TaskTemplate(
        queue="a/b:c",
        labels={"tenant": "7", "kind": "x"},
        content_type="application/json",
        priority=10,
        retry=task_wire.RetryPolicy(max_attempts=3, initial_backoff=Duration(seconds=2), jitter=-1),
        soft_expire_time=at(NOW_MS + 2 * HOUR_MS),
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    reply = await rig.stub.Schedule(order(template=template))
    stored = template_of(rig.verbs.scheduled[0])
    assert stored.labels == (("kind", "x"), ("tenant", "7"))
    assert stored.retry == RetryPolicy(max_attempts=3, initial_backoff_ms=2_000, jitter=0.0)
    shown = (await rig.stub.Get(wire.GetRequest(task_id=reply.task_id))).task
    assert (shown.queue, shown.priority, shown.labels["tenant"]) == ("a/b:c", 10, "7")
    assert (shown.retry.max_attempts, shown.retry.jitter, shown.payload) == (3, -1, b"hello")
    assert ms(shown.soft_expire_time) == NOW_MS + 2 * HOUR_MS
    assert not shown.HasField("expire_time")
    assert shown.state == task_wire.TASK_STATE_PENDING


async def test_a_key_names_its_task(rig: Rig) -> None:
    keep = task_wire.TaskTemplate(queue="mail", on_conflict=task_wire.CONFLICT_POLICY_KEEP)
    first = await rig.stub.Schedule(order(key="invoice-7"))
    kept = await rig.stub.Schedule(order(key="invoice-7", template=keep, fire_time=at(NOW_MS)))
    assert (kept.outcome, kept.task_id) == (task_wire.ITEM_OUTCOME_KEPT, first.task_id)
    assert ms(kept.fire_time) == NOW_MS + HOUR_MS
    assert (await rig.stub.Get(wire.GetRequest(key="invoice-7"))).task.task_id == first.task_id
    moved = await rig.stub.Reschedule(wire.RescheduleRequest(key="invoice-7", delay=Duration(seconds=1)))
    assert (moved.task_id, ms(moved.fire_time)) == (first.task_id, NOW_MS + 1_000)
    gone = await rig.stub.Cancel(wire.CancelRequest(key="invoice-7"))
    assert gone.outcome == task_wire.CANCEL_OUTCOME_CANCELLED


async def test_items_answer_each_for_itself(rig: Rig) -> None:
    await rig.stub.Schedule(order(key="taken"))
    items = [
        wire.TaskItem(payload=b"a", fire_time=at(NOW_MS)),
        wire.TaskItem(payload=b"x" * 70_000, fire_time=at(NOW_MS)),
        wire.TaskItem(payload=b"c", delay=Duration(seconds=1), template=task_wire.TaskTemplate(queue="other")),
        wire.TaskItem(payload=b"d", delay=Duration(seconds=-1)),
        wire.TaskItem(payload=b"e", fire_time=at(NOW_MS), key="taken"),
        wire.TaskItem(payload=b"f"),
        wire.TaskItem(payload=b"g", fire_time=at(NOW_MS), key="twice"),
        wire.TaskItem(payload=b"h", fire_time=at(NOW_MS), key="twice"),
    ]
    template = task_wire.TaskTemplate(queue="mail")
    reply = await rig.stub.ScheduleBatch(
        wire.ScheduleBatchRequest(template=template, items=wire.TaskItems(items=items))
    )
    assert reply.stored == 3
    assert [r.index for r in reply.results] == list(range(8))
    told = {r.index: (r.problem.field, r.problem.reason) for r in reply.results if r.problem.message}
    assert told == {
        1: ("items[1].payload", "PAYLOAD_TOO_LARGE"),
        3: ("items[3].delay", "INVALID"),
        4: ("key", "KEY_TAKEN"),
        5: ("items[5].fire_time", "INVALID"),
        7: ("items[7].key", "INVALID"),
    }
    stored = [r for r in reply.results if r.outcome == task_wire.ITEM_OUTCOME_STORED]
    assert [(await rig.stub.Get(wire.GetRequest(task_id=r.task_id))).task.payload for r in stored] == [b"a", b"c", b"g"]
    assert [ms(r.fire_time) for r in stored] == [NOW_MS, NOW_MS + 1_000, NOW_MS]


async def test_items_may_all_be_bad_and_bring_their_own_templates(rig: Rig) -> None:
    items = [wire.TaskItem(fire_time=at(NOW_MS)), wire.TaskItem(template=task_wire.TaskTemplate(queue="no space"))]
    reply = await rig.stub.ScheduleBatch(wire.ScheduleBatchRequest(items=wire.TaskItems(items=items)))
    assert reply.stored == 0
    assert [r.problem.field for r in reply.results] == ["items[0].template", "items[1].template.queue"]
    assert rig.verbs.asked == []


async def test_cancel_tells_what_the_engine_says_and_spares_it_foreign_ids(rig: Rig) -> None:
    task_id = (await rig.stub.Schedule(order())).task_id
    foreign = (await rig.stub.Schedule(order(namespace="other"))).task_id
    forged = task_id[:-3] + ("AAA" if not task_id.endswith("AAA") else "BBB")
    request = wire.CancelBatchRequest(task_ids=[foreign, task_id, forged, task_id, "nonsense!", ""])
    outcomes = (await rig.stub.CancelBatch(request)).outcomes
    names = [task_wire.CancelOutcome.Name(o).removeprefix("CANCEL_OUTCOME_") for o in outcomes]
    assert names == ["NOT_FOUND", "CANCELLED", "NOT_FOUND", "ALREADY_CANCELLED", "NOT_FOUND", "NOT_FOUND"]
    rig.verbs.asked.clear()
    for single in (wire.CancelRequest(task_id=foreign), wire.CancelRequest(task_id=forged)):
        assert (await rig.stub.Cancel(single)).outcome == task_wire.CANCEL_OUTCOME_NOT_FOUND
    assert rig.verbs.asked == []
    missing = await rig.stub.Cancel(wire.CancelRequest(key="nobody"))
    assert missing.outcome == task_wire.CANCEL_OUTCOME_NOT_FOUND


async def test_fire_now_moves_to_now(rig: Rig) -> None:
    task_id = (await rig.stub.Schedule(order())).task_id
    assert ms((await rig.stub.FireNow(wire.FireNowRequest(task_id=task_id))).fire_time) == NOW_MS


async def test_list_goes_through_pages(rig: Rig) -> None:
    sent = [(await rig.stub.Schedule(order(fire_time=at(NOW_MS + n)))).task_id for n in range(5)]
    seen, token, pages = [], "", 0
    while not pages or token:
        page = await rig.stub.List(wire.ListRequest(filter=everything(), page_size=2, page_token=token))
        seen += [task.task_id for task in page.tasks]
        token, pages = page.next_page_token, pages + 1
    assert (seen, pages) == (sent, 3)


async def test_a_page_with_payloads_stays_small(rig: Rig) -> None:
    for n in range(40):
        await rig.stub.Schedule(order(payload=b"x" * 65_536, fire_time=at(NOW_MS + n)))
    page = await rig.stub.List(wire.ListRequest(filter=everything(), page_size=1_000, include_payload=True))
    assert 1 <= len(page.tasks) < 40
    assert page.next_page_token
    assert page.ByteSize() < 4 << 20


async def test_count_with_a_range_and_from_estimates(rig: Rig) -> None:
    await rig.stub.Schedule(order())
    exact = await rig.stub.Count(wire.CountRequest(filter=everything()))
    assert (exact.count, exact.estimated) == (1, False)
    guess = await rig.stub.Count(wire.CountRequest(filter=wire.TaskFilter(queue="mail")))
    assert (guess.count, guess.estimated) == (42, True)


async def test_purge_is_a_dry_run_unless_forced(rig: Rig) -> None:
    await rig.stub.Schedule(order())
    dry = await rig.stub.Purge(wire.PurgeRequest(filter=everything()))
    assert (dry.purged, dry.dry_run, len(rig.verbs.views)) == (1, True, 1)
    real = await rig.stub.Purge(wire.PurgeRequest(filter=everything(), force=True))
    assert (real.purged, real.dry_run, len(rig.verbs.views)) == (1, False, 0)


async def put_dead_letters(rig: Rig, count: int) -> list[str]:
    for n in range(count):
        await rig.stub.Schedule(order(fire_time=at(NOW_MS + n)))
    return [rig.verbs.put_dead_letters(tasks, 0, NOW_MS + n) for n, tasks in enumerate(rig.verbs.scheduled)]


async def test_dead_letters_are_listed_in_pages(rig: Rig) -> None:
    ids = await put_dead_letters(rig, 3)
    first = await rig.stub.ListDeadLetters(wire.ListDeadLettersRequest(queue="mail", page_size=2))
    rest = await rig.stub.ListDeadLetters(
        wire.ListDeadLettersRequest(queue="mail", page_size=2, page_token=first.next_page_token)
    )
    dead_letters = [*first.dead_letters, *rest.dead_letters]
    assert [letter.task.task_id for letter in dead_letters] == ids
    assert rest.next_page_token == ""
    letter = dead_letters[0]
    assert (letter.last_error, letter.attempts, letter.task.state) == ("boom", 20, State.DEAD)
    assert (letter.task.queue, letter.task.payload, ms(letter.death_time)) == ("mail", b"hello", NOW_MS)


async def test_redrive_by_id_and_by_range(rig: Rig) -> None:
    ids = await put_dead_letters(rig, 4)
    named = await rig.stub.Redrive(wire.RedriveRequest(task_ids=[ids[0], "nonsense", ids[0]]))
    assert named.redriven == 2
    assert [r.outcome for r in named.results] == [
        task_wire.ITEM_OUTCOME_STORED,
        task_wire.ITEM_OUTCOME_NOT_STORED,
        task_wire.ITEM_OUTCOME_STORED,
    ]
    assert named.results[1].problem.reason == "NOT_A_DEAD_LETTER"
    some = await rig.stub.Redrive(wire.RedriveRequest(queue="mail", end_time=at(NOW_MS + 3)))
    assert some.redriven == 2
    assert [letter.died_at_ms for letter in rig.verbs.dead] == [NOW_MS + 3]


async def test_redrive_by_range_stops_at_its_limit(rig: Rig) -> None:
    await put_dead_letters(rig, 4)
    assert (await rig.stub.Redrive(wire.RedriveRequest(queue="mail", max_redriven=3))).redriven == 3


async def test_what_dies_again_while_its_queue_is_redriven_counts_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its new letter is on a later page, and stays there."""
    await put_dead_letters(rig, 2)
    redrive = rig.verbs.redrive

    async def dies_again(namespace: str, request: str, ids: Sequence[TaskId], asked_ms: int) -> Sequence[bool]:
        named = {task.to_bytes() for task in ids}
        again = [replace(letter, died_at_ms=NOW_MS + 10) for letter in rig.verbs.dead if letter.task_id in named]
        said = await redrive(namespace, request, ids, asked_ms)
        rig.verbs.dead += again
        return said

    monkeypatch.setattr(rig.verbs, "redrive", dies_again)
    assert (await rig.stub.Redrive(wire.RedriveRequest(queue="mail"))).redriven == 2
    assert [letter.died_at_ms for letter in rig.verbs.dead] == [NOW_MS + 10] * 2


async def test_server_info(rig: Rig) -> None:
    info = await rig.stub.GetServerInfo(wire.GetServerInfoRequest())
    assert info.version == timerd.__version__
    assert (info.durability, info.in_flight, info.workers, info.clock_trusted) == ("fsync", 6, 2, True)
    assert (info.ledger.inserted, info.ledger.unexplained, list(info.lateness_counts)) == (7, -1, [3, 4])
    assert info.uptime.seconds == 90
    assert not info.HasField("oldest_due_time")
    assert list(info.advice) == ["All is well."]
