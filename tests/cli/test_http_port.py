"""A real server with its HTTP port, met as Prometheus and Kubernetes meet it."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.cli.served import Server, timerd
from tests.cli.watched_server import Watched
from tests.process.waiting import until
from timerd.demo.processes import free_port

pytestmark = pytest.mark.process
PARTS = ("ready", "api", "scheduler", "store", "live")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    running = Watched(tmp_path_factory.mktemp("watched"))
    yield running
    running.server.process.kill()
    running.server.process.communicate()


def test_the_ready_line_says_where(watched: Watched) -> None:
    assert f"metrics: {watched.http})" in watched.server.ready


def test_health_and_version(watched: Watched) -> None:
    assert json.loads(watched.get("/healthz")) == {"alive": True, "wrong": {}}
    until(watched.is_ready, "it is ready, on a machine that may be busy")
    assert json.loads(watched.get("/readyz")) == {"ready": True, "wrong": {}}
    assert json.loads(watched.get("/version"))["version"] == timerd("version", "--json").json["version"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        watched.get("/tasks")


def test_a_canary_flies_and_callers_do_not_see_it(watched: Watched) -> None:
    until(lambda: watched.samples()['timerd_canary_runs_total{outcome="fired"}'] >= 1, "a canary has come through")
    samples = watched.samples()
    assert samples["timerd_canary_round_trip_seconds_count"] >= 1
    assert samples["timerd_canary_lateness_seconds_count"] >= 1
    assert samples["timerd_canary_interval_seconds"] == 5
    assert {part: samples[f'timerd_health_serving{{part="{part}"}}'] for part in PARTS} == dict.fromkeys(PARTS, 1)
    assert samples["timerd_workers"] == 0
    assert '(canary)"' not in watched.get("/metrics")


def test_what_happens_to_tasks_is_counted(watched: Watched) -> None:
    server = ("--server", watched.server.address)
    for number in range(3):
        timerd("schedule", "mails", f"secret-{number}", "--in", "0s", *server)
    later = timerd("schedule", "mails", "later", "--in", "1h", "--json", *server).json["task_id"]
    timerd("cancel", later, *server)
    timerd("work", "mails", "--count", "2", *server)
    timerd("work", "mails", "--count", "1", "--exec", "exit 65", *server)
    samples, queue = watched.samples(), 'namespace="default",queue="mails"'
    assert samples[f"timerd_tasks_scheduled_total{{{queue}}}"] == 4
    assert samples['timerd_tasks_changed_total{change="cancelled"}'] == 1
    settled = 'timerd_deliveries_settled_total{{namespace="default",outcome="{}",queue="mails"}}'
    assert (samples[settled.format("acked")], samples[settled.format("rejected")]) == (2, 1)
    assert samples[f"timerd_dead_letters_total{{{queue}}}"] == 1
    assert samples[f"timerd_delivery_lateness_seconds_count{{{queue}}}"] >= 3
    assert samples[f"timerd_delivery_processing_seconds_count{{{queue}}}"] >= 3
    assert samples[f'timerd_delivery_lateness_seconds_bucket{{le="+Inf",{queue}}}'] >= 3
    assert samples[f'timerd_delivery_attempts_bucket{{le="1",{queue}}}'] >= 3
    assert samples[f"timerd_tasks_due{{{queue}}}"] == 0
    assert samples['timerd_partition_events_total{event="loaded"}'] >= 1
    assert samples['timerd_partition_events_total{event="mark_refused"}'] == 0
    assert samples["timerd_sweep_rescued_rows_total"] >= 0
    assert (samples["timerd_lease_sure"], samples["timerd_lease_age_seconds"]) == (1, 0)
    assert samples["timerd_ledger_imbalance_rows"] == 0
    assert samples["timerd_tasks_in_flight"] == 0
    assert samples['timerd_store_changes_total{register="partition_control",result="applied"}'] >= 1
    assert samples['timerd_store_duration_seconds_count{call="append"}'] >= 4
    assert samples['timerd_requests_total{code="OK",method="Session.schedule"}'] >= 4
    assert samples["timerd_clock_trusted"] == 1
    assert samples["process_resident_memory_bytes"] > 0


def test_no_payload_no_id_and_no_address_is_shown(watched: Watched) -> None:
    task_id = timerd("schedule", "mails", "linnet", "--in", "1h", "--json", "--server", watched.server.address).json
    text = watched.get("/metrics")
    assert "linnet" not in text
    assert task_id["task_id"] not in text
    assert str(watched.server.data) not in text


def test_prometheus_finds_nothing_to_say(watched: Watched) -> None:
    places = os.pathsep.join((os.environ.get("PATH", ""), str(Path(sys.executable).parent)))
    promtool = shutil.which("promtool", path=places)
    if promtool is None:
        pytest.skip("promtool is not installed here (Debian: prometheus)")
    told = subprocess.run(
        [promtool, "check", "metrics"], input=watched.get("/metrics"), capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout + told.stderr) == (0, "")


def test_names_follow_the_conventions(watched: Watched) -> None:
    """What promtool would say, where it is not there."""
    types = re.findall(r"^# TYPE (\S+) (\S+)$", watched.get("/metrics"), re.MULTILINE)
    ours = {name: kind for name, kind in types if name.startswith("timerd_")}
    assert len(ours) > 25
    assert [name for name, kind in ours.items() if (kind == "counter") != name.endswith("_total")] == []
    assert [name for name in ours if re.search("_(ms|milliseconds|mb|kb|minutes)(_|$)", name)] == []


def test_http_beyond_loopback_needs_tls_or_a_word(tmp_path: Path) -> None:
    refused = timerd("serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0")
    assert (refused.code, refused.out) == (1, "")
    assert "http.insecure" in refused.err
    assert timerd("config", "check", "--set", "http.listen=0.0.0.0:0", "--set", "http.insecure=true").code == 0


def test_a_port_in_use_is_a_sentence(watched: Watched, tmp_path: Path) -> None:
    refused = timerd("serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--http", watched.http)
    assert (refused.code, refused.out) == (1, "")
    assert watched.http in refused.err
    assert refused.err.count("\n") == 1


def test_the_page_names_every_metric(watched: Watched) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "operate" / "monitoring.md").read_text()
    ours = re.findall(r"^# TYPE (timerd_\S+)", watched.get("/metrics"), re.MULTILINE)
    assert [name for name in ours if f"`{name}`" not in page] == []
    assert [name for name in re.findall(r"`(timerd_\w+)`", page) if name not in ours] == []


def test_http_speaks_tls_where_callers_do_and_renews_it(tmp_path: Path) -> None:
    authority, later = Authority(tmp_path), Authority(tmp_path, "later")
    pair = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    renewed = later.sign("renewed", "DNS:localhost", "IP:127.0.0.1")
    port = free_port()
    http = f"127.0.0.1:{port}"
    server = Server(
        tmp_path, "--http", f"0.0.0.0:{port}", "--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)
    )

    def is_alive(trusted: Authority) -> bool:
        context = ssl.create_default_context(cafile=str(trusted.certificate))
        with urllib.request.urlopen(f"https://{http}/healthz", timeout=20, context=context) as answer:
            return bool(json.loads(answer.read())["alive"])

    try:
        assert is_alive(authority)
        os.replace(renewed.certificate, pair.certificate)
        os.replace(renewed.key, pair.key)
        assert is_alive(later)
    finally:
        assert server.stop()[0] == 0


def test_http_on_loopback_stays_http(tmp_path: Path) -> None:
    """So that probes and curl on the machine need no authority; where callers show certificates they need TLS."""
    authority, http = Authority(tmp_path), f"127.0.0.1:{free_port()}"
    pair = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    tls = ("--tls-cert", str(pair.certificate), "--tls-key", str(pair.key))
    server = Server(tmp_path, "--http", http, *tls)
    try:
        with urllib.request.urlopen(f"http://{http}/healthz", timeout=20) as answer:
            assert json.loads(answer.read())["alive"]
    finally:
        assert server.stop()[0] == 0
    shows_certificates = Server(tmp_path, "--http", http, *tls, "--set", f"tls.client_ca_file={authority.certificate}")
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(*authority.sign("probe"))
    try:
        with urllib.request.urlopen(f"https://{http}/healthz", timeout=20, context=context) as answer:
            assert json.loads(answer.read())["alive"]
    finally:
        assert shows_certificates.stop()[0] == 0


def test_where_logs_are_json_all_lines_are(tmp_path: Path) -> None:
    server = Server(tmp_path, "--set", "log.format=json")
    assert json.loads(server.ready)["ready"] == server.address
    code, out, err = server.stop()
    assert (code, json.loads(out)["stopped"], err) == (0, True, "")
