"""What becomes of due rows: which may be sent, to which worker, how many and when; and how their deliveries end."""

from timerd.core.dispatch.admission import Admission
from timerd.core.dispatch.before_restart import HeldTokens
from timerd.core.dispatch.brought_back import BroughtBack
from timerd.core.dispatch.deliveries import Deliveries
from timerd.core.dispatch.delivery_machine import MAX_DELIVER_TASKS, Assignment, DeliveryMachine
from timerd.core.dispatch.demand import AHEAD_MS, FAR_AHEAD_MS, MAX_ASKED, Ask, Demand
from timerd.core.dispatch.due_times import DueTimes
from timerd.core.dispatch.flights import delivery_ids, digest_column
from timerd.core.dispatch.grants import Grants, Loan, Want
from timerd.core.dispatch.hand_count import DeliveryWatch, HandCount
from timerd.core.dispatch.in_hand_gate import InHand, InHandGate
from timerd.core.dispatch.interrupts import InterruptReason, Interrupts
from timerd.core.dispatch.key_hands import KeyHands
from timerd.core.dispatch.limits import Allowance, Credit, Limit, Limits, Slice
from timerd.core.dispatch.pacing import EXACT_TASKS_PER_MS, MOST_GRID_MS, Pacing
from timerd.core.dispatch.quantum import MOST_COUNTED, SOON_MS, Quantum
from timerd.core.dispatch.queue_stats import LATENESS_BOUNDS_MS, MOST_QUEUES, OTHERS, Histogram, QueueStats
from timerd.core.dispatch.redelivery_gate import RETURN_MS, RedeliveryGate
from timerd.core.dispatch.redelivery_guard import GuardedPlace, RedeliveryGuard
from timerd.core.dispatch.send_hold import SendHold
from timerd.core.dispatch.settlement import (
    NOT_LISTED,
    Action,
    Failure,
    LateFailure,
    Refusal,
    Settlement,
    fail_row,
    task_id_of,
)
from timerd.core.dispatch.tail import MOST_READERS, Tail, TailKind, TailLine, TailReader

__all__ = [
    "NOT_LISTED",
    "AHEAD_MS",
    "Action",
    "Admission",
    "Allowance",
    "Ask",
    "Assignment",
    "BroughtBack",
    "Credit",
    "Deliveries",
    "DeliveryMachine",
    "Demand",
    "DueTimes",
    "EXACT_TASKS_PER_MS",
    "FAR_AHEAD_MS",
    "Failure",
    "Grants",
    "GuardedPlace",
    "HandCount",
    "KeyHands",
    "HeldTokens",
    "Histogram",
    "InHand",
    "InHandGate",
    "InterruptReason",
    "Interrupts",
    "LATENESS_BOUNDS_MS",
    "LateFailure",
    "Limit",
    "Limits",
    "Loan",
    "MAX_ASKED",
    "MAX_DELIVER_TASKS",
    "MOST_COUNTED",
    "MOST_GRID_MS",
    "MOST_QUEUES",
    "OTHERS",
    "Pacing",
    "Quantum",
    "QueueStats",
    "RETURN_MS",
    "RedeliveryGate",
    "RedeliveryGuard",
    "Refusal",
    "SOON_MS",
    "SendHold",
    "Settlement",
    "Slice",
    "MOST_READERS",
    "Tail",
    "TailKind",
    "TailLine",
    "TailReader",
    "Want",
    "DeliveryWatch",
    "delivery_ids",
    "digest_column",
    "fail_row",
    "task_id_of",
]
