"""The switches that the text of a model has."""

from __future__ import annotations

import re
from pathlib import Path


def switches_named_in(model: Path) -> set[str]:
    """The switches that the model's text asks for; numbers with a default (NCRASH ...) are dials, not variants."""
    text = model.read_text(encoding="utf-8")
    asked = set(re.findall(r"#ifn?def (\w+)", text)) | set(re.findall(r"defined\((\w+)\)", text))
    return asked - set(re.findall(r"#define (\w+)", text))
