"""The rules as a PrometheusRule: what an operator-run Prometheus takes instead of a file of its own."""

from __future__ import annotations

_HEAD = """\
# Written by `python -m k8s.monitoring` from alerts.yaml; do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: timerd
  labels:
    app.kubernetes.io/name: timerd
    app.kubernetes.io/component: monitoring
spec:
"""


def as_object(text: str) -> str:
    """The rules are the object's `spec` as they stand, deeper by two; comments stay with the file."""
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    return _HEAD + "".join(f"  {line}\n" for line in lines)
