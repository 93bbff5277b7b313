"""Who runs it, with Kubernetes and Prometheus: one machine, metrics and alerts, TLS, manifests."""

from __future__ import annotations

import re
import shutil

import yaml

from tests.docs import blocks
from tests.first_hour import pages
from tests.first_hour.desk import Desk

README, OPERATIONS, MONITORING = "README.md", "docs/operate/operations.md", "docs/operate/monitoring.md"
SECURITY, KUBERNETES = "docs/operate/security.md", "docs/operate/kubernetes.md"


def spend(desk: Desk) -> None:
    with desk.step("install"):
        start, _ = pages.typed(pages.section(README, "Sixty seconds with Python"))
        desk.install(start)
    step = "operations: a server, metrics, a copy"
    if not desk.lacks(step, "curl"):
        with desk.step(step):
            _one_machine(desk)
    _with_prometheus(desk, "monitoring: alerts load")
    _with_tls(desk, "security: TLS")
    _with_kubernetes(desk, "Kubernetes: manifests")


def _one_machine(desk: Desk) -> None:
    """In one shell each, as the page has it: what they start goes on."""
    [serve], [watch], [back_up] = (
        pages.fenced(pages.section(OPERATIONS, each), "sh") for each in ("Install", "Watch", "Back up")
    )
    assert "All is well" in desk.type("\n".join(line for line in serve.splitlines() if not pages.is_installing(line)))
    said = desk.type(watch)
    assert "timerd_tasks_pending" in said
    assert "All is well" in said
    desk.type(back_up)
    assert (desk.folder / "monday.db").exists()


def _with_prometheus(desk: Desk, step: str) -> None:
    """The alerts as they are, beside the settings that the page gives; each alert fires on what its test says."""
    if desk.lacks(step, "promtool"):
        return
    with desk.step(step):
        given, _ = (each for each in pages.fenced(blocks.read(MONITORING), "yaml") if "scrape_configs" in each)
        desk.save({"prometheus.yml": given})
        for path in (blocks.ROOT / "k8s/monitoring").glob("alerts*.yaml"):
            shutil.copy(path, desk.folder)
        desk.type("promtool check config prometheus.yml")
        [test_rules] = re.findall(r"`(promtool test rules)`", blocks.read(MONITORING))
        desk.type(f"{test_rules} alerts_test.yaml")


def _with_tls(desk: Desk, step: str) -> None:
    """Its name is one of this machine: the certificate is good for that, too."""
    if desk.lacks(step, "openssl"):
        return
    with desk.step(step):
        serving, *recipes = pages.fenced(pages.section(SECURITY, "TLS"), "sh")
        serve, ask = serving.splitlines()
        for recipe in recipes[:2]:
            desk.type(recipe)
        desk.change_port(7400)
        running = desk.start(f"{serve} --data tls-data", given={"TIMERD_HTTP_LISTEN": ""})
        running.shows("ready")
        assert "All is well" in desk.type(ask.replace("timers.example", "localhost"))


def _with_kubernetes(desk: Desk, step: str) -> None:
    """Rendered, and not applied: there is no cluster."""
    if desk.lacks(step, "kubectl"):
        return
    with desk.step(step):
        text = pages.section(KUBERNETES, "Three ways")
        overlay, *_ = re.findall(r"kubectl apply -k (\S+)", text)
        rendered = [*yaml.safe_load_all(desk.type(f"kubectl kustomize {overlay}", where=desk.checkout))]
        assert "StatefulSet" in {each["kind"] for each in rendered}
        [own] = pages.fenced(text, "yaml")
        desk.save({"kustomization.yaml": own})
        assert "image: registry.example/timerd" in desk.type(
            "kubectl kustomize --load-restrictor=LoadRestrictionsNone ."
        )
