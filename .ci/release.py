"""Makes a release out of a tag, and tries it: what it made is in dist/, and nothing is published from here.

    python .ci/release.py v0.1.0 [--python python3.13 ...] [--url https://example.org/timerd]

The tag is taken as it was committed, so what lies about in the tree is in no release. Its sdist, and the two wheels
timerd-client and timerd, are tried in fresh environments of each Python named (those of 3.11 to 3.14 that are here,
where none is): the client alone, without numpy; then the server beside it, with a task that goes through both; then the
same by the native front door, which is built where cargo is here. Beside
them are the manifests of k8s/ in one file and, where a Docker engine answers, the image. What is built names the
address of `--url`, or that of the remote `origin`, where it is one that a browser can reach.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import release_deploy
import release_home
import release_native
import split_wheel

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TRIAL = Path(__file__).resolve().parent / "release_trial.py"
PIP_S = 600


class ReleaseFailed(Exception):
    """A sentence for who releases."""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Without what the caller's Python is told: a PYTHONPATH would have a checkout tried in the place of a wheel."""
    told = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=told, capture_output=True, text=True, check=False, timeout=PIP_S
    )
    if done.returncode:
        raise ReleaseFailed(f"`{' '.join(map(str, command))}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def exported(tag: str, folder: Path) -> Path:
    """The tree of the tag."""
    tree = folder / "tree"
    tree.mkdir()
    packed = folder / "tree.tar"
    run("git", "archive", "--output", packed, tag, cwd=ROOT)
    run("tar", "-xf", packed, "-C", tree)
    return tree


def check_versions(tag: str, tree: Path) -> str:
    """Raises ReleaseFailed where the places that name a version differ from the tag."""
    version = tag.removeprefix("v")
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    package = re.search(r'^__version__ = "(.*)"$', (tree / "timerd/__init__.py").read_text("utf-8"), re.MULTILINE)
    said = {
        "pyproject.toml": project,
        "timerd/__init__.py": package[1] if package else "",
        str(release_deploy.VERSION): release_deploy.version_of(tree),
        **release_native.versions(tree),
    }
    if wrong := {place: found for place, found in said.items() if found != version}:
        raise ReleaseFailed(f"The tag is {tag}, and these say otherwise: {wrong}. Make them agree, then tag anew.")
    if f"## [{version}]" not in (tree / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise ReleaseFailed(f"CHANGELOG.md has no section [{version}]: name what was [Unreleased] so, then tag anew.")
    return version


def built(tree: Path, folder: Path) -> list[Path]:
    """The sdist, and the two wheels that are made of what it gives."""
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    tools, made = folder / "tools", folder / "made"
    run(sys.executable, "-m", "venv", tools)
    run(tools / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *project["build-system"]["requires"])
    run(tools / "bin/hatchling", "build", "-t", "sdist", "-d", made, cwd=tree)
    [sdist] = made.glob("*.tar.gz")
    # From the sdist, which so is known to be whole.
    run("tar", "-xf", sdist, "-C", folder)
    run(tools / "bin/hatchling", "build", "-t", "wheel", "-d", made, cwd=folder / sdist.name.removesuffix(".tar.gz"))
    [whole] = made.glob("*.whl")
    DIST.mkdir(exist_ok=True)
    return [Path(shutil.copy(sdist, DIST)), *split_wheel.split(whole, DIST)]


def interpreters(named: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those that are here, and those that are not."""
    wanted = named or [f"python{version}" for version in PYTHONS]
    found = {name: next(filter(works, (name, *kept(name))), None) for name in wanted}
    return [each for each in found.values() if each], [name for name, each in found.items() if not each]


def kept(name: str) -> list[str]:
    """Those of pyenv, which has all but the chosen one off the path; the newest first."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")

    def version(path: Path) -> list[int]:
        return [int(digits) for digits in re.findall(r"\d+", path.parent.parent.name)]

    return [str(path) for path in sorted(root.glob(f"versions/*/bin/{name}"), key=version, reverse=True)]


def works(python: str) -> bool:
    """A name may be there and lead nowhere, as the shims of pyenv do."""
    command = [python, "-c", "import sys, venv; sys.exit(sys.version_info < (3, 11))"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    except OSError:
        return False


def tried(python: str, client: Path, server: Path, folder: Path, native: Path | None = None) -> None:
    """The server is tried without the native door, and with it where it was built. Raises ReleaseFailed."""
    environment = folder / f"trial-{Path(python).name}"
    run(python, "-m", "venv", environment)
    pip, own = (environment / "bin/pip", "--quiet", "--disable-pip-version-check"), environment / "bin/python"
    run(*pip, "install", client)
    run(own, TRIAL, "client", cwd=folder)
    run(*pip, "install", server, client)
    run(*pip, "check")
    run(own, TRIAL, "server", cwd=folder)
    if native is not None:
        run(*pip, "install", "--find-links", native.parent, f"timerd[native] @ {server.resolve().as_uri()}")
        run(*pip, "check")
        run(own, TRIAL, "native", cwd=folder)
    run(*pip, "uninstall", "--yes", "timerd")
    run(own, TRIAL, "client", cwd=folder)


def sums(files: Sequence[Path]) -> str:
    return "".join(f"{sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


def origin() -> str:
    """Empty where there is none."""
    command = ["git", "remote", "get-url", "origin"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def release(tag: str, named: Sequence[str], url: str = "") -> None:
    """Raises ReleaseFailed, NotDeployable, NoHome, NotBuilt."""
    home = release_home.checked(url) if url else release_home.home_of(origin())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        tree = exported(tag, folder)
        version = check_versions(tag, tree)
        home = release_home.write_home(tree, home)
        files = built(tree, folder)
        release_home.check_home(files[1:], home)
        here, missing = interpreters(named)
        if not here:
            raise ReleaseFailed(f"None of {', '.join(missing)} is here, so nothing can be tried: name one by --python.")
        native = release_native.built(tree, folder, DIST)
        for python in here:
            tried(python, files[1], files[2], folder, native)
            print(f"{python}: the client alone, and a task through server and client")
        files += [native] if native is not None else []
        files.append(release_deploy.packed(tree, version, DIST))
        if (image := release_deploy.imaged(tree, version, DIST)) is not None:
            files.append(image)
    (DIST / "SHA256SUMS").write_text(sums(files), encoding="utf-8")
    print(f"dist/ has {version}: {', '.join(file.name for file in files)}, SHA256SUMS")
    print(f"[project.urls]: {home or 'none, for `origin` is no public address, and no --url was given'}")
    if image is None:
        print("no image, for no Docker engine answers here")
    if missing:
        print(f"not tried, for it is not here: {', '.join(missing)}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="release.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tag", help="v and the version, as v0.1.0")
    parser.add_argument("--python", action="append", default=[], help="an interpreter to try it with; may be repeated")
    parser.add_argument("--url", default="", help="where the project is; without it the remote `origin`, if public")
    given = parser.parse_args(arguments)
    try:
        release(given.tag, given.python, given.url)
    except (ReleaseFailed, release_deploy.NotDeployable, release_home.NoHome, release_native.NotBuilt) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
