"""The clients: tasks, keys, dead letters, schedules, cycles and queues, by asyncio and without."""

from timerd.sdk.scheduling.adaptive import Adaptive
from timerd.sdk.scheduling.async_client import Client
from timerd.sdk.scheduling.backfills import Backfill, BackfillState
from timerd.sdk.scheduling.cycle_values import Cycle, CycleMember, Rebalance, SlotCost
from timerd.sdk.scheduling.cycles import Cycles, SyncCycles
from timerd.sdk.scheduling.key_rules import KeyLimit, KeyRules, KeyRulesInfo
from timerd.sdk.scheduling.limits import KeyAtLimit, LimitInfo, Limits, SyncLimits
from timerd.sdk.scheduling.moves import Move, Moved
from timerd.sdk.scheduling.new_schedules import NewSchedule, ScheduleResult
from timerd.sdk.scheduling.queue_infos import BreakerState, KeyInfo, OnFailure, QueueInfo, QueueMode, QueueOrder
from timerd.sdk.scheduling.queue_limits import QueueLimit
from timerd.sdk.scheduling.queues import Queues, SyncQueues
from timerd.sdk.scheduling.receiving import Extended, ReceivedTask
from timerd.sdk.scheduling.schedules import Opened, Schedules, SyncSchedules
from timerd.sdk.scheduling.sync_client import SyncClient
from timerd.sdk.scheduling.sync_twin import Caller
from timerd.sdk.scheduling.watching import DeliveryEvent, DeliveryEventKind, Watched

__all__ = [
    "Adaptive",
    "Backfill",
    "BackfillState",
    "Caller",
    "Client",
    "Cycle",
    "CycleMember",
    "Cycles",
    "DeliveryEvent",
    "DeliveryEventKind",
    "KeyInfo",
    "KeyLimit",
    "KeyRules",
    "KeyAtLimit",
    "KeyRulesInfo",
    "LimitInfo",
    "Limits",
    "Move",
    "Moved",
    "NewSchedule",
    "OnFailure",
    "Opened",
    "QueueInfo",
    "QueueLimit",
    "QueueMode",
    "QueueOrder",
    "BreakerState",
    "Queues",
    "Extended",
    "ReceivedTask",
    "ScheduleResult",
    "Schedules",
    "Rebalance",
    "SlotCost",
    "SyncClient",
    "SyncCycles",
    "SyncLimits",
    "SyncQueues",
    "SyncSchedules",
    "Watched",
]
