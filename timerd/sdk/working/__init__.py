"""What a worker is made of: its stream, lanes of handlers, leases, and what handlers say of a delivery."""

from timerd.sdk.working.dispositions import ACK, Reject, Retry, Throttled
from timerd.sdk.working.handlers import (
    BatchHandler,
    Handler,
    HandlerThreads,
    check_handler,
    check_plain,
    finished,
    name_of,
)
from timerd.sdk.working.lanes import BatchLane, Lane, SingleLane
from timerd.sdk.working.leases import split_tokens
from timerd.sdk.working.pools import Pool, SharedSlots
from timerd.sdk.working.processes import isolated
from timerd.sdk.working.settling import Settler
from timerd.sdk.working.signals import run_until_signalled
from timerd.sdk.working.startup_line import show_log
from timerd.sdk.working.time_limits import CallSpans, spans_of
from timerd.sdk.working.work_stream import WorkStream

__all__ = [
    "ACK",
    "BatchHandler",
    "BatchLane",
    "CallSpans",
    "Handler",
    "HandlerThreads",
    "Lane",
    "Pool",
    "Reject",
    "Retry",
    "Throttled",
    "Settler",
    "SharedSlots",
    "SingleLane",
    "WorkStream",
    "check_handler",
    "check_plain",
    "finished",
    "isolated",
    "name_of",
    "run_until_signalled",
    "show_log",
    "spans_of",
    "split_tokens",
]
