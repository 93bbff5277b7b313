"""Pages are written in sentences of 20 words in the mean, and none above 35."""

from __future__ import annotations

import pytest

from tests.docs import blocks
from tests.docs.sentences import prose, words

MEAN_WORDS, MOST_WORDS = 20, 35
UNDERSTAND = [
    f"docs/understand/{name}.md"
    for name in ("architecture", "guarantees", "performance", "protocol", "row-states", "schedule-edges")
]
USE = sorted(path.relative_to(blocks.ROOT).as_posix() for path in (blocks.ROOT / "docs/use").glob("*.md"))


@pytest.mark.parametrize("page", ["README.md", *USE, *UNDERSTAND])
def test_sentences_are_short(page: str) -> None:
    text = prose(blocks.read(page))
    assert [sentence for sentence in text.sentences if words(sentence) > MOST_WORDS] == []
    assert text.mean <= MEAN_WORDS


@pytest.mark.parametrize(
    ("page", "counts"),
    [
        ("One two. Three four five?\n\nSix", [2, 3, 1]),
        ("It is wrapped\nonce. `code` begins this one.", [4, 4]),
        ("It costs 1.5 ms, e.g. here - not 2.", [8]),
        ("- one\n- two three\n  four\n\n1. five", [1, 3, 1]),
        ("[three words here](a/b.md#c-d) and `some code.py of it`", [5]),
        ("# A heading\n| a | table |\n\n    code of it\n\n<!-- a comment -->\n```\nmore. Code\n```\nText.", [1]),
        ("**In bold.** It goes on.", [2, 3]),
    ],
)
def test_what_a_sentence_is(page: str, counts: list[int]) -> None:
    assert [words(sentence) for sentence in prose(page).sentences] == counts
