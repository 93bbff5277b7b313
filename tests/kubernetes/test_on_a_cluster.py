"""On a real cluster: rolled, scaled, killed, evicted and frozen, judged by what callers and workers wrote down.

    KUBECONFIG=... python -m pytest tests/kubernetes/test_on_a_cluster.py

`python -m tests.kubernetes` plays the same scenes and writes docs/operate/kubernetes.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kubernetes.__main__ import RATE, staged
from tests.kubernetes.kube import Kube, no_cluster
from tests.kubernetes.scenes import SCENES, Stage
from tests.kubernetes.single import no_volumes, single

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def kube() -> Kube:
    if reason := no_cluster():
        pytest.skip(reason)
    return Kube("default")


@pytest.fixture(scope="module")
def stage(kube: Kube) -> Iterator[Stage]:
    with staged(RATE) as stage:
        yield stage


def test_one_instance_with_a_volume_outlives_its_pods(kube: Kube) -> None:
    if reason := no_volumes(kube):
        pytest.skip(reason)
    assert single().holds


@pytest.mark.parametrize("scene", SCENES)
def test_several_instances(stage: Stage, scene: str) -> None:
    figures = SCENES[scene](stage)
    assert figures.holds, figures.record
