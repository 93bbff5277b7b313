"""Who reads a schedule or a cycle, changes it and sends it back, loses nothing of its template."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from timerd.services.calls.replies import wire_of_template
from timerd.services.calls.templates import common_of
from timerd.v1 import task_pb2 as wire

# What no schedule and no cycle has.
OF_A_TASK = {"expire_time", "soft_expire_time", "on_conflict", "ordering_key"}


def test_a_template_is_shown_as_it_was_given() -> None:
    given = wire.TaskTemplate(
        queue="reports",
        labels={"team": "a"},
        content_type="text/plain",
        priority=3,
        retry=wire.RetryPolicy(
            max_attempts=3,
            initial_backoff=Duration(seconds=2),
            multiplier=3,
            max_backoff=Duration(seconds=60),
            jitter=0.5,
            attempt_timeout=Duration(seconds=90),
        ),
        traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01",
        limit_key="acme",
        expire_after=Duration(seconds=120),
        soft_expire_after=Duration(seconds=60),
        keep_result=Duration(seconds=30),
        on_end="ends",
        on_demand=True,
        stall_timeout=Duration(seconds=1, nanos=500_000_000),
    )
    assert {each.name for each in wire.TaskTemplate.DESCRIPTOR.fields} == OF_A_TASK | {
        each.name for each, _ in given.ListFields()
    }
    assert wire_of_template(common_of("default", given, "").template) == given
