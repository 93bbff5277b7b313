"""Parts of a page that a tool writes: each between two markers of its own, so that a run replaces only its part."""

from __future__ import annotations

from pathlib import Path


def put(path: Path, name: str, text: str) -> None:
    """In the place of the last one of that name, or at the end."""
    begin, end = f"<!-- {name}: written by the benchmark, do not edit -->", f"<!-- end of {name} -->"
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    part = f"{begin}\n\n{text.strip()}\n\n{end}\n"
    if begin in page and end in page:
        before, _, rest = page.partition(begin)
        page = before + part + rest.partition(end)[2].removeprefix("\n")
    else:
        page = f"{page.rstrip()}\n\n{part}".lstrip()
    path.write_text(page, encoding="utf-8")
