"""The overlay `single` on a cluster: starts, fires, and has its tasks after its pod was deleted."""

from __future__ import annotations

import os

from tests.kubernetes import overlays
from tests.kubernetes.figures import Figures
from tests.kubernetes.kube import Document, Kube
from tests.process.waiting import until
from timerd.demo.records import now_ms

# Where the cluster makes no volumes by itself: a folder that is there on its first node.
FOLDER = "TIMERD_TEST_VOLUME"
NAMESPACE = "timerd-tests-single"
_POD = "timerd-0"


def no_volumes(kube: Kube) -> str:
    """Why there can be no volume; empty: there can."""
    is_default = "storageclass.kubernetes.io/is-default-class"
    classes = kube.get("storageclasses")["items"]
    if os.environ.get(FOLDER) or any(each["metadata"].get("annotations", {}).get(is_default) for each in classes):
        return ""
    return f"no volumes: the cluster has no default StorageClass, and {FOLDER} names no folder of its first node"


def volume(kube: Kube, folder: str) -> Document:
    host = kube.get("nodes")["items"][0]["metadata"]["labels"]["kubernetes.io/hostname"]
    where = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": kube.namespace, "name": f"data-{_POD}"},
        "local": {"path": folder},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [where]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": kube.namespace}, "spec": spec}


def single() -> Figures:
    kube = Kube(NAMESPACE)
    documents = overlays.overlay("single", kube.namespace, replicas=1)
    if folder := os.environ.get(FOLDER):
        kube.apply([volume(kube, folder)])
    began_ms = now_ms()
    try:
        kube.apply([each for each in documents if each["kind"] == "Namespace"])
        kube.apply(documents)
        is_ready(kube)
        started_ms = now_ms()
        fires(kube, "hello")
        facts = {"started_s": round((started_ms - began_ms) / 1000, 1)}
        for how, options in (("deleted", ()), ("deleted_with_grace_0", ("--grace-period=0", "--force"))):
            facts[f"{how}_s"] = outlived(kube, how, *options)
    finally:
        kube.remove()
        if folder:
            kube.run("delete", "persistentvolume", kube.namespace, "--ignore-not-found")
    return Figures("one instance with a volume", facts)


def outlived(kube: Kube, payload: str, *options: str) -> float:
    """Seconds until it was ready again. A task from before must be delivered by the next pod."""
    kube.execute(_POD, "timerd", "schedule", "mails", payload, "--in", "5s")
    before, began_ms = kube.pods()[0]["metadata"]["uid"], now_ms()
    kube.delete(_POD, *options)
    until(lambda: [pod["metadata"]["uid"] for pod in kube.pods()] not in ([], [before]), "there is a new pod", 120)
    is_ready(kube)
    ended_ms = now_ms()
    assert kube.execute(_POD, "timerd", "work", "mails", "--count", "1").strip() == payload
    return round((ended_ms - began_ms) / 1000, 1)


def is_ready(kube: Kube) -> None:
    until(lambda: list(kube.ready().values()) == [True], "it is ready", 180, look_s=0.2)


def fires(kube: Kube, payload: str) -> None:
    kube.execute(_POD, "timerd", "schedule", "mails", payload, "--in", "1s")
    assert kube.execute(_POD, "timerd", "work", "mails", "--count", "1").strip() == payload
