"""`timerd dev`: nothing to set up, and the addresses are said."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest

from tests.process.children import Child
from tests.process.conftest import Children
from timerd.client import SyncClient
from timerd.demo.processes import free_port

pytestmark = pytest.mark.process


def test_it_says_where_its_page_is_and_what_to_try(children: Children, tmp_path: Path) -> None:
    http, listen = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    command = ["-m", "timerd.cli", "dev", "--data", str(tmp_path / "data"), "--http", http, "--listen", listen]
    running = children.own(Child(command, tmp_path / "err"))
    assert running.start() == "timerd is ready. Ctrl-C stops it, and its tasks stay.\n"
    said = "".join(running.rest(11))
    addresses = dict(re.findall(r"^  (page|gRPC|metrics) +(\S+)$", said, re.MULTILINE))
    assert addresses == {"page": f"http://{http}/ui/", "gRPC": listen, "metrics": f"http://{http}/metrics"}
    assert f"timerd schedule mails hello --in 5s --server {listen}" in said
    for address in (addresses["page"], addresses["metrics"]):
        with urllib.request.urlopen(address) as answer:
            assert answer.status == 200
    with SyncClient(listen) as client:
        task = client.schedule("mails", b"hello", delay=3600)
    assert running.terminate() == 0
    running.start()
    with SyncClient(listen) as client:
        assert client.get(task.id).payload == b"hello"
