"""docs/use/other-languages.md: the stubs for Go are made as typed there, and its program calls with them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.languages import BUILD, ENVIRONMENT, GO, ROOT, require
from tests.docs import blocks
from tests.process.children import Server
from timerd.client import SyncClient

pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.timeout(900)]
PAGE = "docs/use/other-languages.md"
PROTOC = f'#!/bin/sh\nexec {sys.executable} -m grpc_tools.protoc "$@"\n'
_BUILD_S = 800


def block(language: str) -> str:
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", blocks.read(PAGE), re.MULTILINE | re.DOTALL)
    return str(found)


def typed(command: str, folder: Path, programs: Path) -> str:
    """`programs`: where go installs and the shell looks."""
    path = os.pathsep.join([str(programs), ENVIRONMENT["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder, env={**ENVIRONMENT, "PATH": path, "GOBIN": str(programs)},
        capture_output=True, text=True, check=False, timeout=_BUILD_S,
    )  # fmt: skip
    assert done.returncode == 0, (command, done)
    return done.stdout


def test_the_stubs_for_go(server: Server, tmp_path: Path) -> None:
    require(GO)
    folder, programs = tmp_path / "example", BUILD / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    folder.mkdir()
    (tmp_path / "timerd").symlink_to(ROOT)
    (programs / "protoc").write_text(PROTOC)
    (programs / "protoc").chmod(0o755)
    typed("go mod init example", folder, programs)
    typed(block("sh"), folder, programs)
    (folder / "main.go").write_text(block("go").replace(blocks.ADDRESS, server.address))
    assert typed("go run .", folder, programs) == "ITEM_OUTCOME_STORED\n"
    with SyncClient(server.address) as client:
        [task] = client.list(queue="mails", include_payload=True)
    assert task.payload == b"tea is ready"
