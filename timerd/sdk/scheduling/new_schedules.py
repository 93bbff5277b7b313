"""Schedules that are to be created, one or many: what a caller says of each, as a part of a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Unpack

from timerd.sdk.values import (
    CATCH_UP,
    OVERLAP,
    Span,
    SpecKeywords,
    TaskOptions,
    TimerdError,
    duration_of_ms,
    error_of_problem,
    flag,
    invalid,
    labels_tuple,
    listed,
    name,
    one_of,
    payload_bytes,
    span_ms,
    spec_of,
    template_of,
    whole_number,
)
from timerd.v1 import schedule_service_pb2 as pb

MAX_SCHEDULES = 1_000
# What is exact in JSON.
MAX_COUNT = 1 << 53
# Payloads are up to 64 KiB, and a server takes 16 MiB as one message.
MAX_BYTES = 4 << 20
_CONFLICTS = {"reject": 1, "update": 2}


class NewSchedule:
    """A new schedule says what `Schedules.create_many` creates; its arguments are those of `Schedules.create`.

    Args:
        schedule_id: a name of the caller's choice, unique in the namespace.
        queue: the queue whose workers receive the tasks.
        payload: what the handler receives, bytes or a text; up to 64 KiB.
        catch_up: as for `Schedules.create`: "latest" (default), "all" or "none".
        catch_up_window: as for `Schedules.create`, a timedelta or seconds. Default no limit.
        max_count: the schedule is done after so many tasks. Default 0, any number.
        overlap: as for `Schedules.create`. Default "allow".
        pause_on_dead: whether a dead letter of it pauses the schedule. Default not.
        labels: labels of the schedule itself. Default none.
        on_conflict: "reject" (the default), or "update": a schedule of this id becomes what is asked for.
        options: what else its tasks have, as for `Client.schedule`; without `expire_at` and `soft_expire_at`.
        when: when it comes, the keywords of `SpecKeywords`.

    Raises:
        InvalidTask: an argument is wrong.
    """

    def __init__(
        self,
        schedule_id: str,
        *,
        queue: str,
        payload: bytes | str = b"",
        catch_up: str = "latest",
        catch_up_window: Span | None = None,
        max_count: int = 0,
        overlap: str = "allow",
        pause_on_dead: bool = False,
        labels: Mapping[str, str] | None = None,
        on_conflict: str = "reject",
        options: TaskOptions | None = None,
        **when: Unpack[SpecKeywords],
    ) -> None:
        self.message = pb.CreateScheduleRequest(
            schedule_id=name(schedule_id, "schedule_id"),
            spec=spec_of("create", when),
            policies=policies_of(catch_up, catch_up_window, max_count, overlap, pause_on_dead=pause_on_dead),
            template=template_of("create", queue, options, {}).to_proto(),
            payload=payload_bytes(payload),
            labels=dict(labels_tuple(labels)),
            on_conflict=one_of(on_conflict, "on_conflict", _CONFLICTS),  # type: ignore[arg-type]
        )

    def __repr__(self) -> str:
        return f"NewSchedule({self.message.schedule_id!r})"


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """A result says what became of one schedule of many.

    Args:
        id: the id that was asked for.
        revision: 1 of a schedule that is new; 0 of one that was refused.
        error: why it was refused, as `Schedules.create` would have raised it; None where it was not.
    """

    id: str
    revision: int
    error: TimerdError | None

    @classmethod
    def of(cls, message: pb.CreateScheduleResult) -> ScheduleResult:
        """The result says what the message `message` says."""
        error = error_of_problem(message.problem) if message.HasField("problem") else None
        return cls(message.schedule_id, message.revision, error)


def messages_of(schedules: Iterable[NewSchedule]) -> Iterator[list[pb.CreateScheduleRequest]]:
    """Each as long as a message may be. Those of a call that is made again are the same."""
    part: list[pb.CreateScheduleRequest] = []
    size_bytes = 0
    for each in listed(schedules, "schedules"):
        if not isinstance(each, NewSchedule):
            raise invalid(f"`schedules` holds {each!r:.200}: give a NewSchedule each.", "schedules")
        own_bytes = each.message.ByteSize()
        if part and (len(part) == MAX_SCHEDULES or size_bytes + own_bytes > MAX_BYTES):
            yield part
            part, size_bytes = [], 0
        part.append(each.message)
        size_bytes += own_bytes
    if part:
        yield part


def policies_of(
    catch_up: str, window: Span | None, max_count: int, overlap: str, *, pause_on_dead: bool
) -> pb.SchedulePolicies:
    policies = pb.SchedulePolicies(
        catch_up=one_of(catch_up, "catch_up", CATCH_UP),  # type: ignore[arg-type]
        max_count=whole_number(max_count, "max_count", 0, MAX_COUNT),
        overlap=one_of(overlap, "overlap", OVERLAP),  # type: ignore[arg-type]
        pause_on_dead=flag(pause_on_dead, "pause_on_dead"),
    )
    if window is not None:
        policies.catch_up_window.CopyFrom(duration_of_ms(span_ms(window, "catch_up_window", may_be_none=False)))
    return policies
