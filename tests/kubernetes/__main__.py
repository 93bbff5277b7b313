"""`python -m tests.kubernetes [--rate N] [--scenes roll,scale,...] [--docs]`, on the cluster that KUBECONFIG names.

It makes namespaces of its own, and removes them. The images are those that the overlays name, or TIMERD_IMAGE,
TIMERD_CASSANDRA_IMAGE and TIMERD_REDIS_IMAGE; `python -m tests.kubernetes.images` makes them without a registry.
Exit code 0 only if every scene held.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Where `manifests` is, as for pytest.
sys.path.append(str(ROOT / ".ci"))

from tests.kubernetes import overlays  # noqa: E402
from tests.kubernetes.figures import Figures  # noqa: E402
from tests.kubernetes.kube import Kube, Refused, no_cluster  # noqa: E402
from tests.kubernetes.scenes import SCENES, Stage  # noqa: E402
from tests.kubernetes.show import write_docs  # noqa: E402
from tests.kubernetes.single import no_volumes, single  # noqa: E402

NAMESPACE = "timerd-tests"
RATE = int(os.environ.get("TIMERD_TEST_RATE", "1000"))
_RESULTS = Path("build/kubernetes.jsonl")


@contextmanager
def staged(rate: int, keep: Path | None = None) -> Iterator[Stage]:
    """The overlay `try`, with three instances that are ready. One that is there already is not touched."""
    kube = Kube(NAMESPACE)
    if kube.is_there():
        raise SystemExit(f"There is a namespace {NAMESPACE} already: remove it first (kubectl delete ns {NAMESPACE}).")
    documents = overlays.overlay("try", kube.namespace, replicas=3)
    try:
        kube.apply([each for each in documents if each["kind"] == "Namespace"])
        kube.apply(documents)
        kube.rolled_out(600)
        yield Stage(kube, overlays.image(documents), rate, keep)
    finally:
        kube.remove()


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    return done.stdout.strip() or "unknown"


def machine() -> str:
    """As the cluster says it."""
    [first, *others] = Kube("default").get("nodes")["items"]
    info, room = first["status"]["nodeInfo"], first["status"]["capacity"]
    return f"{1 + len(others)} node(s), Kubernetes {info['kubeletVersion']}, {room['cpu']} cores each"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes", description=__doc__)
    parser.add_argument("--rate", type=int, default=RATE, help=f"tasks a second; here {RATE}")
    parser.add_argument("--scenes", default="single," + ",".join(SCENES), help=f"of: single, {', '.join(SCENES)}")
    parser.add_argument("--commit", default=commit(), help="of the image, where this is not a work tree of git")
    parser.add_argument("--note", default="", help="about the machine, for the page")
    parser.add_argument("--keep", type=Path, help="folder for the logs of callers and workers")
    parser.add_argument("--docs", action="store_true", help="write docs/operate/kubernetes.md")
    given = parser.parse_args()
    given.scenes = given.scenes.split(",")
    if unknown := [name for name in given.scenes if name not in ("single", *SCENES)]:
        parser.error(f"{unknown[0]!r} is no scene: allowed are single, {', '.join(SCENES)}.")
    return given


def main() -> int:
    given = parsed()
    if reason := no_cluster():
        print(reason, file=sys.stderr)
        return 2
    _RESULTS.parent.mkdir(exist_ok=True)
    rows = []
    for figures in played(given):
        row = {"commit": given.commit, "machine": machine(), "note": given.note, **figures.record}
        rows.append(row)
        print(time.strftime("%H:%M:%S"), json.dumps(row), flush=True)
        with _RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    if given.docs:
        write_docs(rows)
    return 0 if all(row["holds"] for row in rows) else 1


def played(given: argparse.Namespace) -> Iterator[Figures]:
    """One after the other; a scene that cannot be played is a scene that did not hold."""
    if "single" in given.scenes:
        kube = Kube("default")
        if reason := no_volumes(kube):
            print(f"left out: single, for there are {reason}")
        else:
            yield single()
    if wanted := [name for name in given.scenes if name in SCENES]:
        with staged(given.rate, given.keep) as stage:
            for name in wanted:
                yield attempted(name, stage)


def attempted(name: str, stage: Stage) -> Figures:
    try:
        return SCENES[name](stage)
    except (AssertionError, Refused) as error:
        return Figures(name, {}, (str(error),))


if __name__ == "__main__":
    sys.exit(main())
