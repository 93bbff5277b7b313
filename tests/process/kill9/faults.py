"""What is done to the processes, one function a fault: it returns from when to when it lasted.

A stop lasts either shorter or longer than a lease (`beyond`); that what a stopped or dead worker had goes to another is
waited for, never timed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from tests.process.kill9.stage import HOLD_MS, LEASE_MS, Stage
from timerd.client import SyncClient
from timerd.demo.records import Kill, now_ms

HOUR_MS = 3_600_000
_SHORT_S = (0.2, 0.9)
_BEYOND_LEASE_S = (LEASE_MS / 1000, 1.5 * LEASE_MS / 1000)
_KILLED_WORKER_HOLDS = 1_000
_HOLDS_MANY_MS = (2_500, 5_000)

Inflict = Callable[[Stage, Random, bool], Kill]


class Fault(NamedTuple):
    inflict: Inflict
    # What one worker must have in hand before.
    least_in_one_hand: int = 1
    # What was delivered before or while it lasted may be delivered again, cancelled or moved after it.
    explains: bool = True
    # Short leases are needed.
    stops: bool = False
    # How long workers hold a task: long where many are to be in one hand, also on a slow machine.
    hold_ms: tuple[int, int] = HOLD_MS


def kill_server(stage: Stage, _: Random, __: bool) -> Kill:
    killed_ms = now_ms()
    stage.server.kill()
    stage.server.start()
    return Kill(killed_ms, now_ms())


def stop_server(stage: Stage, rng: Random, beyond: bool) -> Kill:
    stopped_ms = now_ms()
    stage.server.signal(signal.SIGSTOP)
    stage.watch.go_on(rng.uniform(*(_BEYOND_LEASE_S if beyond else _SHORT_S)))
    stage.server.signal(signal.SIGCONT)
    stage.let_workers_catch_up()
    return Kill(stopped_ms, now_ms())


def stop_worker(stage: Stage, rng: Random, beyond: bool) -> Kill:
    victim = max(stage.holders, key=lambda holder: len(stage.holders[holder]))
    repeats, stopped_ms = stage.watch.repeats, now_ms()
    victim.signal(signal.SIGSTOP)
    if beyond:
        stage.watch.until(lambda: stage.watch.repeats > repeats, "what the stopped worker had has gone to the other")
    else:
        stage.watch.go_on(rng.uniform(*_SHORT_S))
    stage.let_workers_catch_up()
    return Kill(stopped_ms, now_ms())


def stop_server_and_worker(stage: Stage, rng: Random, _: bool) -> Kill:
    """What both workers hold goes to the other one when the server goes on, and their acks come right behind. One of
    them is confirmed all of its acks before the other one reads what was sent to it before."""
    stopped_ms, other = now_ms(), max(stage.holders, key=lambda holder: len(stage.holders[holder]))
    (heard,) = (hand for holder, hand in stage.holders.items() if holder is not other)
    stage.server.signal(signal.SIGSTOP)
    stage.watch.go_on(rng.uniform(*_BEYOND_LEASE_S))
    other.signal(signal.SIGSTOP)
    in_hand = len(heard)
    stage.server.signal(signal.SIGCONT)
    stage.watch.until(lambda: len(heard) < in_hand / 2, "the worker that runs has heard that its acks count")
    stage.let_workers_catch_up()
    return Kill(stopped_ms, now_ms())


def stop_client(stage: Stage, rng: Random, beyond: bool) -> Kill:
    stopped_ms = now_ms()
    stage.caller.signal(signal.SIGSTOP)
    stage.watch.go_on(rng.uniform(*(_BEYOND_LEASE_S if beyond else _SHORT_S)))
    stage.caller.signal(signal.SIGCONT)
    return Kill(stopped_ms, now_ms())


def kill_worker(stage: Stage, _: Random, __: bool) -> Kill:
    victim = max(stage.holders, key=lambda holder: len(stage.holders[holder]))
    repeats, killed_ms = stage.watch.repeats, now_ms()
    victim.kill()
    del stage.holders[victim]
    stage.watch.until(lambda: stage.watch.repeats > repeats, "what the killed worker had has gone to the other")
    stage.add_holder().start()
    stage.let_workers_catch_up()
    return Kill(killed_ms, now_ms())


def step_clock(stage: Stage, rng: Random, forward: bool) -> Kill:
    """There and back: engine time stays right, so nothing may be early by anybody's clock."""
    assert stage.clock is not None
    stepped_ms = now_ms()
    with SyncClient(stage.server.address) as client:
        stage.clock.set(HOUR_MS if forward else -HOUR_MS)
        stage.watch.until(lambda: not client.server_info().clock_trusted, "the server distrusts its clock")
        stage.watch.go_on(rng.uniform(*_SHORT_S))
        stage.clock.set(0)
        stage.watch.until(lambda: client.server_info().clock_trusted, "the server trusts its clock again")
    return Kill(stepped_ms, now_ms())


FAULTS = {
    "kill": Fault(kill_server),
    "stop-server": Fault(stop_server, stops=True),
    "stop-worker": Fault(stop_worker, least_in_one_hand=50, stops=True),
    "stop-server-worker": Fault(stop_server_and_worker, stops=True),
    "stop-client": Fault(stop_client, explains=False),
    "kill-worker": Fault(kill_worker, least_in_one_hand=_KILLED_WORKER_HOLDS, hold_ms=_HOLDS_MANY_MS),
    "clock": Fault(step_clock, explains=False),
}
