"""Several instances of timerd as processes of their own, on one Cassandra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.engines.finding import Found
from tests.process.children import NOTHING, Child
from timerd.demo.processes import free_port


def options_of(found: Found, keyspace: str) -> list[str]:
    """Which store `timerd serve` and `timerd schema apply` mean."""
    node = f"{found.address}:{found.port}"
    return ["--cassandra", node, "--keyspace", keyspace, "--datacenter", found.datacenter]


class Instance(Child):
    """`timerd serve` on a loopback port, which it keeps over restarts."""

    def __init__(
        self,
        name: str,
        found: Found,
        keyspace: str,
        folder: Path,
        *options: str,
        port: int | None = None,
        environment: Mapping[str, str] = NOTHING,
    ) -> None:
        self.name = name
        self.address = f"127.0.0.1:{port or free_port()}"
        where = ["--listen", self.address, "--name", name, *options_of(found, keyspace), *options]
        serve = ["-m", "timerd.cli", "serve", "--store", "cassandra", *where]
        super().__init__(serve, folder / f"{name}.err", environment)


def start_all(instances: Sequence[Instance]) -> list[str]:
    """At the same time; the line that each said."""
    with ThreadPoolExecutor(len(instances)) as pool:
        return [line.strip() for line in pool.map(Instance.start, instances)]


def end_all(instances: Sequence[Instance]) -> None:
    """Those that are left, at once."""
    for instance in instances:
        instance.kill()
