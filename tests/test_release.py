"""A release is what its tag says, and of its two wheels the client's stands alone."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import manifests
import release
import release_deploy
import release_home
import release_native
import split_wheel
import wheel_check

METADATA = """\
Metadata-Version: 2.4
Name: timerd
Version: 1.2.3
Summary: A durable timer service.
Requires-Python: >=3.11
Requires-Dist: aiohttp<4,>=3.12
Requires-Dist: grpcio<2,>=1.76
Requires-Dist: grpcio-status<2,>=1.76
Requires-Dist: protobuf<8,>=6.31.1
Requires-Dist: pydantic<3,>=2.10
Provides-Extra: otel
Requires-Dist: opentelemetry-api<2,>=1.27; extra == 'otel'
Provides-Extra: redis
Requires-Dist: redis[hiredis]<9,>=5.2; extra == 'redis'
Description-Content-Type: text/markdown

# timerd
"""
FILES = {
    "timerd/__init__.py": "", "timerd/client.py": "", "timerd/sdk/__init__.py": "", "timerd/v1/task.proto": "",
    "timerd/cli.py": "", "timerd/core/__init__.py": "", "timerd/testing/__init__.py": "",
    "timerd-1.2.3.dist-info/METADATA": METADATA,
    "timerd-1.2.3.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "timerd-1.2.3.dist-info/entry_points.txt": "[console_scripts]\ntimerd = timerd.cli:main\n",
    "timerd-1.2.3.dist-info/licenses/LICENSE": "Apache",
    "timerd-1.2.3.dist-info/RECORD": "",
}  # fmt: skip


@pytest.fixture
def wheels(tmp_path: Path) -> tuple[Path, Path]:
    whole, made = tmp_path / "timerd-1.2.3-py3-none-any.whl", tmp_path / "made"
    with zipfile.ZipFile(whole, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    made.mkdir()
    return split_wheel.split(whole, made)


def read(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_each_file_is_in_one_of_them(wheels: tuple[Path, Path]) -> None:
    client, server = ({name for name in read(wheel) if name.startswith("timerd/")} for wheel in wheels)
    assert client == {"timerd/__init__.py", "timerd/client.py", "timerd/sdk/__init__.py", "timerd/v1/task.proto"}
    assert server == {"timerd/cli.py", "timerd/core/__init__.py", "timerd/testing/__init__.py"}
    assert not any("entry_points" in name for name in read(wheels[0]))


def test_the_client_needs_grpc_and_protobuf_alone_and_the_server_needs_the_client(wheels: tuple[Path, Path]) -> None:
    client, server = (
        HeaderParser().parsestr(next(text for name, text in read(wheel).items() if name.endswith("METADATA")).decode())
        for wheel in wheels
    )
    assert (client["Name"], client["Version"], client["Requires-Python"]) == ("timerd-client", "1.2.3", ">=3.11")
    assert client.get_all("Requires-Dist") == [
        *("grpcio<2,>=1.76", "protobuf<8,>=6.31.1"),
        *("opentelemetry-api<2,>=1.27; extra == 'otel'", "pydantic<3,>=2.10; extra == 'tasks'"),
    ]
    assert client.get_all("Provides-Extra") == ["otel", "tasks"]
    asked = server.get_all("Requires-Dist", [])
    assert (server["Name"], "timerd-client==1.2.3" in asked, len(asked)) == ("timerd", True, 8)
    assert server.get_payload() == "# timerd\n"


def test_each_wheel_records_what_it_has(wheels: tuple[Path, Path]) -> None:
    for wheel in wheels:
        files = read(wheel)
        [record] = [name for name in files if name.endswith("/RECORD")]
        rows = {name: (digest, size) for name, digest, size in csv.reader(files[record].decode().splitlines())}
        assert rows.pop(record) == ("", "")
        assert rows == {
            name: tuple(split_wheel.line("", content).split(",")[1:])
            for name, content in files.items()
            if name != record
        }


def test_the_client_stands_alone(tmp_path: Path) -> None:
    """Its files import nothing that is the server's."""
    for path in (release.ROOT / "timerd").rglob("*.py"):
        name = path.relative_to(release.ROOT).as_posix()
        if name.startswith(split_wheel.CLIENT):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tmp_path / name)
    program = "import timerd.client, timerd.worker, timerd.tasks, timerd.tracing; print(timerd.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (f"{tmp_path / 'timerd/__init__.py'}\n", "")


@pytest.mark.parametrize(
    ("tag", "changelog", "said"),
    [
        ("v9.9.9", "## [9.9.9]", "these say otherwise"),
        ("v{version}", "## [Unreleased]", "has no section"),
        ("v{version}", "## [{version}] - 2026-01-01", ""),
    ],
)
def test_a_tag_says_what_the_tree_says(tag: str, changelog: str, said: str, tmp_path: Path) -> None:
    import timerd

    (tmp_path / "timerd").mkdir()
    (tmp_path / release_deploy.VERSION).parent.mkdir(parents=True)
    (tmp_path / "native").mkdir()
    for name in ("pyproject.toml", "timerd/__init__.py", "native/Cargo.toml", release_deploy.VERSION):
        shutil.copy(release.ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(changelog.format(version=timerd.__version__))
    tag = tag.format(version=timerd.__version__)
    if not said:
        assert release.check_versions(tag, tmp_path) == timerd.__version__
        return
    with pytest.raises(release.ReleaseFailed, match=said):
        release.check_versions(tag, tmp_path)


@pytest.mark.parametrize(
    ("file", "before", "after", "place"),
    [
        ("native/Cargo.toml", '\nversion = "', '\nversion = "9.', "native/Cargo.toml"),
        ("pyproject.toml", "timerd-native==", "timerd-native>=", "the extra `native`"),
    ],
)
def test_the_native_door_has_the_version_of_the_server_and_is_asked_for_exactly(
    file: str, before: str, after: str, place: str, tmp_path: Path
) -> None:
    import timerd

    (tmp_path / "native").mkdir()
    for name in ("pyproject.toml", "native/Cargo.toml"):
        shutil.copy(release.ROOT / name, tmp_path / name)
    assert set(release_native.versions(tmp_path).values()) == {timerd.__version__}
    text = (tmp_path / file).read_text(encoding="utf-8")
    (tmp_path / file).write_text(text.replace(before, after, 1), encoding="utf-8")
    assert release_native.versions(tmp_path)[place] != timerd.__version__


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not here, which builds the native door")
def test_a_server_works_without_the_native_door_and_with_it(tmp_path: Path) -> None:
    """In a fresh environment, with what pip fetches for it."""
    native = release_native.built(release.ROOT, tmp_path, tmp_path)
    assert native is not None
    whole = tmp_path / "whole"
    client, server = split_wheel.split(wheel_check.build(whole), tmp_path)
    release.tried(sys.executable, client, server, tmp_path, native)


def test_what_the_callers_python_is_told_reaches_no_fresh_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(release.ROOT))
    assert release.run(sys.executable, "-c", "import os; print(os.environ.get('PYTHONPATH'))") == "None\n"


def test_an_interpreter_that_is_not_here_is_named() -> None:
    assert release.interpreters([sys.executable, "python3.99"]) == ([sys.executable], ["python3.99"])


def test_an_interpreter_that_pyenv_keeps_off_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("3.98.9", "3.98.10"):
        (tmp_path / f"versions/{version}/bin").mkdir(parents=True)
        (tmp_path / f"versions/{version}/bin/python3.98").symlink_to(sys.executable)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    newest = str(tmp_path / "versions/3.98.10/bin/python3.98")
    assert release.interpreters(["python3.98", "python3.99"]) == ([newest], ["python3.99"])


def test_the_manifests_of_a_release_ask_for_its_image(tmp_path: Path) -> None:
    """They are one file, which whoever unpacks it renders as it stands in the tree; made twice it is the same."""
    import timerd

    made = release_deploy.packed(release.ROOT, timerd.__version__, tmp_path)
    first = made.read_bytes()
    assert release_deploy.packed(release.ROOT, timerd.__version__, tmp_path).read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == [f"timerd-k8s-{timerd.__version__}.tar.gz"]
    if not manifests.renderer():
        pytest.skip("there is neither kubectl nor kustomize on the path, and one of them renders k8s/")
    with tarfile.open(made) as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / f"timerd-k8s-{timerd.__version__}"
    assert manifests.render("overlays/cluster", root=root) == manifests.render("overlays/cluster")
    images = {
        container["image"]
        for document in manifests.render("overlays/single", root=root)
        if document["kind"] == "StatefulSet"
        for container in document["spec"]["template"]["spec"]["containers"]
    }
    assert images == {f"timerd:{timerd.__version__}"}


def test_manifests_that_cannot_be_rendered_are_no_release(tmp_path: Path) -> None:
    if not manifests.renderer():
        pytest.skip("there is neither kubectl nor kustomize on the path, and one of them renders k8s/")
    shutil.copytree(release.ROOT / "k8s", tmp_path / "tree/k8s")
    (tmp_path / "tree/k8s/base/services.yaml").unlink()
    with pytest.raises(release_deploy.NotDeployable, match=r"timerd-k8s-1.2.3.tar.gz cannot be rendered: .*services"):
        release_deploy.packed(tmp_path / "tree", "1.2.3", tmp_path)


def test_manifests_that_ask_for_another_image_are_no_release(tmp_path: Path) -> None:
    if not manifests.renderer():
        pytest.skip("there is neither kubectl nor kustomize on the path, and one of them renders k8s/")
    with pytest.raises(release_deploy.NotDeployable, match=r"asks for \['timerd:.*'\], and not for timerd:1.2.3"):
        release_deploy.packed(release.ROOT, "1.2.3", tmp_path)


@pytest.mark.parametrize(
    ("remote", "home"),
    [
        ("https://git.example.org/times/timerd.git", "https://git.example.org/times/timerd"),
        ("https://somebody:secret@git.example.org:8443/timerd/", "https://git.example.org:8443/timerd"),
        ("git@git.example.org:times/timerd.git", "https://git.example.org/times/timerd"),
        ("ssh://git@git.example.org:2222/times/timerd.git", "https://git.example.org/times/timerd"),
        ("/srv/git/timerd.git", ""),
        ("../timerd", ""),
        ("file:///srv/git/timerd.git", ""),
        ("http://localhost:3000/timerd.git", ""),
        ("ssh://git@10.0.0.7/timerd.git", ""),
        ("", ""),
    ],
)
def test_a_release_comes_from_its_remote_where_that_is_public(remote: str, home: str) -> None:
    assert release_home.home_of(remote) == home


def test_what_is_built_says_where_it_comes_from(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    """And says nothing where nothing is known."""
    release_home.check_home(wheels, "")
    with pytest.raises(release_home.NoHome, match=r"timerd_client-1.2.3.*, and not from https://example.org/timerd"):
        release_home.check_home(wheels, "https://example.org/timerd")
    whole = tmp_path / "timerd-1.2.3-py3-none-any.whl"
    line = "Project-URL: Repository, https://example.org/timerd\n"
    with zipfile.ZipFile(whole, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content.replace("Summary:", f"{line}Summary:"))
    release_home.check_home(split_wheel.split(whole, tmp_path / "made"), "https://example.org/timerd")


def test_the_address_is_written_once_and_no_other_one_over_it(tmp_path: Path) -> None:
    shutil.copy(release.ROOT / "pyproject.toml", tmp_path)
    assert release_home.write_home(tmp_path, "") == ""
    for _ in range(2):
        assert release_home.write_home(tmp_path, "https://example.org/timerd") == "https://example.org/timerd"
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["urls"] == {"Repository": "https://example.org/timerd"}
    assert release_home.write_home(tmp_path, "") == "https://example.org/timerd"
    with pytest.raises(release_home.NoHome, match="make them agree"):
        release_home.write_home(tmp_path, "https://example.org/other")


@pytest.mark.parametrize("url", ["example.org/timerd", "http://example.org", 'https://x.org/"', "https://a:b@x.org/y"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(release_home.NoHome, match="is no address of a project"):
        release_home.checked(url)
