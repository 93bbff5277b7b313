"""What the checker said of each case, with the digest of the text that it said it of."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from tests.models.checking import HERE

FILE = HERE / "proven.json"


def digest_of(case: str, folder: Path = HERE) -> str:
    """Of its model and of the script that asks the checker."""
    text = (folder / f"{case.split(maxsplit=1)[0]}.pml").read_bytes() + (folder / "check.sh").read_bytes()
    return sha256(text).hexdigest()[:16]


class Proven:
    """`proven.json`: by case, the digest and the verdict."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._verdicts: dict[str, list[str]] = json.loads(file.read_text("utf-8")) if file.exists() else {}

    def said(self, case: str) -> str:
        """Empty where the model is another one by now."""
        digest, said = self._verdicts.get(case, ("", ""))
        return said if digest == digest_of(case) else ""

    def note(self, case: str, said: str) -> None:
        self._verdicts[case] = [digest_of(case), said]
        lines = (f"{json.dumps(each)}: {json.dumps(found)}" for each, found in sorted(self._verdicts.items()))
        self._file.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
