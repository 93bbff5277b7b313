"""Parts of a page that a tool writes: each between two markers of its own, so that a run replaces only its part."""

from __future__ import annotations

from pathlib import Path


def median_on(path: Path, name: str, row: str) -> float:
    """What stands as the median of a row in the part of that name; KeyError if it is not there."""
    page = path.read_text(encoding="utf-8")
    part = page.partition(f"<!-- {name}: written")[2].partition(f"<!-- end of {name} -->")[0]
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if line.startswith("|") and cells[1] == row:
            return float(cells[2].split()[0].replace(",", ""))
    raise KeyError(f"{path.name} has no row {row!r} in its part {name!r}")


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
