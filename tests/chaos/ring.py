"""Three Cassandra nodes that keep each row three times, of which one or two are killed under load.

With one of them away everything goes on. With two away a majority is missing: nothing may be called stored, whoever
asks is told within the time-out of the store's requests, and when the nodes are back nothing of timerd is started anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

import grpc
from google.protobuf.duration_pb2 import Duration

from tests.chaos.books import Arrivals
from tests.chaos.faults import Fault, Hit, began, healed
from tests.chaos.stage import NAMES, Cluster
from tests.engines.cassandra_node import CassandraNode, is_taken
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1.timer_service_pb2_grpc import TimerServiceStub

NODES = 3
_HEAP = "700m"
_AWAY_S = 6.0
# Longer than anybody may be kept waiting.
_PATIENCE_S = 10.0
_REFUSED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN)
_NETWORKS = range(1, 250)


class Answer(NamedTuple):
    code: grpc.StatusCode
    after_ms: float


@contextmanager
def ring() -> Iterator[tuple[CassandraNode, ...]]:
    """Where no other ring is. One joins after the other, or they would take the same part of the ring."""
    places = ([f"127.0.{network}.{n}" for n in range(1, NODES + 1)] for network in _NETWORKS)
    addresses = next(each for each in places if not any(map(is_taken, each)))
    nodes = tuple(CassandraNode(each, heap=_HEAP, quick_start=False, seed=addresses[0]) for each in addresses)
    try:
        for node in nodes:
            node.start()
        yield nodes
    finally:
        for node in nodes:
            node.stop()


def asked(stage: Cluster) -> list[Answer]:
    """Each instance is asked once to take a task in, by a caller that does not repeat."""
    template = task_pb2.TaskTemplate(queue="nobody")
    order = pb.ScheduleRequest(template=template, payload=b"x", delay=Duration(seconds=86_400))
    answers = []
    for seat in stage.seats.values():
        with grpc.insecure_channel(seat.address) as channel:
            began_s = time.monotonic()
            code = grpc.StatusCode.OK
            try:
                TimerServiceStub(channel).Schedule(order, timeout=_PATIENCE_S)
            except grpc.RpcError as error:
                code = error.code()
            answers.append(Answer(code, (time.monotonic() - began_s) * 1000))
    return answers


def _away(stage: Cluster, victims: Sequence[CassandraNode], hit: Hit) -> Hit:
    for node in victims:
        node.kill()
    until_s = time.monotonic() + _AWAY_S
    with ThreadPoolExecutor(len(victims)) as pool:
        asking = pool.submit(_asked_until, stage, until_s)
        stage.watch.until(asking.done, "the instances have answered while nodes are away")
        hit.answers = asking.result()
        starting = [pool.submit(node.start) for node in victims]
        stage.watch.until(lambda: all(each.done() for each in starting), "the nodes are back", 300)
        for each in starting:
            each.result()
    return healed(hit)


def _asked_until(stage: Cluster, until_s: float) -> list[tuple[str, float]]:
    """The first round may still meet connections to nodes that are gone."""
    answers: list[Answer] = []
    while time.monotonic() < until_s:
        answers += asked(stage)
    return [(each.code.name, each.after_ms) for each in answers]


def one_node(stage: Cluster, rng: Random) -> Hit:
    return _away(stage, [rng.choice(stage.setting.nodes)], began(stage, *NAMES))


def two_nodes(stage: Cluster, rng: Random) -> Hit:
    return _away(stage, rng.sample(stage.setting.nodes, 2), began(stage, *NAMES))


def served(_: Cluster, books: Arrivals, hit: Hit) -> dict[str, int]:
    """Without one node all goes on."""
    said = [code for code, _ in hit.answers]
    delivered = sum(hit.hit_ms <= at_ms <= hit.healed_ms for at_ms in books.arrived_ms)
    return {"taken in meanwhile": said.count("OK"), "delivered meanwhile": delivered}


def refused(_: Cluster, __: Arrivals, hit: Hit) -> dict[str, int]:
    """Without two, nothing."""
    said = [code for code, _ in hit.answers]
    return {"refused": sum(said.count(code.name) for code in _REFUSED)}


def false_answers(fault: str, hit: Hit) -> list[str]:
    """What breaks G1 or G11."""
    if fault != "two-nodes":
        return []
    wrong = [f"OK was said {said:.0f} ms after it was asked, without a majority" for said in _after(hit, "OK")]
    return wrong + [f"no answer within {_PATIENCE_S:.0f} s" for _ in _after(hit, "DEADLINE_EXCEEDED")]


def _after(hit: Hit, code: str) -> list[float]:
    return [after_ms for said, after_ms in hit.answers if said == code]


RING_FAULTS = {
    "node": Fault(one_node, served, stops=True, nodes=(NODES,)),
    "two-nodes": Fault(two_nodes, refused, stops=True, nodes=(NODES,)),
}
