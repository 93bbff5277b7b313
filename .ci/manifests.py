"""Renders what k8s/ holds, each overlay and each component on it, and holds it to Kubernetes' own schemas (strict: a
field that does not exist is a finding), of the oldest version that knows all of them and of the newest one.

Needs `kubectl` or `kustomize`. Where neither is there, it says so; with CI=true that is a failure. The schemas are
those of the package kubernetes-validate, so nothing is fetched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parent.parent
K8S = ROOT / "k8s"
# The pause before SIGTERM (`preStop.sleep`) is known from 1.30 on.
VERSIONS = ("1.30", "1.37")
# Name -> the overlay and the components on it.
WAYS: Mapping[str, tuple[str, ...]] = {
    "single": ("overlays/single",),
    "single with TLS": ("overlays/single", "components/tls"),
    "cluster": ("overlays/cluster",),
    "cluster with TLS": ("overlays/cluster", "components/tls"),
    "cluster with KEDA": ("overlays/cluster", "components/keda"),
    "single with PodMonitor": ("overlays/single", "components/podmonitor"),
    "cluster with PodMonitor": ("overlays/cluster", "components/podmonitor"),
    "cluster with HPA": ("overlays/cluster", "components/hpa"),
    "try": ("overlays/try",),
}
# Of others: tests/kubernetes/test_manifests.py looks at them.
WITHOUT_SCHEMA = ("keda.sh/v1alpha1", "monitoring.coreos.com/v1")
Document = dict[str, Any]


def renderer() -> list[str]:
    """The command that takes a folder; empty where there is none."""
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    return ["kustomize", "build"] if shutil.which("kustomize") else []


def render(overlay: str, *components: str, root: Path = K8S) -> list[Document]:
    """Of the manifests in `root`. Raises CalledProcessError with what the renderer said."""
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "resources": [os.path.relpath(root / overlay, os.path.realpath(folder))],
            "components": [os.path.relpath(root / each, os.path.realpath(folder)) for each in components],
        }
        Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(own))
        done = subprocess.run([*renderer(), folder], check=True, capture_output=True, text=True)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def findings(documents: Sequence[Document]) -> Iterator[str]:
    for document in documents:
        if document["apiVersion"] in WITHOUT_SCHEMA:
            continue
        where = f"{document['kind']} {document['metadata']['name']}"
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"{where} ({version}): {'.'.join(map(str, error.path))}: {error.message}"


def main() -> int:
    if not renderer():
        print("k8s/ was not checked: there is neither kubectl nor kustomize on the path.")
        return int(os.environ.get("CI") == "true")
    wrong, count = 0, 0
    for name, parts in WAYS.items():
        try:
            documents = render(*parts)
        except subprocess.CalledProcessError as error:
            print(f"{name} cannot be rendered: {error.stderr.strip()}")
            wrong += 1
            continue
        count += len(documents)
        for finding in findings(documents):
            wrong += 1
            print(f"{name}: {finding}")
    if not wrong:
        print(f"k8s/: {count} documents in {len(WAYS)} ways hold the schemas of Kubernetes {' and '.join(VERSIONS)}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
