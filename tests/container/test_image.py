"""The image, built and run: not root, nothing writable but its data, PID 1 that hears SIGTERM, health from within."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.engine import build, docker
from tests.process.waiting import until
from timerd.client import SyncClient
from timerd.demo.processes import free_port

pytestmark = [pytest.mark.container, pytest.mark.timeout(1_800)]
# As Kubernetes' restricted pods run it.
HARDENED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "host")
STOP_S = 30


class Container:
    def __init__(self, image: str, *options: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        own = ("--env", f"TIMERD_LISTEN={self.address}", "--env", f"TIMERD_SERVER={self.address}")
        self.id = docker("run", "--detach", *HARDENED, *own, *options, image).stdout.strip()

    def run(self, *words: str) -> tuple[int, str]:
        done = docker("exec", self.id, *words, check=False)
        return done.returncode, (done.stdout + done.stderr).strip()

    def wait_until_healthy(self) -> None:
        until(lambda: self.run("timerd", "health") == (0, "SERVING"), "the container is healthy", 120)

    def stop(self) -> int:
        """The exit code."""
        docker("stop", "--time", str(STOP_S), self.id)
        return int(docker("inspect", "--format", "{{.State.ExitCode}}", self.id).stdout)

    def remove(self) -> None:
        docker("rm", "--force", "--volumes", self.id, check=False)


@pytest.fixture
def container(image: str) -> Iterator[Container]:
    container = Container(image)
    try:
        container.wait_until_healthy()
        yield container
    finally:
        container.remove()


def test_it_is_one_process_that_is_not_root_and_has_no_capability(container: Container) -> None:
    status = container.run("cat", "/proc/1/status")[1].splitlines()
    facts = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    assert facts["Uid"].split() == facts["Gid"].split() == ["65532"] * 4
    assert facts["CapEff"].strip() == "0" * 16
    assert container.run("cat", "/proc/1/cmdline")[1].split("\0")[1:3] == ["/opt/timerd/bin/timerd", "serve"]


def test_only_its_data_can_be_written(container: Container) -> None:
    for place in ("/here", "/opt/timerd/here", "/usr/here"):
        assert container.run("touch", place)[0] != 0
    assert container.run("touch", "/data/here") == (0, "")


def test_it_serves_and_ends_by_sigterm_long_before_the_kill(container: Container) -> None:
    with SyncClient(container.address) as client:
        task = client.schedule("mails", b"hello", delay=3_600)
        assert client.get(task.id).payload == b"hello"
    assert container.stop() == 0
    last = docker("logs", container.id).stdout.splitlines()[-1]
    assert json.loads(last)["stopped"] is True


def test_tasks_outlive_their_container(image: str) -> None:
    volume = docker("volume", "create").stdout.strip()
    ids: list[str] = []
    try:
        for _ in range(2):
            container = Container(image, "--volume", f"{volume}:/data")
            try:
                container.wait_until_healthy()
                with SyncClient(container.address) as client:
                    ids = ids or [client.schedule("mails", b"hello", delay=3_600).id]
                    assert client.get(ids[0]).payload == b"hello"
                assert container.stop() == 0
            finally:
                container.remove()
    finally:
        docker("volume", "rm", "--force", volume)


def test_it_is_not_open_to_everybody_unless_it_is_told_so(image: str) -> None:
    done = docker("run", "--rm", "--network", "none", image, check=False)
    assert done.returncode == 2
    assert "0.0.0.0:7400 can be reached from other machines" in done.stderr


def test_the_same_tree_gives_the_same_files(image: str, context: Path, base_image: str) -> None:
    """Not from the cache of the engine. Each file is what it was, with its time; the folder is made by the engine."""
    again = build(context, base_image, f"{image}-again", "--no-cache")
    hashes, facts = (
        "find . -type f -print0 | sort -z | xargs -0 sha256sum",
        "find . -mindepth 1 -printf '%p %m %T@\\n' | sort",
    )
    listing = f"cd /opt/timerd && {hashes} && {facts}"
    try:
        first, second = (
            docker("run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", each, "-c", listing).stdout
            for each in (image, again)
        )
        assert len(first.splitlines()) > 1_000
        assert first == second
    finally:
        docker("image", "rm", "--force", f"{image}-again", check=False)


def test_the_health_check_is_built_in(image: str) -> None:
    config = json.loads(docker("image", "inspect", "--format", "{{json .Config}}", image).stdout)
    assert config["Healthcheck"]["Test"] == ["CMD", "timerd", "health"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("65532:65532", ["timerd"], ["serve"])
