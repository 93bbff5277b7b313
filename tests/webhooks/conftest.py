"""A whole server with targets of webhooks, whose clock the test turns. Its receivers are on loopback, which is allowed
by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.process.conftest import children
from tests.webhooks.receiver import Receiver, secret_of
from timerd.config import ServerConfig, WebhooksConfig
from timerd.testing.async_server import CONFIG, Server

__all__ = ["children"]
# Queue -> (its receiver, further settings of the target).
Targets = Mapping[str, tuple[Receiver, str]]
ServerOf = Callable[[Targets], Server]


def config_of(folder: Path, targets: Targets) -> ServerConfig:
    """The file of secrets is `secrets`, that of targets `webhooks.toml`."""
    secrets, file = folder / "secrets", folder / "webhooks.toml"
    if not secrets.exists():
        secrets.write_text(f"{secret_of('one')}\n")
    file.write_text(
        "\n".join(
            f'[{queue}]\nurl = "{receiver.url}"\nsecret_file = "{secrets}"\n{more}\n'
            for queue, (receiver, more) in targets.items()
        )
    )
    hosts = ("127.0.0.1",)
    webhooks = WebhooksConfig(targets_file=file, hosts=hosts, insecure_hosts=hosts, private_networks=("127.0.0.1/32",))
    return replace(CONFIG, webhooks=webhooks)


@pytest.fixture
def server_of(tmp_path: Path) -> ServerOf:
    return lambda targets: Server(config=config_of(tmp_path, targets))
