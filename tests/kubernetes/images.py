"""The images that the overlay `try` names, for clusters that reach no registry.

    python -m tests.kubernetes.images FOLDER

writes timerd.tar, cassandra.tar and redis.tar into FOLDER, archives as `docker save` writes them, for `ctr images
import`, `kind load image-archive` and the like. The stores are a Debian root made by mmdebstrap and the jars that the
tests use elsewhere (JDK 17, Maven); timerd's own image is built by the Docker engine as docs/operate/kubernetes.md
says.
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.container.engine import NoEngine, base, build, context_in, docker
from tests.engines.cassandra_node import agent_of, fetch_jars, java_command, write_conf
from timerd import __version__

TIMERD, CASSANDRA, REDIS = f"timerd:{__version__}", "cassandra:5.0", "redis:7"
_RELEASE = "bookworm"
_STORES = "openjdk-17-jre-headless,redis-server"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_USER = "999:999"
_CASSANDRA, _DATA = Path("/opt/cassandra"), Path("/var/lib/cassandra")
# Known when it runs.
_ADDRESS, _HEAP = "POD_ADDRESS", "HEAP"
# As the image of Cassandra itself has it: MAX_HEAP_SIZE is the heap. The address is that of the container.
_RUN = f"""#!/bin/sh
set -eu
mkdir -p {_DATA}/conf
sed "s/{_ADDRESS}/$(hostname -i)/g" {_CASSANDRA}/conf/cassandra.yaml > {_DATA}/conf/cassandra.yaml
cp {_CASSANDRA}/conf/logback.xml {_DATA}/conf/
cd {_DATA}
"""


def debian_root(packages: str, to: Path) -> Path:
    subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={packages}", _RELEASE, str(to)], check=True
    )
    return to


def cassandra_layer(folder: Path, to: Path) -> Path:
    """Jars, settings, and how it is started."""
    jars, lib = fetch_jars(), _CASSANDRA / "lib"
    write_conf(folder / "conf", _ADDRESS, _ADDRESS, _DATA)
    words = java_command("java", _HEAP, lib, agent_of(jars), _DATA / "conf", _DATA, quick_start=False)
    command = shlex.join(words).replace(_HEAP, '"${MAX_HEAP_SIZE:-768M}"')
    (folder / "run").write_text(f"{_RUN}exec {command}\n")
    (folder / "run").chmod(0o755)
    with tarfile.open(to, "w") as tar:
        for path, where in ((jars, lib), (folder / "conf", _CASSANDRA / "conf"), (folder / "run", _CASSANDRA / "run")):
            tar.add(path, str(where).lstrip("/"), filter=_of_root)
    return to


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def archive(name: str, layers: Sequence[Path], config: dict[str, Any], to: Path) -> None:
    ids = [f"sha256:{hashlib.sha256(layer.read_bytes()).hexdigest()}" for layer in layers]
    image = {"architecture": "amd64", "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": ids}}
    names = [f"layer-{n}.tar" for n in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": names}]
    with tarfile.open(to, "w") as tar:
        for path, content in (("config.json", image), ("manifest.json", manifest)):
            data = json.dumps(content).encode()
            member = tarfile.TarInfo(path)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for layer, path in zip(layers, names, strict=True):
            tar.add(layer, path)


def stores(root: Path, scratch: Path, folder: Path) -> None:
    layer = cassandra_layer(scratch, scratch / "cassandra-layer.tar")
    run = {"Env": [_PATH, f"CASSANDRA_CONF={_DATA}/conf"], "User": _USER, "Cmd": [str(_CASSANDRA / "run")]}
    archive(CASSANDRA, [root, layer], run, folder / "cassandra.tar")
    archive(REDIS, [root], {"Env": [_PATH], "User": _USER, "Cmd": ["redis-server"]}, folder / "redis.tar")


@contextmanager
def a_base(scratch: Path) -> Iterator[str]:
    """That of tests/container where it is there, else one of our own."""
    try:
        yield base()
    except NoEngine:
        root = debian_root("python3,python3-venv,ca-certificates", scratch / "base.tar")
        docker("import", str(root), "timerd-tests:base")
        yield "timerd-tests:base"


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        stores(debian_root(_STORES, scratch / "stores.tar"), scratch, folder)
        with a_base(scratch) as on:
            build(context_in(scratch), on, TIMERD)
        docker("save", "--output", str(folder / "timerd.tar"), TIMERD)
    print(*sorted(path.name for path in folder.glob("*.tar")))


if __name__ == "__main__":
    main()
