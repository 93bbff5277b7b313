"""A namespace on the cluster that KUBECONFIG names, and what tests do there: all of it by kubectl, as operators do."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

SELECTOR = "app.kubernetes.io/name=timerd,app.kubernetes.io/component=instance"
_PATIENCE_S = 300.0
Document = dict[str, Any]


class Refused(Exception):
    """What the cluster said."""


class Kube:
    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def run(self, *words: str, stdin: str = "", patience_s: float = _PATIENCE_S) -> str:
        command = ["kubectl", "--namespace", self.namespace, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=patience_s)
        if done.returncode:
            raise Refused((done.stderr or done.stdout).strip())
        return done.stdout

    def get(self, *words: str) -> Any:  # noqa: ANN401 - whatever JSON there is
        return json.loads(self.run("get", *words, "--output", "json"))

    def apply(self, documents: list[Document]) -> None:
        self.run("apply", "--filename", "-", stdin=yaml.safe_dump_all(documents))

    def is_there(self) -> bool:
        return bool(self.run("get", "namespace", self.namespace, "--ignore-not-found", "--output", "name"))

    def remove(self) -> None:
        self.run("delete", "namespace", self.namespace, "--wait=true", "--ignore-not-found")

    def execute(self, pod: str, *words: str, stdin: str = "", patience_s: float = _PATIENCE_S) -> str:
        options = ["--stdin"] if stdin else []
        return self.run("exec", *options, pod, "--", *words, stdin=stdin, patience_s=patience_s)

    def fetch(self, pod: str, path: str, to: Path) -> None:
        with to.open("wb") as file:
            command = ["kubectl", "--namespace", self.namespace, "exec", pod, "--", "cat", path]
            subprocess.run(command, stdout=file, check=True, timeout=_PATIENCE_S)

    def pods(self) -> list[Document]:
        """The instances, by name."""
        found: list[Document] = self.get("pods", "--selector", SELECTOR)["items"]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def names(self) -> list[str]:
        return [str(pod["metadata"]["name"]) for pod in self.pods()]

    def ready(self) -> dict[str, bool]:
        return {
            str(pod["metadata"]["name"]): any(
                each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", [])
            )
            for pod in self.pods()
        }

    def restarts(self) -> int:
        return sum(each["restartCount"] for pod in self.pods() for each in pod["status"].get("containerStatuses", []))

    def rolled_out(self, patience_s: float = _PATIENCE_S) -> None:
        self.run("rollout", "status", "statefulset/timerd", f"--timeout={patience_s:.0f}s", patience_s=patience_s + 30)

    def restart(self) -> None:
        self.run("rollout", "restart", "statefulset/timerd")

    def scale(self, replicas: int) -> None:
        self.run("scale", "statefulset/timerd", f"--replicas={replicas}")

    def delete(self, pod: str, *options: str) -> None:
        self.run("delete", "pod", pod, *options)

    def evict(self, pod: str) -> None:
        """Raises Refused where the budget says no."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": self.namespace}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        self.run("create", "--raw", path, "--filename", "-", stdin=json.dumps(body))


def no_cluster() -> str:
    """Why there is none; empty: there is one."""
    if not os.environ.get("KUBECONFIG"):
        return "no cluster: KUBECONFIG names none"
    try:
        Kube("default").run("version", "--output", "json", patience_s=20)
    except (Refused, FileNotFoundError, subprocess.TimeoutExpired) as error:
        return f"no cluster: {error}"
    return ""
