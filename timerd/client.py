"""Scheduling, cancelling, moving and looking at tasks: `Client` for asyncio, `SyncClient` for everything else.

Single calls share one stream, and those made at the same time share a message, so a plain loop of `await
client.schedule(...)` in many coroutines is fast. Every change carries a request_id and is repeated with the same bytes
until it is answered or `timeout` has passed; only then does it fail, and the error says whether the outcome is known.
"""

from timerd.sdk.async_client import Client
from timerd.sdk.backfills import Backfill, BackfillState
from timerd.sdk.connect_options import ClientKeywords, ConnectOptions
from timerd.sdk.cycles import Cycle, CycleMember, Cycles, SlotCost, SyncCycles
from timerd.sdk.errors import (
    Aborted,
    AccessDenied,
    AlreadyExists,
    FailedPrecondition,
    InvalidTask,
    NotFound,
    OutcomeUnknown,
    Overloaded,
    TimerdError,
    Unavailable,
)
from timerd.sdk.new_schedules import NewSchedule, ScheduleResult
from timerd.sdk.receiving import ReceivedTask
from timerd.sdk.schedule_values import Pruned, Schedule, ScheduleOutcome, ScheduleState, SpecKeywords, Upcoming
from timerd.sdk.schedules import Schedules, SyncSchedules
from timerd.sdk.slots import Slot, slot_hash
from timerd.sdk.sync_client import SyncClient
from timerd.sdk.task_fields import DeadLetter, Item, TaskInfo, TaskKeywords, TaskOptions
from timerd.sdk.values import (
    CancelOutcome,
    ConflictPolicy,
    Count,
    ItemOutcome,
    PartlyStored,
    Purged,
    Redriven,
    RetryPolicy,
    Task,
    TaskState,
)

__all__ = [
    "Aborted",
    "AccessDenied",
    "AlreadyExists",
    "Backfill",
    "BackfillState",
    "CancelOutcome",
    "Client",
    "ClientKeywords",
    "ConflictPolicy",
    "ConnectOptions",
    "Count",
    "Cycle",
    "CycleMember",
    "Cycles",
    "DeadLetter",
    "FailedPrecondition",
    "InvalidTask",
    "Item",
    "ItemOutcome",
    "NewSchedule",
    "NotFound",
    "OutcomeUnknown",
    "Overloaded",
    "PartlyStored",
    "Pruned",
    "Purged",
    "ReceivedTask",
    "Redriven",
    "RetryPolicy",
    "Schedule",
    "ScheduleOutcome",
    "ScheduleResult",
    "ScheduleState",
    "Schedules",
    "Slot",
    "SlotCost",
    "SpecKeywords",
    "SyncClient",
    "SyncCycles",
    "SyncSchedules",
    "Task",
    "TaskInfo",
    "TaskKeywords",
    "TaskOptions",
    "TaskState",
    "TimerdError",
    "Unavailable",
    "Upcoming",
    "slot_hash",
]
