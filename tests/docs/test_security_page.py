"""docs/operate/security.md: its recipes for certificates are typed as they stand there, and a server takes what they
make. docs/operate/monitoring.md: what it gives Prometheus is taken by promtool."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs import blocks
from tests.process.children import Server
from tests.process.conftest import Children
from timerd.demo.processes import free_port

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed here"),
]
SECURITY, MONITORING = "docs/operate/security.md", "docs/operate/monitoring.md"
NAME, ADDRESS = "timers.example:7400", "0.0.0.0:7400"
FIRST = "umask 077"


def typed_blocks() -> tuple[str, list[str]]:
    """What starts a server and asks it, and the recipes."""
    text = blocks.read(SECURITY).partition("\n## TLS\n")[2].partition("\n## ")[0]
    serving, *recipes = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return serving, recipes


def run(command: str, folder: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(blocks.ROOT)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, (command, done)
    return done.stdout


def flags(line: str) -> list[str]:
    return line.split()[2:]


def ask(line: str, port: int, folder: Path) -> str:
    """A line of `timerd doctor`, on this machine."""
    command = line.replace(NAME, f"localhost:{port}").replace("timerd ", f"{sys.executable} -m timerd.cli ", 1)
    return run(command, folder)


def test_a_server_takes_what_the_recipes_make(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    serving, (authority, server_pair, caller_pair) = typed_blocks()
    *made_for_caller, ask_with_certificate = caller_pair.splitlines()
    assert authority.startswith(FIRST)
    run(authority, tmp_path)
    assert "tls.crt: OK" in run(server_pair, tmp_path)
    run("\n".join(made_for_caller), tmp_path)
    serve, ask_without = serving.splitlines()
    port = free_port()
    arguments = [part.replace(ADDRESS, f"0.0.0.0:{port}") for part in flags(serve)]
    server = children.own(Server(tmp_path, *arguments))
    server.start()
    assert "All is well" in ask(ask_without, port, tmp_path)
    server.terminate()
    strict = children.own(Server(tmp_path, *arguments, "--set", "tls.client_ca_file=ca.crt"))
    strict.start()
    assert "All is well" in ask(ask_with_certificate, port, tmp_path)
    with pytest.raises(AssertionError, match="certificate"):
        ask(ask_without, port, tmp_path)


def test_the_keys_are_for_their_owner_and_the_chain_holds_the_rules(tmp_path: Path) -> None:
    """Those of RFC 5280, which Python asks for from 3.13 on."""
    _, recipes = typed_blocks()
    run("\n".join([*recipes[:2], *recipes[2].splitlines()[:-1]]), tmp_path)
    assert {path.stat().st_mode & 0o077 for path in tmp_path.glob("*.key")} == {0}
    serving, calling = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    serving.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    calling.load_cert_chain(tmp_path / "orders.crt", tmp_path / "orders.key")
    serving.verify_mode = ssl.CERT_REQUIRED
    for context in (serving, calling):
        context.load_verify_locations(tmp_path / "ca.crt")
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    shake_hands(serving, calling)


def shake_hands(serving: ssl.SSLContext, calling: ssl.SSLContext) -> None:
    """In memory. Raises SSLError where one does not take the other."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        calling.wrap_bio(back, there, server_hostname="timers.example"),
        serving.wrap_bio(there, back, server_side=True),
    ]
    while sides:
        for side in tuple(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue


def test_promtool_takes_what_prometheus_is_given(tmp_path: Path) -> None:
    given = re.findall(r"^```yaml\n(# prometheus.yml\n.*?)^```$", blocks.read(MONITORING), re.MULTILINE | re.DOTALL)
    schemes = [yaml.safe_load(each)["scrape_configs"][0]["scheme"] for each in given]
    assert schemes == ["http", "https"]
    promtool = shutil.which("promtool", path=os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)]))
    if promtool is None and os.environ.get("CI") == "true":
        pytest.fail("What Prometheus is given must be tried here, but promtool cannot be found (Debian: prometheus).")
    if promtool is None:
        pytest.skip("promtool is not installed here (Debian: prometheus)")
    shutil.copy(blocks.ROOT / "k8s/monitoring/alerts.yaml", tmp_path)
    (tmp_path / "ca.crt").touch()
    for each in given:
        (tmp_path / "prometheus.yml").write_text(each)
        subprocess.run([promtool, "check", "config", "prometheus.yml"], cwd=tmp_path, check=True, timeout=60)
