"""What a page of the docs tells a newcomer to type and to write, in its order."""

from __future__ import annotations

import re

from tests.docs import blocks

# A fence, so that indented lines of a program are none of the shell's; or indented lines.
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|((?:^    [^\n]+\n)+)", re.MULTILINE | re.DOTALL)
# A name in backticks before a fence.
_FILE = re.compile(r"`([\w/]+\.(?:py|go|mjs|sh))`")


def section(page: str, title: str) -> str:
    """From its heading to the next one of the same level or above."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*)", blocks.read(page), re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no section {title!r}"
    fences = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    covered = fences.sub(lambda block: re.sub("(?m)^#", "-", block[0]), found[2])
    end = re.search(rf"^#{{1,{len(found[1])}}} ", covered, re.MULTILINE)
    return found[2][: end.start()] if end else found[2]


def typed(text: str) -> list[str]:
    """Its blocks of commands, each as one text: those fenced as `sh`, and those indented."""
    found = []
    for language, fenced, indented in _BLOCK.findall(text):
        if indented:
            found.append(re.sub(r"(?m)^    ", "", indented))
        elif language == "sh":
            found.append(fenced)
    return found


def files(text: str) -> dict[str, str]:
    """Its programs by the name that stands before each."""
    named, end = {}, 0
    for block in re.finditer(r"^```(?:python|go|js|bash)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if name := _FILE.findall(text[end : block.start()]):
            named[name[0]] = block[1]
        end = block.end()
    return named


def fenced(text: str, language: str) -> list[str]:
    return [str(each) for each in re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def commands(block: str) -> list[str]:
    """Its lines, without those that install, and without remarks."""
    joined = re.sub(r"\\\n\s*", "", block)
    lines = [re.sub(r"\s+# .*$", "", line) for line in joined.splitlines()]
    return [line for line in lines if line and not is_installing(line)]


def is_installing(line: str) -> bool:
    return line.startswith(("pip install", "python3 -m venv"))
