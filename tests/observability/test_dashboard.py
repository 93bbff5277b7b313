"""The dashboard and the alerts: made from their source, about metrics and labels that a server has, and each alert with
its paragraph in the runbook."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from k8s.monitoring import dashboard
from k8s.monitoring.__main__ import HERE, files
from tests.cli.served import timerd
from tests.cli.watched_server import Watched
from timerd.cli import app
from timerd.client import SyncClient

ROOT = Path(__file__).resolve().parents[2]
RUNBOOK = (ROOT / "docs" / "operate" / "runbook.md").read_text(encoding="utf-8")
PARTS = ("**What it means.**", "**What to look at.**", "**What to do.**")
# What Prometheus itself gives to whatever it reads.
OF_PROMETHEUS = {"job", "instance"}
METRIC = re.compile(r"\b((?:timerd|process)_\w+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
# What one good instance has no sample of.
OF_OTHERS = {
    "timerd_store_errors_total": {"call", "error"},
    "timerd_hint_messages_total": {"outcome"},
    "timerd_lease_events_total": {"event"},
    "timerd_unforeseen_errors_total": {"work"},
    "timerd_schedule_ticks_total": {"outcome"},
}

Labels = dict[str, set[str]]


def rules() -> list[dict[str, Any]]:
    return list(yaml.safe_load((HERE / "alerts.yaml").read_text())["groups"][0]["rules"])


def expressions() -> Iterator[tuple[str, str]]:
    yield from ((rule["alert"], rule["expr"]) for rule in rules())
    for row in dashboard.ROWS:
        yield from ((panel.title, query.expression) for panel in row.panels for query in panel.queries)


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labels]:
    """Each sample's name and the labels that it has, of a server that has done a little of everything."""
    running = Watched(tmp_path_factory.mktemp("watched"))
    try:
        with SyncClient(running.server.address) as client:
            client.schedule("mails", b"x", delay=0)
            client.cancel(client.schedule("mails", b"y", delay=3600).id)
        timerd("work", "mails", "--count", "1", "--server", running.server.address)
        yield _labels(running.get("/metrics"))
    finally:
        running.server.process.kill()
        running.server.process.communicate()


def _labels(text: str) -> Labels:
    found: Labels = {}
    for family in text_string_to_metric_families(text):
        # A counter that has not counted yet is known by its name alone.
        found.setdefault(f"{family.name}_total" if family.type == "counter" else family.name, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_what_is_committed_is_what_the_source_makes(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == files()[path], "run `python -m k8s.monitoring`"


def test_rules_for_the_operator_are_the_rules() -> None:
    made = yaml.safe_load((HERE / "prometheus-rule.yaml").read_text())
    assert made["spec"] == yaml.safe_load((HERE / "alerts.yaml").read_text())


@pytest.mark.process
def test_every_metric_and_label_is_one_that_a_server_has(exposed: Labels) -> None:
    wrong = [f"{where}: {what}" for where, text in expressions() for what in _unknown(text, exposed)]
    assert wrong == []


def _unknown(expression: str, exposed: Labels) -> Iterator[str]:
    labels: set[str] = set(OF_PROMETHEUS)
    for name, matchers in METRIC.findall(expression):
        if name not in exposed:
            yield name
            continue
        labels |= exposed[name] or OF_OTHERS.get(name, set())
        yield from (f"{name}{{{label}}}" for label in re.findall(r"(\w+)=", matchers) if label not in labels)
    for group in GROUPED.findall(expression):
        yield from (f"by ({label})" for label in re.split(r",\s*", group) if label not in labels)


def test_an_invented_metric_or_label_would_be_found() -> None:
    exposed = {"timerd_workers": {"queue"}}
    assert list(_unknown("timerd_invented > 1", exposed)) == ["timerd_invented"]
    assert list(_unknown('sum by (node) (timerd_workers{color="red",job="x"})', exposed)) == [
        "timerd_workers{color}", "by (node)",
    ]  # fmt: skip


def test_panels_lie_beside_each_other_and_say_what_they_show() -> None:
    panels = json.loads((HERE / "dashboard.json").read_text())["panels"]
    taken = {(x, y) for panel in panels for x, y in _cells(panel["gridPos"])}
    assert len(taken) == sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in panels)
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["description"]] == []


def _cells(place: dict[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(place["x"], place["x"] + place["w"]):
        yield from ((x, y) for y in range(place["y"], place["y"] + place["h"]))


def test_each_alert_has_its_paragraph_and_points_to_it() -> None:
    paragraphs = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL))
    assert list(paragraphs) == [rule["alert"] for rule in rules()]
    assert [name for name, text in paragraphs.items() if not all(part in text for part in PARTS)] == []
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"docs/operate/runbook.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_the_runbook_names_commands_and_panels_that_exist() -> None:
    commands = {each.name or each.callback.__name__ for each in app.registered_commands if each.callback}
    commands |= {group.name for group in app.registered_groups if group.name}
    named = re.findall(r"`timerd\s+([\w-]+)", RUNBOOK)
    assert [name for name in named if name not in {name.replace("_", "-") for name in commands}] == []
    titles = {panel.title for row in dashboard.ROWS for panel in row.panels}
    assert [name for name in re.findall(r"(?<!\*)\*([A-Z][^*]+)\*(?!\*)", RUNBOOK) if name not in titles] == []


def test_each_alert_is_tried_on_what_it_is_for_and_on_what_it_is_not() -> None:
    tests = yaml.safe_load((HERE / "alerts_test.yaml").read_text())["tests"]
    tried = {(case["alertname"], bool(case["exp_alerts"])) for test in tests for case in test["alert_rule_test"]}
    assert tried == {(rule["alert"], fires) for rule in rules() for fires in (True, False)}


def test_promtool_finds_the_rules_right() -> None:
    places = os.pathsep.join((os.environ.get("PATH", ""), str(Path(sys.executable).parent)))
    promtool = shutil.which("promtool", path=places)
    if promtool is None and os.environ.get("CI") == "true":
        pytest.fail("The alerts must be tried here, but promtool cannot be found: install it (Debian: prometheus).")
    if promtool is None:
        pytest.skip("promtool is not installed here (Debian: prometheus)")
    for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        done = subprocess.run([promtool, *command], cwd=HERE, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
