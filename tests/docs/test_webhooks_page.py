"""The page of webhooks works as it stands there: its files, its flags and its receiver; only the ports differ."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import blocks
from tests.process.children import Child, Server
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.client import SyncClient, TaskState
from timerd.demo.processes import free_port

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed here"),
]
PAGE = "docs/use/webhooks.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_runs_as_typed(children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    port = str(free_port())
    (_, secret), (_, targets), (_, serve), (_, receiver) = _BLOCK.findall(blocks.read(PAGE))
    subprocess.run(["bash", "-euo", "pipefail", "-c", secret], check=True, timeout=60)
    Path("webhooks.toml").write_text(targets.replace("8080", port))
    Path("receiver.py").write_text(receiver.replace("8080", port))
    command, verb, *flags = shlex.split(serve.replace("\\\n", ""))
    assert (command, verb) == ("timerd", "serve")
    server = children.own(Server(tmp_path, *flags))
    server.start()
    with SyncClient(server.address, timeout=60) as client:
        # Nobody listens yet: the receiver gets it in a later attempt.
        task = client.schedule("mails", b"tea is ready", delay=0)
        receiving = children.own(Child(["receiver.py"], tmp_path / "errors-of-receiver"))
        assert re.fullmatch(r"tea is ready in attempt \d+\n", receiving.start())
        client.schedule("mails", b"call Ada", delay=0)
        assert receiving.hear() == "call Ada in attempt 1\n"
        until(lambda: client.get(task.id).state is TaskState.ACKED, "the first is acknowledged")


def test_its_receiver_takes_nothing_that_is_not_signed(tmp_path: Path) -> None:
    (tmp_path / "mails.secret").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    [receiver] = blocks.blocks(blocks.read(PAGE))
    functions = receiver.partition("class Hook")[0]
    check = f"""{functions}
time.time = lambda: 1614265330
signed = {{"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330"}}
signed["webhook-signature"] = "v1a,x v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
body = b'{{"test": 2432232314}}'
late = {{**signed, "webhook-timestamp": "1614265631"}}
other = {{**signed, "webhook-id": "msg_2"}}
print(*[is_genuine(*each) for each in ((signed, body), (signed, body + b" "), (late, body), (other, body))])
"""
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("True False False False\n", "")
