"""What calls of cycles answer: a cycle, its slots' costs, its members, and what a rebalance moves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from timerd.sdk.values import ScheduleState, datetime_of_ms, ms_of_timestamp
from timerd.v1 import cycle_service_pb2 as pb


@dataclass(frozen=True, slots=True)
class SlotCost:
    """A cost says how many members a slot had when it was filled last.

    Args:
        slot: the number of the slot.
        cycle: the number of the cycle in which that was.
        members: how many members were named for it then.
        weight: the sum of their weights.
    """

    slot: int
    cycle: int
    members: int
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class CycleMember:
    """A member of a cycle whose members timerd keeps.

    Args:
        key: the key, as a text.
        payload: what the handler of its tasks receives.
        weight: what a turn of it costs, beside those of others.
        place: which kind of turn it has; empty where the cycle has no places.
    """

    key: str
    payload: bytes
    weight: float = 1.0
    place: str = ""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A rebalance says which members got other moments, or would get them.

    Args:
        moved: how many members were moved, or would be.
        members: how many members there are.
        mean: what a slot costs in the mean: the sum of its members' weights.
        largest_before: what the costliest slot costs as it is.
        largest: what the costliest slot costs afterwards.
        largest_key: the costliest member, where its slot costs more than it should wherever it is, since light members
            stay; empty where that is not so.
        effective_time: from when on, in UTC, the moved ones have their new moments; None where nobody was moved.
    """

    moved: int
    members: int
    mean: float
    largest_before: float
    largest: float
    largest_key: str
    effective_time: datetime | None

    @classmethod
    def of(cls, message: pb.RebalanceCycleResponse) -> Rebalance:
        """The rebalance says what the message `message` says."""
        costs = message.mean, message.largest_before, message.largest
        effective = _instant(message, "effective_time")
        return cls(message.moved, message.members, *costs, message.largest_key, effective)


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle gives each of its members a turn in every period; this is what `get` and `list` show of it.

    Args:
        id: the id that its creator has chosen.
        namespace: the namespace of the cycle and of its tasks.
        period: how long a cycle is.
        origin: the instant in UTC from which cycles count.
        slots: how many slots a cycle has.
        lead: how long before its slot the task of a slot comes.
        queue: the queue whose workers receive the tasks of the members.
        slot_queue: the queue whose workers receive the tasks of the slots; empty where timerd keeps the members.
        state: whether its slots have tasks.
        revision: grows with each change.
        labels: the labels of the cycle, by which `list` chooses.
        note: why it is paused.
        pause_until: when the pause ends by itself, in UTC; None where it does not.
        error: why it is BROKEN.
        slots_created: how many slots have had their task.
        slots_missed: how many slots were over for a whole period when they were looked at.
        next_slot: when the next slot begins, in UTC; None where it is paused, and in a list.
        costs: how many members each slot had when it was filled last; empty in a list.
        places: the kinds of turns that a member may have, in their order; empty where there is one, without a name.
    """

    id: str
    namespace: str
    period: timedelta
    origin: datetime
    slots: int
    lead: timedelta
    queue: str
    slot_queue: str
    state: ScheduleState
    revision: int
    labels: dict[str, str]
    note: str
    pause_until: datetime | None
    error: str
    slots_created: int
    slots_missed: int
    next_slot: datetime | None
    costs: tuple[SlotCost, ...] = ()
    places: tuple[str, ...] = ()

    @classmethod
    def of(cls, message: pb.Cycle) -> Cycle:
        """The cycle says what the message `message` says."""
        return cls(
            message.cycle_id,
            message.namespace,
            message.period.ToTimedelta(),
            datetime_of_ms(ms_of_timestamp(message.origin)),
            message.slots,
            message.lead.ToTimedelta(),
            message.template.queue,
            message.slot_queue,
            ScheduleState(message.state),
            message.revision,
            dict(message.labels),
            message.note,
            _instant(message, "pause_until"),
            message.error,
            message.slots_created,
            message.slots_missed,
            _instant(message, "next_slot_time"),
            tuple(SlotCost(each.slot, each.cycle, each.members, each.weight) for each in message.costs),
            tuple(message.places),
        )


def _instant(message: pb.Cycle | pb.RebalanceCycleResponse, field: str) -> datetime | None:
    return datetime_of_ms(ms_of_timestamp(getattr(message, field))) if message.HasField(field) else None
