"""A delivery is a view on the columns of its message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.sdk.fake_server import deliver_of, token_of
from timerd.sdk.values.deliveries import DeliveredBatch, Delivery
from timerd.sdk.values.ids import encode_id
from timerd.sdk.working.leases import Hold, InHand
from timerd.v1 import work_service_pb2 as wk


def test_every_field_comes_from_its_column() -> None:
    message = deliver_of("q", [b"one", b"", b"three"], first=7)
    message.attempts.extend([1, 4, 2])
    message.late.append(1)
    message.keys.extend(["", "k", ""])
    message.traceparents.extend(["t0", "t1", "t2"])
    message.templates.append(wk.DeliveryTemplate(labels={"c": "d"}, fencing_scope="z", fencing_token=9, priority=3))
    message.template_index.extend([0, 1, 0])
    first, second, third = (Delivery(DeliveredBatch(message), index) for index in range(3))
    assert [first.payload, second.payload, third.payload] == [b"one", b"", b"three"]
    assert second.task_id == encode_id((8).to_bytes(44, "big"))
    assert second.delivery_id == encode_id((8).to_bytes(20, "big"))
    assert [first.attempt, second.attempt, third.attempt] == [1, 4, 2]
    assert [first.late, second.late] == [False, True]
    assert (second.key, second.traceparent, second.queue) == ("k", "t1", "q")
    assert (first.labels, first.content_type, first.fencing_scope, first.fencing_token) == (
        {"a": "b"},
        "text/plain",
        "s",
        7,
    )
    assert (second.labels, second.fencing_scope, second.fencing_token, second.priority) == ({"c": "d"}, "z", 9, 3)


def test_absent_columns_have_their_defaults() -> None:
    message = deliver_of("q", [b"ab", b"cd"])
    del message.payload_lengths[:]
    message.payload_lengths.append(2)
    delivery = Delivery(DeliveredBatch(message), 1)
    assert (delivery.payload, delivery.attempt, delivery.late) == (b"cd", 1, False)
    assert (delivery.key, delivery.traceparent, delivery.lost) == ("", "", False)
    bare = Delivery(DeliveredBatch(wk.Deliver(queue="q", fire_at_ms=[1], task_ids=bytes(44))), 0)
    assert (bare.payload, bare.labels, bare.fencing_token) == (b"", {}, 0)


def test_times_are_aware_and_lateness_is_never_negative() -> None:
    delivery = Delivery(DeliveredBatch(deliver_of("q", [b""], fire_at_ms=1_700_000_000_123)), 0)
    assert delivery.fire_time == datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(milliseconds=123)
    assert delivery.lateness > timedelta(days=1)
    ahead = Delivery(DeliveredBatch(deliver_of("q", [b""], fire_at_ms=32_503_680_000_000)), 0)
    assert ahead.lateness == timedelta(0)


def test_the_payload_is_sliced_once() -> None:
    delivery = Delivery(DeliveredBatch(deliver_of("q", [b"one", b"two"])), 1)
    assert delivery.payload is delivery.payload


def test_what_is_lost_is_no_longer_extended_and_the_handler_can_see_it() -> None:
    in_hand = InHand()
    batch = DeliveredBatch(deliver_of("q", [b"", b"", b""]), in_hand.lost)
    hold = Hold(batch, 0, 3)
    in_hand.add(hold)
    in_hand.mark_lost(token_of(1) + token_of(99), 64)
    assert [delivery.lost for delivery in hold.deliveries()] == [False, True, False]
    assert in_hand.tokens() == token_of(0) + token_of(2)
    in_hand.remove(hold)
    assert not in_hand.lost
    assert not in_hand


def test_a_hold_is_split_without_losing_a_task() -> None:
    in_hand = InHand()
    hold = Hold(DeliveredBatch(deliver_of("q", [b""] * 5)), 0, 5)
    in_hand.add(hold)
    taken = in_hand.split(hold, 2)
    assert (len(taken), len(hold), len(in_hand)) == (2, 3, 5)
    assert taken.tokens + hold.tokens == b"".join(map(token_of, range(5)))
