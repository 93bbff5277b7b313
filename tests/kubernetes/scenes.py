"""What is done to a cluster, a function a scene: each returns figures, and leaves three instances that are ready."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes.crowd import Crowd
from tests.kubernetes.figures import Bounds, Figures, Load, figures
from tests.kubernetes.kube import Kube, Refused
from tests.process.waiting import until
from timerd.demo.records import Kill, now_ms

# G10: a rolling restart, and a crash (lease TTL of 10 s and 5 s).
_P99_MS, _CRASH_MS = 1_000.0, 15_000.0
_STEADY_S, _AFTER_S = 25.0, 5.0
_FROZEN = 'for p in /proc/[0-9]*; do [ "$(cat $p/comm)" != java ] || kill -{} "${{p#/proc/}}"; done'


@dataclass(frozen=True, slots=True)
class Stage:
    kube: Kube
    image: str
    rate: int
    # Logs go there and stay; else they are thrown away.
    keep: Path | None = None

    @contextmanager
    def folder(self, scene: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as name:
            folder = self.keep / scene.replace(" ", "-") if self.keep else Path(name)
            folder.mkdir(parents=True, exist_ok=True)
            yield folder


def under_load(
    scene: str, stage: Stage, deed: Callable[[Kube], None], bounds: Bounds, *, is_crash: bool = False
) -> Figures:
    with Crowd(stage.kube, stage.image, stage.rate, long=0 if is_crash else 4) as crowd:
        crowd.until_steady(_STEADY_S)
        began_ms = now_ms()
        deed(stage.kube)
        ended_ms = now_ms() + 1000 * _AFTER_S
        crowd.until_steady(crowd.arrived() / stage.rate + _AFTER_S)
        crowd.end()
        with stage.folder(scene) as folder:
            logs, done = crowd.logs(folder), crowd.done()
    faults = [Kill(began_ms, ended_ms)] if is_crash else []
    return figures(scene, Load(stage.rate, logs, done, began_ms, ended_ms, faults), bounds)


def roll(stage: Stage) -> Figures:
    def deed(kube: Kube) -> None:
        kube.restart()
        kube.rolled_out(600)

    return under_load("rolling restart of three", stage, deed, Bounds(p99_ms=_P99_MS, duplicates=0))


def until_ready(kube: Kube, replicas: int) -> None:
    until(lambda: list(kube.ready().values()) == [True] * replicas, f"{replicas} are ready", 300, look_s=0.5)


def scale(stage: Stage) -> Figures:
    stage.kube.scale(2)
    stage.kube.rolled_out()
    until_ready(stage.kube, 2)

    def deed(kube: Kube) -> None:
        for replicas in (5, 2):
            kube.scale(replicas)
            until_ready(kube, replicas)

    try:
        return under_load("two, five, two again", stage, deed, Bounds(p99_ms=_P99_MS, duplicates=0))
    finally:
        stage.kube.scale(3)
        stage.kube.rolled_out()


def lost_pod(stage: Stage) -> Figures:
    def deed(kube: Kube) -> None:
        kube.delete(kube.names()[1], "--grace-period=0", "--force", "--wait=false")
        until(lambda: not all(kube.ready().values()) or len(kube.ready()) < 3, "it is gone", 60, look_s=0.5)
        until_ready(kube, 3)

    return under_load("a pod deleted with grace 0", stage, deed, Bounds(most_ms=_CRASH_MS), is_crash=True)


def allowed(kube: Kube) -> int:
    """So many may be evicted: none while one is not ready."""
    return int(kube.get("poddisruptionbudget", "timerd")["status"]["disruptionsAllowed"])


def eviction(stage: Stage) -> Figures:
    """The first of two is let go; where it is back, the other may go too."""
    first, second, _ = stage.kube.names()
    until(lambda: allowed(stage.kube) == 1, "the budget allows for one", 120, look_s=0.5)
    stage.kube.evict(first)
    answer = ""
    try:
        stage.kube.evict(second)
    except Refused as refused:
        answer = str(refused)
    stage.kube.rolled_out()
    until_ready(stage.kube, 3)
    broken = () if "disruption budget" in answer else (f"the second eviction was answered {answer or 'yes'!r}",)
    return Figures("eviction beyond the budget", {"answer": answer.splitlines()[-1] if answer else ""}, broken)


def frozen_store(stage: Stage) -> Figures:
    kube = stage.kube
    restarts, began_ms = kube.restarts(), now_ms()
    cassandra = "deployment/cassandra"
    kube.execute(cassandra, "sh", "-c", _FROZEN.format("STOP"))
    try:
        until(lambda: not any(kube.ready().values()), "all are unready", 120, look_s=0.5)
        red_ms = now_ms()
    finally:
        kube.execute(cassandra, "sh", "-c", _FROZEN.format("CONT"))
    healed_ms = now_ms()
    until_ready(kube, 3)
    facts = {
        "red_after_s": round((red_ms - began_ms) / 1000, 1),
        "green_after_s": round((now_ms() - healed_ms) / 1000, 1),
        "restarts": kube.restarts() - restarts,
    }
    return Figures("frozen Cassandra", facts, (f"{facts['restarts']} restarts",) if facts["restarts"] else ())


def finding(stage: Stage) -> Figures:
    """Instances name each other by the addresses that their pods have; callers and workers do not know these."""
    pods = {str(pod["metadata"]["name"]): f"{pod['status']['podIP']}:7400" for pod in stage.kube.pods()}
    found = {name: stage.kube.execute(name, "timerd", "cluster", "--json") for name in pods}
    missing = tuple(
        f"{name} does not know {other} at {address}"
        for name, said in found.items()
        for other, address in pods.items()
        if address not in said
    )
    facts: dict[str, Any] = {"instances": len(pods)}
    for service in ("timerd", "timerd-instances"):
        target = f"dns:///{service}.{stage.kube.namespace}.svc.cluster.local:7400"
        stage.kube.execute(min(pods), "timerd", "schedule", service, "hello", "--in", "1s", "--server", target)
        said = stage.kube.execute(min(pods), "timerd", "work", service, "--count", "1", "--server", target)
        facts[service] = said.strip()
        missing += () if said.strip() == "hello" else (f"{target} delivered {said!r}",)
    return Figures("finding each other", facts, missing)


SCENES: dict[str, Callable[[Stage], Figures]] = {
    "finding": finding,
    "roll": roll,
    "scale": scale,
    "lost-pod": lost_pod,
    "eviction": eviction,
    "frozen-store": frozen_store,
}
