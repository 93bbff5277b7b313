"""Makes two wheels of the one that the checkout gives: timerd-client, which callers and workers install, with grpcio
and protobuf alone; and timerd, the server, which depends on it.

Each file is in one of them. The version of one is that of the other, for they are one tree.
"""

from __future__ import annotations

import base64
import zipfile
from collections.abc import Iterable, Mapping
from email.message import Message
from email.parser import HeaderParser
from hashlib import sha256
from pathlib import Path

CLIENT = (
    *("timerd/__init__.py", "timerd/py.typed", "timerd/client.py", "timerd/worker.py", "timerd/tracing.py"),
    *("timerd/sdk/", "timerd/tasks/", "timerd/v1/"),
)
SUMMARY = "Client and worker of timerd, a durable timer service."
NEEDS = ("grpcio", "protobuf")
# Extra -> what it needs. `tasks`: typed tasks, timerd.tasks.
EXTRAS = {"otel": ("opentelemetry-api",), "tasks": ("pydantic",)}
_DATE = (2026, 1, 1, 0, 0, 0)
Files = dict[str, bytes]


def split(whole: Path, folder: Path) -> tuple[Path, Path]:
    """(timerd-client, timerd), written into the folder."""
    with zipfile.ZipFile(whole) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}
    name, version, tag = whole.name.removesuffix(".whl").split("-", 2)
    info = f"{name}-{version}.dist-info/"
    client = {name: content for name, content in files.items() if name.startswith(CLIENT)}
    server = {name: content for name, content in files.items() if name not in client}
    about = HeaderParser().parsestr(files[info + "METADATA"].decode())
    own = f"timerd_client-{version}.dist-info/"
    for each in ("WHEEL", "licenses/LICENSE"):
        client[own + each] = files[info + each]
    client[own + "METADATA"] = client_metadata(about).as_bytes()
    about["Requires-Dist"] = f"timerd-client=={version}"
    server[info + "METADATA"] = about.as_bytes()
    return (
        write(folder / f"timerd_client-{version}-{tag}.whl", client, own),
        write(folder / f"timerd-{version}-{tag}.whl", server, info),
    )


def client_metadata(whole: Message) -> Message:
    """What the whole says of itself, but for its name, and what it needs."""
    about = Message()
    for header, value in whole.items():
        if header not in ("Requires-Dist", "Provides-Extra", "Description-Content-Type"):
            about[header] = value
    about.replace_header("Name", "timerd-client")
    about.replace_header("Summary", SUMMARY)
    needed = requirements(whole)
    for name in NEEDS:
        about["Requires-Dist"] = needed[name]
    for extra, names in EXTRAS.items():
        about["Provides-Extra"] = extra
        for name in names:
            about["Requires-Dist"] = f"{needed[name]}; extra == '{extra}'"
    about["Description-Content-Type"] = "text/markdown"
    about.set_payload(f"{SUMMARY}\n\nThe server is the package `timerd`; its README tells how to use both.\n")
    return about


def requirements(about: Message) -> Mapping[str, str]:
    """Package -> what the whole asks of it, without the extra for which."""
    found: dict[str, str] = {}
    for line in about.get_all("Requires-Dist", []):
        asked = line.partition(";")[0].strip()
        name = asked
        for sign in "[<>=!~ ":
            name = name.partition(sign)[0]
        found.setdefault(name, asked)
    return found


def write(path: Path, files: Files, info: str) -> Path:
    """The same bytes for the same files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        record = [line(name, content) for name, content in sorted(files.items())]
        record.append(f"{info}RECORD,,")
        for name, content in [*sorted(files.items()), (info + "RECORD", text(record))]:
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr, entry.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return path


def line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(sha256(content).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(content)}"


def text(lines: Iterable[str]) -> bytes:
    return "".join(f"{each}\n" for each in lines).encode()
