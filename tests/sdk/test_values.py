"""Ids, enums and errors say on this side what they say on the wire."""

from __future__ import annotations

import copy

import grpc
import pytest

from tests.sdk.fake_server import SCOPE, mac_of, placement_of
from timerd import client as face
from timerd.client import (
    CancelOutcome,
    ConflictPolicy,
    InvalidTask,
    ItemOutcome,
    Overloaded,
    RetryPolicy,
    TaskState,
    TimerdError,
)
from timerd.model.identity import parse_task_id
from timerd.sdk.values.errors import error_of_problem, is_retryable
from timerd.sdk.values.ids import Composer
from timerd.v1 import task_pb2


def test_ids_are_composed_as_the_server_reads_them() -> None:
    fire_at_ms = [1_800_000_000_123, 1_800_000_300_456, 1_800_000_000_124]
    placement = placement_of("r", fire_at_ms)
    placement.priority = 3
    for index, position_ms in enumerate(fire_at_ms):
        parsed = parse_task_id(Composer(placement, fire_at_ms).task_id(index))
        assert parsed is not None
        bucket_ms = position_ms - position_ms % 300_000
        assert parsed.position_ms == position_ms
        assert parsed.shard == placement.shards[list(placement.bucket_start_ms).index(bucket_ms)]
        assert (parsed.scope, parsed.priority, parsed.prefix) == (SCOPE, 3, placement.prefix)
        assert (parsed.item, parsed.mac) == (index, mac_of(bucket_ms))


def test_a_task_that_lives_elsewhere_than_at_its_fire_time_has_that_place_in_its_id() -> None:
    placement = placement_of("r", [600_000])
    placement.position_ms.append(600_000)
    parsed = parse_task_id(Composer(placement, [5]).task_id(0))
    assert parsed is not None
    assert parsed.position_ms == 600_000


@pytest.mark.parametrize(
    ("ours", "wire", "prefix"),
    [
        (TaskState, task_pb2.TaskState, "TASK_STATE_"),
        (ItemOutcome, task_pb2.ItemOutcome, "ITEM_OUTCOME_"),
        (CancelOutcome, task_pb2.CancelOutcome, "CANCEL_OUTCOME_"),
        (ConflictPolicy, task_pb2.ConflictPolicy, "CONFLICT_POLICY_"),
    ],
)
def test_enums_have_the_names_and_numbers_of_the_wire(ours: type[TaskState], wire: object, prefix: str) -> None:
    assert {f"{prefix}{member.name}": member.value for member in ours} == dict(wire.items())  # type: ignore[attr-defined]
    assert ours(99).name == "UNSPECIFIED"


@pytest.mark.parametrize(("asked", "wire"), [(None, 0.0), (0, -1.0), (0.0, -1.0), (0.25, 0.25), (1, 1.0)])
def test_no_jitter_can_be_asked_for(asked: float | None, wire: float) -> None:
    """On the wire 0 stands for the default, so none travels as a negative value."""
    assert RetryPolicy(jitter=asked).to_proto().jitter == wire


@pytest.mark.parametrize("asked", [-1, 1.5, float("nan"), "some"])
def test_a_jitter_out_of_its_range_is_refused(asked: float) -> None:
    with pytest.raises(InvalidTask, match="leave it out for the server's default"):
        RetryPolicy(jitter=asked).to_proto()


def problem(code: grpc.StatusCode, reason: str = "", retry_after_ms: int = 0) -> task_pb2.Problem:
    return task_pb2.Problem(code=code.value[0], message="No.", reason=reason, retry_after_ms=retry_after_ms, field="f")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "InvalidTask"),
        (grpc.StatusCode.NOT_FOUND, "NotFound"),
        (grpc.StatusCode.ALREADY_EXISTS, "AlreadyExists"),
        (grpc.StatusCode.FAILED_PRECONDITION, "FailedPrecondition"),
        (grpc.StatusCode.ABORTED, "Aborted"),
        (grpc.StatusCode.UNAVAILABLE, "Unavailable"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Overloaded"),
        (grpc.StatusCode.PERMISSION_DENIED, "AccessDenied"),
        (grpc.StatusCode.UNAUTHENTICATED, "AccessDenied"),
        (grpc.StatusCode.INTERNAL, "TimerdError"),
    ],
)
def test_each_code_has_its_error(code: grpc.StatusCode, name: str) -> None:
    error = error_of_problem(problem(code, "WHY", 1500))
    assert type(error) is getattr(face, name)
    assert (error.code, error.reason, error.retry_after, error.field) == (code.name, "WHY", 1.5, "f")
    assert str(error) == "No."


@pytest.mark.parametrize(
    ("code", "reason", "retry_after_ms", "expected"),
    [
        (grpc.StatusCode.UNAVAILABLE, "STORE_DOWN", 0, True),
        (grpc.StatusCode.UNAVAILABLE, "", 0, True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "BUSY", 10, True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "", 0, False),
        (grpc.StatusCode.ABORTED, "", 0, True),
        (grpc.StatusCode.ABORTED, "MOVED", 0, False),
        (grpc.StatusCode.UNKNOWN, "", 0, True),
        (grpc.StatusCode.INVALID_ARGUMENT, "", 0, False),
        (grpc.StatusCode.NOT_FOUND, "TASK", 0, False),
    ],
)
def test_what_is_repeated(code: grpc.StatusCode, reason: str, retry_after_ms: int, expected: bool) -> None:
    assert is_retryable(error_of_problem(problem(code, reason, retry_after_ms))) is expected


def test_errors_can_be_copied_for_each_who_waits() -> None:
    error = Overloaded("Too much.", reason="BUSY", retry_after=2.0)
    twin = copy.copy(error)
    assert isinstance(twin, TimerdError)
    assert (str(twin), twin.reason, twin.retry_after, twin.code) == ("Too much.", "BUSY", 2.0, "RESOURCE_EXHAUSTED")


def test_the_public_face_names_what_it_has() -> None:
    assert all(hasattr(face, name) for name in face.__all__)
