"""Where a release says that it comes from: `[project.urls]` of what is built, from an argument or the remote.

No address stands in the tree, for a copy of it has another one. Where none is known, none is written.
"""

from __future__ import annotations

import re
import tomllib
import zipfile
from collections.abc import Sequence
from email.parser import HeaderParser
from pathlib import Path
from urllib.parse import urlsplit

LABEL = "Repository"
# `git@host:owner/name.git`, as ssh takes it.
_SCP = re.compile(r"^(?:[\w.-]+@)?([\w.-]+\.[a-z]{2,}):(?!//)(\S+)$", re.IGNORECASE)
_WEB = ("https", "http", "ssh", "git")
_HOST = re.compile(r"^[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}$", re.IGNORECASE)


class NoHome(Exception):
    """A sentence for who releases."""


def home_of(remote: str) -> str:
    """The address of a remote as a browser takes it; empty for a folder, and for a machine without a public name.

    A name or a password in it is left out, and so is a port of ssh.
    """
    if found := _SCP.match(remote):
        remote = f"ssh://{found[1]}/{found[2]}"
    parts = urlsplit(remote)
    path = parts.path.rstrip("/").removesuffix(".git")
    if parts.scheme not in _WEB or not _HOST.match(parts.hostname or "") or not path:
        return ""
    port = f":{parts.port}" if parts.port and parts.scheme in ("https", "http") else ""
    return f"https://{parts.hostname}{port}{path}"


def checked(url: str) -> str:
    """What was given by hand. Raises NoHome."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or "@" in parts.netloc or re.search(r"[\s\"\\\\]", url):
        raise NoHome(f"{url} is no address of a project: give one as https://example.org/timerd.")
    return url


def write_home(tree: Path, url: str) -> str:
    """Completes `[project.urls]` of the tree that is built, and returns the address there; empty where none is known.

    Raises NoHome where the tree has another one.
    """
    path = tree / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    urls = tomllib.loads(text)["project"].get("urls", {})
    if url and urls.get(LABEL, url) != url:
        raise NoHome(f"pyproject.toml says {urls[LABEL]}, and the release comes from {url}: make them agree.")
    if url and not urls:
        path.write_text(f'{text.rstrip()}\n\n[project.urls]\n{LABEL} = "{url}"\n', encoding="utf-8")
    return url or str(urls.get(LABEL, ""))


def check_home(wheels: Sequence[Path], url: str) -> None:
    """Raises NoHome where what was built does not say it."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
            about = HeaderParser().parsestr(archive.read(name).decode())
        said = about.get_all("Project-URL", [])
        if said != ([f"{LABEL}, {url}"] if url else []):
            raise NoHome(f"{wheel.name} says that it comes from {said}, and not from {url or 'nowhere'}.")
