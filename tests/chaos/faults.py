"""What is done to a cluster under load, one function a fault, and by what each is known to have happened.

A fault lasts from `hit_ms` to `healed_ms`. It counts only if it left its trace: in what workers received (a higher
fencing token for the same partition) or in what the instances logged.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.chaos.books import Arrivals
from tests.chaos.stage import LOST_LEASE, NAMES, Cluster
from timerd.client import SyncClient
from timerd.demo.records import now_ms

HOUR_MS = 3_600_000
_FROZEN_S = 15.0
_BEYOND_TTL = (1.3, 2.5)
_DELAY_S = 0.2
_STEPPED_S = (0.5, 4.0)
_VANISHED_S = 5.0
_WITHOUT_HINTS_S = 5.0
_STORE_SILENT = "the store did not answer|membership: |has an unknown outcome"
_REDIS_SILENT = "Redis at .* does not answer"
_PEER_SILENT = "did not answer|no relay to|It will see for itself"


@dataclass(slots=True)
class Hit:
    """`victims`: the instances that it was about."""

    hit_ms: float
    healed_ms: float
    victims: tuple[str, ...]
    log_ends: dict[str, int] = field(default_factory=dict)
    note: str = ""
    # What instances said while it lasted, and after how many ms, where they were asked.
    answers: list[tuple[str, float]] = field(default_factory=list)


Inflict = Callable[[Cluster, Random], Hit]
# What is seen of it, by name, once the round is over: all must be more than 0.
Trace = Callable[[Cluster, Arrivals, Hit], dict[str, int]]


@dataclass(frozen=True, slots=True)
class Fault:
    inflict: Inflict
    trace: Trace
    # What was delivered before or while it lasted, without a confirmed ack, may be delivered again.
    explains: bool = True
    # Somebody may read late what was sent to it before.
    stops: bool = False
    # The store must be so many nodes of ours.
    nodes: tuple[int, ...] = (1, 3)


def began(stage: Cluster, *victims: str) -> Hit:
    return Hit(now_ms(), 0.0, victims, stage.log_ends())


def healed(hit: Hit, note: str = "") -> Hit:
    hit.healed_ms, hit.note = now_ms(), note
    return hit


def _beyond_ttl_s(stage: Cluster, rng: Random) -> float:
    return rng.uniform(*_BEYOND_TTL) * stage.setting.ttl_ms / 1000


# -- instances --------------------------------------------------------------------------------------------------------


def kill(stage: Cluster, rng: Random) -> Hit:
    """Its name is free again when its lease is over."""
    victim = rng.choice(NAMES)
    process = stage.seats[victim].process
    hit = began(stage, victim)
    process.kill()
    stage.watch.go_on(_beyond_ttl_s(stage, rng))
    process.start()
    return healed(hit)


def kill_and_start(stage: Cluster, rng: Random) -> Hit:
    """At once, as a supervisor does it."""
    victim = rng.choice(NAMES)
    process = stage.seats[victim].process
    hit = began(stage, victim)
    process.kill()
    process.start()
    return healed(hit)


def pause(stage: Cluster, rng: Random) -> Hit:
    victim = rng.choice(NAMES)
    hit = began(stage, victim)
    stage.seats[victim].process.signal(signal.SIGSTOP)
    stage.watch.go_on(_beyond_ttl_s(stage, rng))
    stage.seats[victim].process.signal(signal.SIGCONT)
    return healed(hit)


def roll(stage: Cluster, rng: Random) -> Hit:
    """All instances, one after the other, by SIGTERM."""
    names = rng.sample(NAMES, len(NAMES))
    hit = began(stage, *names)
    codes = []
    for name in names:
        process = stage.seats[name].process
        codes.append(process.terminate())
        process.start()
    return healed(hit, "" if not any(codes) else f"exit codes {codes}")


def step_clock(stage: Cluster, rng: Random) -> Hit:
    """There and back, of one instance, before it believes the new time (`clock_stable`)."""
    assert stage.setting.clock is not None
    victim = NAMES[0]
    hit = began(stage, victim)
    with SyncClient(stage.seats[victim].address) as client:
        stage.setting.clock.set(rng.choice((HOUR_MS, -HOUR_MS)))
        stage.watch.until(lambda: not client.server_info().clock_trusted, "the instance distrusts its clock")
        stage.watch.go_on(rng.uniform(*_STEPPED_S))
        stage.setting.clock.set(0)
        stage.watch.until(lambda: client.server_info().clock_trusted, "the instance trusts its clock again")
    return healed(hit)


# -- the store and the network ----------------------------------------------------------------------------------------


def freeze_store(stage: Cluster, _: Random) -> Hit:
    hit = began(stage, *NAMES)
    for node in stage.setting.nodes:
        node.signal(signal.SIGSTOP)
    stage.watch.go_on(_FROZEN_S)
    for node in stage.setting.nodes:
        node.signal(signal.SIGCONT)
    return healed(hit)


def cut_from_store(stage: Cluster, rng: Random) -> Hit:
    """Half of the times connections break, half of the times nothing arrives any more."""
    victim, is_cut = rng.choice(NAMES), rng.random() < 0.5
    road = stage.seats[victim].to_store
    hit = began(stage, victim)
    (road.cut if is_cut else road.hold)()
    stage.watch.go_on(_beyond_ttl_s(stage, rng))
    road.heal()
    return healed(hit, "cut" if is_cut else "held")


def cut_from_others(stage: Cluster, rng: Random) -> Hit:
    """One that nobody reaches, or nobody anybody."""
    victims = NAMES if rng.random() < 0.5 else (rng.choice(NAMES),)
    is_cut = rng.random() < 0.5
    roads = [stage.seats[name].to_it for name in victims]
    hit = began(stage, *victims)
    for road in roads:
        (road.cut if is_cut else road.hold)()
    stage.watch.go_on(_beyond_ttl_s(stage, rng))
    for road in roads:
        road.heal()
    return healed(hit, "cut" if is_cut else "held")


def slow_network(stage: Cluster, rng: Random) -> Hit:
    """Each piece takes 0.2 s, to the store and to the others."""
    victim = rng.choice(NAMES)
    roads = (stage.seats[victim].to_store, stage.seats[victim].to_it)
    hit = began(stage, victim)
    for road in roads:
        road.slow(_DELAY_S)
    stage.watch.go_on(_beyond_ttl_s(stage, rng))
    for road in roads:
        road.heal()
    return healed(hit)


def no_hints(stage: Cluster, _: Random) -> Hit:
    """Nobody hears of new rows, by neither way: sweeps must find them."""
    assert stage.setting.redis is not None
    hit = began(stage, *NAMES)
    stage.setting.redis.signal(signal.SIGSTOP)
    for seat in stage.seats.values():
        seat.to_it.cut()
    stage.watch.go_on(_WITHOUT_HINTS_S)
    for seat in stage.seats.values():
        seat.to_it.heal()
    stage.setting.redis.signal(signal.SIGCONT)
    return healed(hit)


def redis_away(stage: Cluster, rng: Random) -> Hit:
    """Killed, and empty when it comes back; meanwhile one instance is reached by nobody."""
    assert stage.setting.redis is not None
    victim = rng.choice(NAMES)
    hit = began(stage, victim)
    stage.seats[victim].to_it.cut()
    stage.setting.redis.kill()
    stage.watch.go_on(rng.uniform(*_STEPPED_S))
    stage.setting.redis.start()
    stage.seats[victim].to_it.heal()
    return healed(hit)


# -- workers ----------------------------------------------------------------------------------------------------------


def no_workers(stage: Cluster, _: Random) -> Hit:
    """Of one queue, those of the other go on."""
    hit = began(stage)
    stage.sdk.kill()
    stage.watch.go_on(_VANISHED_S)
    stage.sdk_again()
    return healed(hit)


# -- traces -----------------------------------------------------------------------------------------------------------


def _take_overs(books: Arrivals, hit: Hit) -> int:
    return sum(at_ms >= hit.hit_ms for at_ms in books.take_overs_ms)


def taken_over(_: Cluster, books: Arrivals, hit: Hit) -> dict[str, int]:
    return {"take-overs": _take_overs(books, hit)}


def lapsed(stage: Cluster, books: Arrivals, hit: Hit) -> dict[str, int]:
    said = stage.said(LOST_LEASE, hit.log_ends, hit.victims)
    return {"leases dropped": said, "take-overs": _take_overs(books, hit)}


def handed_over(stage: Cluster, books: Arrivals, hit: Hit) -> dict[str, int]:
    said = stage.said("is handed over to", hit.log_ends)
    return {"handed over": said, "take-overs": _take_overs(books, hit)}


def distrusted(stage: Cluster, books: Arrivals, hit: Hit) -> dict[str, int]:
    """The fault itself waits for it."""
    return {"clock distrusted": 1}


def store_silent(stage: Cluster, books: Arrivals, hit: Hit) -> dict[str, int]:
    return {"store silent": stage.said(_STORE_SILENT, hit.log_ends, hit.victims)}


def peers_silent(stage: Cluster, books: Arrivals, hit: Hit) -> dict[str, int]:
    return {"peers silent": stage.said(_PEER_SILENT, hit.log_ends)}


def slowed(stage: Cluster, books: Arrivals, hit: Hit) -> dict[str, int]:
    return {"late": sum(at_ms >= hit.hit_ms for at_ms, _ in books.late)}


def redis_silent(stage: Cluster, books: Arrivals, hit: Hit) -> dict[str, int]:
    return {"redis silent": stage.said(_REDIS_SILENT, hit.log_ends)}


def hints_lost(stage: Cluster, books: Arrivals, hit: Hit) -> dict[str, int]:
    """What was scheduled for a moment later, and found by a sweep after that moment."""
    found = sum(at_ms >= hit.hit_ms for at_ms, _ in books.swept)
    return {"peers silent": stage.said(_PEER_SILENT, hit.log_ends), "sweep rescues": found}


def waited(stage: Cluster, books: Arrivals, hit: Hit) -> dict[str, int]:
    return {"waited for workers": sum(at_ms >= hit.healed_ms for at_ms, _ in books.late)}


FAULTS = {
    "kill": Fault(kill, taken_over),
    "kill-start": Fault(kill_and_start, taken_over),
    "pause": Fault(pause, lapsed, stops=True),
    "roll": Fault(roll, handed_over, explains=False),
    "freeze-store": Fault(freeze_store, store_silent, stops=True),
    "cut-store": Fault(cut_from_store, lapsed, stops=True, nodes=(1,)),
    "cut-peers": Fault(cut_from_others, peers_silent, stops=True),
    "slow": Fault(slow_network, slowed, stops=True),
    "no-workers": Fault(no_workers, waited),
    "clock": Fault(step_clock, distrusted),
    "redis": Fault(redis_away, redis_silent, stops=True),
    "no-hints": Fault(no_hints, hints_lost, stops=True),
}
