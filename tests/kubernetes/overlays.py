"""The overlays as they are, but for the namespace, images that are named, and what a test must be able to do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import manifests

Document = dict[str, Any]
# Container -> the variable that names another image than the overlay does.
IMAGES: Mapping[str, str] = {
    "timerd": "TIMERD_IMAGE",
    "schema": "TIMERD_IMAGE",
    "cassandra": "TIMERD_CASSANDRA_IMAGE",
    "redis": "TIMERD_REDIS_IMAGE",
}
PODS = Path(__file__).parent / "pods"
_SCRIPTS = "scripts"
_RESTRICTED: Document = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_NOT_ROOT: Document = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "fsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def overlay(name: str, namespace: str, replicas: int) -> list[Document]:
    documents = manifests.render(f"overlays/{name}")
    for each in documents:
        if each["kind"] == "Namespace":
            each["metadata"]["name"] = namespace
        else:
            each["metadata"]["namespace"] = namespace
        if each["kind"] in ("StatefulSet", "Deployment", "Job"):
            _with_images(each["spec"]["template"]["spec"])
        if each["kind"] == "StatefulSet":
            each["spec"]["replicas"] = replicas
    return documents


def _with_images(pod: Document) -> None:
    for container in pod["containers"]:
        container["image"] = os.environ.get(IMAGES[container["name"]]) or container["image"]
        # So that a signal can stop the process of the store, which would be PID 1 otherwise.
        pod["shareProcessNamespace"] = container["name"] == "cassandra"


def image(documents: list[Document]) -> str:
    """That of timerd."""
    [found] = [each for each in documents if each["kind"] == "StatefulSet"]
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


def scripts() -> Document:
    """What the pods of callers and workers run."""
    data = {path.name: path.read_text() for path in PODS.glob("*.py")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _SCRIPTS}, "data": data}


def client(name: str, image: str, *command: str) -> Document:
    """A pod that may connect to timerd; what it writes to /data stays while it is there."""
    container = {
        "name": "client",
        "image": image,
        "command": ["python", *command],
        "env": [{"name": "TIMERD_SERVER", "value": "timerd:7400"}],
        "securityContext": _RESTRICTED,
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": _SCRIPTS, "mountPath": "/scripts"}, {"name": "data", "mountPath": "/data"}],
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": _NOT_ROOT,
        "containers": [container],
        "volumes": [{"name": _SCRIPTS, "configMap": {"name": _SCRIPTS}}, {"name": "data", "emptyDir": {}}],
    }
    metadata = {"name": name, "labels": {"timerd-client": "true"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
