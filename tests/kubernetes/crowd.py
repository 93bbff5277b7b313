"""Callers and workers in pods of their own, on the headless service, and what they wrote down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.kube import Kube
from tests.kubernetes.overlays import client, scripts
from tests.process.waiting import came, until
from timerd.demo.records import Logs, read_logs

# Longer than twice the grace of a pod that is told to end (60 s).
LONG_S = 130.0
LONG = 4
_LOGS = {"caller": "caller.log", "swift": "swift.log", "slow": "slow.log"}
_SETTLED_S, _LAST_S = LONG_S + 60, 30.0


@dataclass(frozen=True, slots=True)
class Done:
    """A handler that has ended."""

    number: int
    began_ms: float
    ended_ms: float


class Crowd:
    def __init__(self, kube: Kube, image: str, rate: int, *, long: int = LONG) -> None:
        self._kube = kube
        self.rate = rate
        target = f"dns:///timerd-instances.{kube.namespace}.svc.cluster.local:7400"
        self._pods = [
            client("swift", image, "-m", "timerd.demo.witness", target, "swift", "/data/swift.log"),
            client("slow", image, "/scripts/handler.py", target, str(rate), str(long), str(LONG_S)),
            client("caller", image, "/scripts/caller.py", target, str(rate)),
        ]

    def __enter__(self) -> Crowd:
        self._kube.apply([scripts(), *self._pods])
        names = [f"pod/{name}" for name in _LOGS]
        self._kube.run("wait", "--for=condition=Ready", *names, "--timeout=120s")
        return self

    def __exit__(self, *_: object) -> None:
        self._kube.run("delete", "pod", *_LOGS, "--wait=true")

    def arrived(self) -> int:
        return sum(self._count(pod, f"grep -c Delivery /data/{_LOGS[pod]}") for pod in ("swift", "slow"))

    def _count(self, pod: str, command: str) -> int:
        """0 also before there is anything."""
        return int(self._kube.execute(pod, "sh", "-c", f"{command} 2>/dev/null || true").strip() or 0)

    def until_steady(self, seconds: float) -> None:
        wanted = int(seconds * self.rate)
        until(lambda: self.arrived() >= wanted, f"{wanted} tasks arrive", 60 + 10 * seconds, look_s=1)

    def end(self) -> int:
        """How many were asked for. Returns when all handlers have ended, or what is missing has had its time."""
        self._kube.execute("caller", "touch", "/data/end")
        until(lambda: self._count("caller", "cat /data/asked") > 0, "all calls are answered", 90, look_s=1)
        asked = self._count("caller", "cat /data/asked")
        came(lambda: self._count("slow", "wc -l < /data/done") >= asked // 2, _SETTLED_S, look_s=2)
        came(lambda: self.arrived() >= asked, _LAST_S, look_s=2)
        return asked

    def logs(self, folder: Path) -> Logs:
        for pod, name in _LOGS.items():
            self._kube.fetch(pod, f"/data/{name}", folder / name)
        return read_logs([folder / name for name in _LOGS.values()])

    def done(self) -> list[Done]:
        lines = self._kube.execute("slow", "cat", "/data/done").splitlines()
        return [Done(int(number), float(began), float(ended)) for number, began, ended in map(str.split, lines)]
