"""What of a release is applied to a cluster: the folder k8s/ in one file, and the image where a Docker engine answers.

The file has the same bytes whenever it is made of the same tree. It is rendered before it counts as made, each overlay
with each component that manifests.py knows of.
"""

from __future__ import annotations

import gzip
import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import manifests

BUILD_S = 1800
VERSION = Path("k8s/components/version/kustomization.yaml")


class NotDeployable(Exception):
    """A sentence for who releases."""


def version_of(tree: Path) -> str:
    """The tag of the image that the manifests ask for; empty where they name none."""
    found = re.search(r"^  newTag: (\S+)$", (tree / VERSION).read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else ""


def packed(tree: Path, version: str, folder: Path) -> Path:
    """timerd-k8s-VERSION.tar.gz of `tree`, in `folder`. Raises NotDeployable where it does not render."""
    name = f"timerd-k8s-{version}"
    made = folder / f"{name}.tar.gz"
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in sorted(_yaml_files(tree / "k8s")):
            told = tarfile.TarInfo(f"{name}/{path.relative_to(tree / 'k8s').as_posix()}")
            told.size = path.stat().st_size
            archive.addfile(told, io.BytesIO(path.read_bytes()))
    made.write_bytes(gzip.compress(content.getvalue(), mtime=0))
    _try_rendering(made, folder / f"{name}-tried", f"timerd:{version}")
    return made


def _yaml_files(folder: Path) -> Iterator[Path]:
    yield from (path for path in folder.rglob("*") if path.suffix in (".yaml", ".json") and path.is_file())


def _try_rendering(made: Path, place: Path, image: str) -> None:
    try:
        with tarfile.open(made) as archive:
            archive.extractall(place, filter="data")
        [unpacked] = place.iterdir()
        for parts in manifests.WAYS.values() if manifests.renderer() else ():
            asked = set(_images(manifests.render(*parts, root=unpacked)))
            if asked != {image}:
                way = ", ".join(parts)
                raise NotDeployable(f"{made.name} with {way} asks for {sorted(asked)}, and not for {image}.")
    except subprocess.CalledProcessError as error:
        raise NotDeployable(f"{made.name} cannot be rendered: {error.stderr.strip()}") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _images(documents: Iterable[manifests.Document]) -> Iterator[str]:
    """Of timerd itself, not of what stands beside it to try it."""
    for document in documents:
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in (*pod.get("containers", ()), *pod.get("initContainers", ())):
            if container["image"].partition(":")[0] == "timerd":
                yield container["image"]


def imaged(tree: Path, version: str, folder: Path) -> Path | None:
    """timerd-image-VERSION.tar, as `docker load` takes it. None: no Docker engine answers. Raises NotDeployable where
    the image cannot be built."""
    if not _has_engine():
        return None
    made = folder / f"timerd-image-{version}.tar"
    tag = f"timerd:{version}"
    for command in (
        ["docker", "build", "--quiet", "--build-arg", f"VERSION={version}", "--tag", tag, str(tree)],
        ["docker", "run", "--rm", tag, "version"],
        ["docker", "save", "--output", str(made), tag],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=BUILD_S)
        if done.returncode:
            raise NotDeployable(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")
    return made


def _has_engine() -> bool:
    if shutil.which("docker") is None:
        return False
    asked = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=60)
    return asked.returncode == 0
