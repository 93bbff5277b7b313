"""The sentences of a page, and how many words each has. Tables, code, headings and comments are no prose."""

from __future__ import annotations

import re
from statistics import fmean
from typing import NamedTuple

_LEFT_OUT = re.compile(r"^(```|~~~).*?^\1[ \t]*$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_NO_PROSE = re.compile(r"^\s*(?:\||#|!{3} )|^\s*$")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]*`")
# A full stop ends a sentence where the next one begins: with a capital, a figure, a bracket or a mark of emphasis.
_END = re.compile(r"(?<=[.!?])[)*\"”]*\s+(?=[(*\"“]*[A-Z0-9])")
_WORD = re.compile(r"\w")


class Prose(NamedTuple):
    """What a page says in sentences."""

    sentences: list[str]

    @property
    def mean(self) -> float:
        """Words a sentence."""
        return fmean(map(words, self.sentences)) if self.sentences else 0


def words(sentence: str) -> int:
    """What is set between blanks and has a letter or a digit."""
    return sum(bool(_WORD.search(word)) for word in sentence.split())


def prose(page: str) -> Prose:
    return Prose([sentence for text in _paragraphs(page) for sentence in _END.split(text) if words(sentence)])


def _paragraphs(page: str) -> list[str]:
    """Each as one line: paragraphs and the items of lists, with links as their text and code as one word."""
    found: list[list[str]] = [[]]
    for line in _LEFT_OUT.sub("", page).splitlines():
        is_code = line.startswith("    ") and not found[-1]
        if _NO_PROSE.match(line) or _ITEM.match(line):
            found.append([])
        if not _NO_PROSE.match(line) and not is_code:
            found[-1].append(_ITEM.sub("", line).strip())
    return [_CODE.sub("Code", _LINK.sub(r"\1", " ".join(lines))) for lines in found if lines]
