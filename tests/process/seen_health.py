"""What a load balancer, a kubelet and an operator see of a server's health."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from timerd.demo.processes import free_port

PARTS = ("api", "scheduler", "store", "live")
_ASK_S = 20.0


class SeenHealth:
    """Of the server at `address` that was started with `options`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.http = f"127.0.0.1:{free_port()}"
        # A canary each second, so that nobody waits long.
        self.options = ("--http", self.http, "--canary", "1s")

    def red(self) -> set[str]:
        """By gRPC, as kubelets ask."""
        with grpc.insecure_channel(self.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            said = {part: stub.Check(health_pb2.HealthCheckRequest(service=part), timeout=_ASK_S) for part in PARTS}
        return {part for part, each in said.items() if each.status != health_pb2.HealthCheckResponse.SERVING}

    def reasons(self) -> dict[str, dict[str, str]]:
        """By HTTP: why it is not ready, part by part."""
        said: dict[str, dict[str, str]] = self._get("/readyz")[1]["wrong"]
        return said

    def is_ready(self) -> bool:
        return self._get("/readyz")[0] == 200

    def is_alive(self) -> bool:
        return self._get("/healthz")[0] == 200

    def fired(self) -> int:
        """Canaries that went the whole way."""
        text = self._ask("/metrics")[1]
        [line] = [each for each in text.splitlines() if each.startswith('timerd_canary_runs_total{outcome="fired"}')]
        return int(float(line.rpartition(" ")[2]))

    def _get(self, path: str) -> tuple[int, Any]:
        code, text = self._ask(path)
        return code, json.loads(text)

    def _ask(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=_ASK_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
