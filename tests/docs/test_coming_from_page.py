"""The page for those who come from another scheduler: its Python blocks run one after the other, with the real Celery,
Redis and APScheduler; what it has for Node runs in Node. Only the ports differ."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs import blocks
from tests.docs.playing import ALIVE, are_acked, play, states, work
from tests.process.children import Server
from tests.process.conftest import Children
from timerd.client import SyncClient, TaskState
from timerd.demo.processes import free_port

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
PAGE = "docs/use/coming-from.md"
REDIS, HTTP = "redis://127.0.0.1:6379", "127.0.0.1:7401"
_JS = re.compile(r"^```js\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_what_is_python_runs(server: Server, broker: str) -> None:
    names = play(blocks.blocks(blocks.read(PAGE).replace(REDIS, broker)), server.address, {})
    with SyncClient(server.address) as client:
        invoice = client.schedule("invoices", b'{"order": 18}', delay=0)
        report = client.schedule("reports", "monthly", delay=0)
        asyncio.run(work(names["worker"], lambda: are_acked(client, invoice, report)))
        assert states(client, "reports") == [TaskState.PENDING]
    assert names["made"] == ["monthly"]
    names["client"].close()


@pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed here")
def test_what_is_for_node_runs(children: Children, tmp_path: Path) -> None:
    _, after = _JS.findall(blocks.read(PAGE))
    http = f"127.0.0.1:{free_port()}"
    server = children.own(Server(tmp_path, "--http", http))
    server.start()
    program = tmp_path / "pictures.mjs"
    program.write_text(after.replace(HTTP, http))
    done = subprocess.run(["node", str(program)], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.stderr) == ("resized 17.png\n", "")
    with SyncClient(server.address) as client:
        assert client.get(key="picture-17").state is TaskState.ACKED
        assert not ALIVE.intersection(states(client, "pictures"))
