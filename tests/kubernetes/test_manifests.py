"""What k8s/ says, rendered: who may do what, what it waits for, and that its numbers fit those of the program."""

from __future__ import annotations

import copy
import os
import re
import subprocess
from functools import cache
from typing import Any, NamedTuple

import pytest

import manifests
from timerd import __version__
from timerd.commands.settings import load
from timerd.config import MIB, ServerConfig
from timerd.services.holding.hand_over import MOST_LEAVE_S, SUCCEEDED_S
from timerd.services.node import STOP_GRACE_MS
from timerd.services.operating.foreseeing import wish_of
from timerd.services.transport.hanging_up import WRITTEN_S
from timerd.services.work.relaying import SYNC_S

pytestmark = pytest.mark.skipif(
    not manifests.renderer() and os.environ.get("CI") != "true",
    reason="there is neither kubectl nor kustomize on the path, and one of them renders k8s/",
)
GIB = 1024 * MIB
UNITS = {"Ki": 1024, "Mi": MIB, "Gi": GIB}
WAYS = tuple(manifests.WAYS)
CLUSTERS = tuple(name for name in WAYS if "single" not in name)
# Interpreter, connections, what is on its way to callers and workers: docs/understand/benchmarks.md has 52 MiB at rest.
BESIDE_BUDGETS_BYTES = 256 * MIB


class Rendered(NamedTuple):
    documents: list[dict[str, Any]]

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.documents if each["kind"] == kind]

    def one(self, kind: str, name: str = "timerd") -> dict[str, Any]:
        [found] = [each for each in self.all(kind) if each["metadata"]["name"] == name]
        return found

    @property
    def pod(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.one("StatefulSet")["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> dict[str, Any]:
        [found] = self.pod["containers"]
        return dict(found)

    @property
    def environment(self) -> dict[str, str]:
        """As the process sees it; what a Secret or the pod itself gives is a word of it."""
        [source] = self.container["envFrom"]
        given = dict(self.one("ConfigMap", source["configMapRef"]["name"])["data"])
        for each in self.container["env"]:
            optional = each.get("valueFrom", {}).get("secretKeyRef", {}).get("optional", False)
            if not optional:
                given[each["name"]] = each.get("value", "given").replace("$(POD_IP)", "10.0.0.1")
        return given

    @property
    def config(self) -> ServerConfig:
        return load(None, self.environment, {}, ()).config


@cache
def rendered(way: str) -> Rendered:
    return Rendered(manifests.render(*manifests.WAYS[way]))


def size_bytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Ki|Mi|Gi)", text).groups()  # type: ignore[union-attr]
    return int(number) * UNITS[unit]


@pytest.mark.parametrize("way", WAYS)
def test_the_schemas_of_kubernetes_hold(way: str) -> None:
    assert list(manifests.findings(rendered(way).documents)) == []


def test_a_field_that_does_not_exist_is_found() -> None:
    wrong = copy.deepcopy(rendered("single").documents)
    [pods] = [each for each in wrong if each["kind"] == "StatefulSet"]
    pods["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["grpc"]["sevrice"] = "live"
    assert any("sevrice" in finding for finding in manifests.findings(wrong))


@pytest.mark.parametrize("way", WAYS)
def test_pods_are_restricted(way: str) -> None:
    """As the namespace demands it (Pod Security, restricted), and a read-only root on top for what is ours."""
    assert rendered(way).one("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for workload in [w for kind in ("StatefulSet", "Deployment", "Job") for w in rendered(way).all(kind)]:
        pod = workload["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is pod["enableServiceLinks"] is False
        for container in pod["containers"]:
            limits = container["securityContext"]
            assert limits["allowPrivilegeEscalation"] is False
            assert limits["capabilities"] == {"drop": ["ALL"]}
            if container["image"].startswith("timerd:"):
                assert limits["readOnlyRootFilesystem"] is True
                assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (65532, 65532)


@pytest.mark.parametrize("way", WAYS)
def test_the_settings_are_known_and_a_server_would_start_with_them(way: str) -> None:
    """A name that timerd does not know is refused, so this also finds a misspelt one."""
    config = rendered(way).config
    assert config.store == ("sqlite" if "single" in way else "cassandra")
    assert config.insecure is ("TLS" not in way)
    assert config.tls.certificate_file is None or config.tls.peer_name == "timerd-instance"
    assert config.listen.endswith(f":{port(way, 'grpc')}")
    assert config.http.listen.endswith(f":{port(way, 'http')}")


def port(way: str, name: str) -> int:
    [found] = [each["containerPort"] for each in rendered(way).container["ports"] if each["name"] == name]
    return int(found)


@pytest.mark.parametrize("way", WAYS)
def test_memory_has_room_for_the_budgets_and_the_processor_has_no_limit(way: str) -> None:
    config, resources = rendered(way).config, rendered(way).container["resources"]
    budgets = config.memory_budget_bytes + config.ingest_budget_bytes
    assert size_bytes(resources["limits"]["memory"]) >= budgets + 2 * BESIDE_BUDGETS_BYTES
    assert size_bytes(resources["requests"]["memory"]) <= size_bytes(resources["limits"]["memory"])
    if way != "try":
        assert size_bytes(resources["requests"]["memory"]) >= budgets + BESIDE_BUDGETS_BYTES
        # docs/operate/capacity.md: a core and 1 GiB of memory_budget each.
        assert (resources["requests"]["cpu"], config.memory_budget_bytes) == ("1", GIB)
    assert "cpu" not in resources["limits"]


@pytest.mark.parametrize("way", WAYS)
def test_there_is_time_to_hand_over_before_the_kill(way: str) -> None:
    pause_s = rendered(way).container["lifecycle"]["preStop"]["sleep"]["seconds"]
    # It hands over and sees successors begin, waits for workers and peers, ends its streams, settles, hands over
    # what came meanwhile.
    streams_s = SYNC_S + WRITTEN_S + STOP_GRACE_MS / 1000
    needed_s = pause_s + 2 * (MOST_LEAVE_S + SUCCEEDED_S) + rendered(way).config.drain_ms / 1000 + streams_s
    assert rendered(way).pod["terminationGracePeriodSeconds"] >= 1.5 * needed_s


@pytest.mark.parametrize("way", WAYS)
def test_probes_ask_for_health_by_its_names(way: str) -> None:
    def asked(probe: str) -> str:
        found = rendered(way).container[probe]
        if "TLS" in way:
            words = found["exec"]["command"]
            assert words[:2] == ["timerd", "health"]
            assert "grpc" not in found
            return words[3] if len(words) > 2 else ""
        assert found["grpc"]["port"] == port(way, "grpc")
        return str(found["grpc"].get("service", ""))

    assert [asked(f"{kind}Probe") for kind in ("startup", "readiness", "liveness")] == ["live", "", "live"]


@pytest.mark.parametrize("way", [way for way in WAYS if "TLS" in way])
def test_probes_show_a_certificate_where_callers_may_have_to(way: str) -> None:
    given, tls = rendered(way).environment, rendered(way).config.tls
    assert (given["TIMERD_TLS_CERT"], given["TIMERD_TLS_KEY"]) == (str(tls.certificate_file), str(tls.key_file))
    assert given["TIMERD_TLS_CA"] == str(tls.peer_ca_file)


@pytest.mark.parametrize("way", WAYS)
def test_selectors_find_the_instances_and_nothing_else(way: str) -> None:
    labels = rendered(way).one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    own = {"app.kubernetes.io/name": "timerd", "app.kubernetes.io/component": "instance"}
    assert own.items() <= labels.items()
    selectors = [rendered(way).one("Service", name)["spec"]["selector"] for name in ("timerd", "timerd-instances")]
    selectors += [
        rendered(way).one(kind)["spec"]["selector"]["matchLabels"] for kind in ("StatefulSet", "PodDisruptionBudget")
    ]
    selectors += [each["labelSelector"]["matchLabels"] for each in rendered(way).pod["topologySpreadConstraints"]]
    assert selectors == [own] * 6


@pytest.mark.parametrize("way", WAYS)
def test_instances_are_addressed_without_a_balancer_and_only_when_ready(way: str) -> None:
    instances = rendered(way).one("Service", "timerd-instances")
    assert instances["spec"]["clusterIP"] == "None"
    assert not instances["spec"].get("publishNotReadyAddresses", False)
    assert rendered(way).one("StatefulSet")["spec"]["serviceName"] == "timerd-instances"


@pytest.mark.parametrize("way", WAYS)
def test_one_at_a_time_may_be_evicted(way: str) -> None:
    budget = rendered(way).one("PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


@pytest.mark.parametrize("way", WAYS)
def test_only_those_who_are_named_may_connect(way: str) -> None:
    policy = rendered(way).one("NetworkPolicy")["spec"]
    assert policy["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "timerd"}}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    callers, watchers = policy["ingress"]
    assert callers["ports"] == [{"port": "grpc"}]
    assert callers["from"][0]["podSelector"] == {"matchLabels": {"timerd-client": "true"}}
    assert watchers["ports"] == [{"port": "http"}]
    stores = [each["port"] for rule in policy["egress"] for each in rule["ports"] if isinstance(each["port"], int)]
    assert stores == [53, 53] + ([9042, 6379] if way in CLUSTERS else [])


@pytest.mark.parametrize("way", WAYS)
def test_everything_carries_the_version_that_it_is_of(way: str) -> None:
    own = [each for each in rendered(way).documents if each["metadata"]["name"].startswith("timerd")]
    beside = ("Secret", "ScaledObject", "HorizontalPodAutoscaler", "PodMonitor", "PrometheusRule")
    for document in [each for each in own if each["kind"] not in beside]:
        assert document["metadata"]["labels"]["app.kubernetes.io/version"] == __version__, document["kind"]
    assert rendered(way).container["image"] == f"timerd:{__version__}"


def test_one_instance_has_a_volume_that_outlives_it() -> None:
    pods = rendered("single").one("StatefulSet")["spec"]
    [claim] = pods["volumeClaimTemplates"]
    [mount] = rendered("single").container["volumeMounts"]
    assert (pods["replicas"], claim["metadata"]["name"], mount["name"]) == (1, "data", "data")
    assert str(rendered("single").config.data).startswith(mount["mountPath"])
    assert pods["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


@pytest.mark.parametrize("way", CLUSTERS)
def test_the_tables_are_made_by_a_job_of_this_version(way: str) -> None:
    job = rendered(way).one("Job", f"timerd-schema-{__version__}")
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert (container["args"], container["image"]) == (["schema", "apply"], f"timerd:{__version__}")
    assert container["envFrom"] == rendered(way).container["envFrom"]


@pytest.mark.parametrize("way", CLUSTERS)
def test_passwords_come_from_a_secret_and_stand_nowhere_else(way: str) -> None:
    secret = {
        each["name"]: each["valueFrom"]["secretKeyRef"]
        for each in rendered(way).container["env"]
        if "secretKeyRef" in each.get("valueFrom", {})
    }
    assert {name for name in secret if "PASSWORD" in name} == {"TIMERD_CASSANDRA_PASSWORD", "TIMERD_REDIS_PASSWORD"}
    assert "TIMERD_REDIS_URL" in secret
    assert not any("PASSWORD" in name for each in rendered(way).all("ConfigMap") for name in each["data"])


def test_there_are_three_equal_instances_unless_somebody_else_counts_them() -> None:
    assert rendered("cluster").one("StatefulSet")["spec"]["replicas"] == 3
    for way, kind in (("cluster with KEDA", "ScaledObject"), ("cluster with HPA", "HorizontalPodAutoscaler")):
        assert "replicas" not in rendered(way).one("StatefulSet")["spec"]
        target = rendered(way).one(kind)["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) == ("StatefulSet", "timerd")


def test_what_keda_asks_for_is_understood() -> None:
    scaled = rendered("cluster with KEDA").one("ScaledObject")["spec"]
    [trigger] = scaled["triggers"]
    wish = wish_of(trigger["metadata"])
    assert (trigger["type"], wish.queue, wish.per_replica) == ("external", "", 1500)
    assert trigger["metadata"]["scalerAddress"] == "timerd.timerd.svc:7400"
    # It is seen, a pod starts, and it takes its share, before the minute begins.
    assert wish.outlook.lead_ms >= 1000 * (scaled["pollingInterval"] + 60)


def test_what_the_autoscaler_goes_by_is_a_metric_of_ours() -> None:
    [metric] = rendered("cluster with HPA").one("HorizontalPodAutoscaler")["spec"]["metrics"]
    name = metric["pods"]["metric"]["name"]
    source = (manifests.ROOT / "timerd/observability/collector.py").read_text()
    assert f'"{name}"' in source


@pytest.mark.parametrize("way", ["single with PodMonitor", "cluster with PodMonitor"])
def test_prometheus_reads_the_port_of_the_instances_and_gets_all_alerts(way: str) -> None:
    monitor = rendered(way).one("PodMonitor")["spec"]
    labels = rendered(way).one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    [endpoint] = monitor["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in rendered(way).container["ports"]]
    [group] = rendered(way).one("PrometheusRule")["spec"]["groups"]
    assert len(group["rules"]) > 10


def test_what_cannot_be_rendered_is_said_by_the_renderer() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        manifests.render("overlays/nowhere")
    assert "nowhere" in str(failed.value.stderr)
