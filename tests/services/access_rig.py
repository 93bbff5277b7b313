"""Access files and what a client shows."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path


def write(path: Path, text: str) -> None:
    path.write_text(text)


def proof(token: str) -> str:
    return f"sha256:{sha256(token.encode()).hexdigest()}"
