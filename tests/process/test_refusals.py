"""What a server refuses to start on, in a sentence that says what to do; and who may read what it writes."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.process.children import Server, run_cli
from timerd.client import SyncClient
from timerd.demo.processes import free_port

pytestmark = pytest.mark.process


def refusal(*arguments: str, prefix: tuple[str, ...] = ()) -> str:
    """The one line on stderr of a `timerd serve` that fails."""
    done = run_cli("serve", *arguments, prefix=prefix)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_second_process_on_the_same_data_fails_closed(server: Server) -> None:
    said = refusal("--data", str(server.data), "--listen", f"127.0.0.1:{free_port()}")
    assert f"pid {server.pid}" in said
    assert "stop that one, or name another directory with --data" in said
    with SyncClient(server.address) as client:
        assert client.schedule("mails", b"the first one still serves", delay=60).id


def test_data_of_a_killed_server_are_free_at_once(server: Server) -> None:
    with SyncClient(server.address) as client:
        task = client.schedule("mails", b"kept", delay=600)
    server.kill()
    server.start()
    with SyncClient(server.address) as client:
        assert client.get(task.id).payload == b"kept"


def test_a_port_in_use_is_refused_and_leaves_the_data_free(server: Server, tmp_path: Path) -> None:
    other = tmp_path / "other"
    said = refusal("--data", str(other), "--listen", server.address)
    assert server.address in said
    assert "another" in said
    # The lock went with the process that was refused.
    second = Server(tmp_path, data=other)
    try:
        second.start()
    finally:
        second.kill()


def test_a_data_directory_that_is_not_writable_is_refused(tmp_path: Path) -> None:
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("root may write everywhere, and setpriv (util-linux) is not here to take that away")
        capabilities = "-dac_override,-dac_read_search"
        prefix = (setpriv, f"--bounding-set={capabilities}", f"--inh-caps={capabilities}")
    sealed = tmp_path / "sealed"
    sealed.mkdir(mode=0o500)
    for data in (sealed, sealed / "below"):
        said = refusal("--data", str(data), "--listen", "127.0.0.1:0", prefix=prefix)
        assert str(data) in said
        assert "--data" in said


def test_a_file_in_the_place_of_the_data_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    said = refusal("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert "must be a directory" in said


def test_data_are_readable_by_their_owner_only(server: Server) -> None:
    with SyncClient(server.address) as client:
        client.schedule("mails", b"private", delay=600)
        files = sorted(server.data.iterdir())
        assert {file.name for file in files} >= {"timerd.db", "timerd.db-wal", "timerd.lock"}
        assert {file.name: stat.S_IMODE(file.stat().st_mode) for file in files} == {file.name: 0o600 for file in files}
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
