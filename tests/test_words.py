"""The lint of private words: what it counts, and in which direction a figure may go."""

from __future__ import annotations

import ast

import words

ALLOWED = {"desk": 2, "he": 0}


def test_names_and_sentences_count_word_by_word() -> None:
    found = words.words_in("class WorkDesk:\n    desk_of = the_desks  # he, Desk, HEAD\n")
    assert (found["desk"], found["he"]) == (3, 1)


def test_a_word_does_not_count_where_it_is_the_right_one() -> None:
    found = words.private_in("timerd/core/x.py", "# dead letters, alone\nis_alone = DeadLetters(letters, patience)\n")
    assert [found[word] for word in ("letters", "alone", "patience")] == [1, 1, 1]
    assert words.private_in("timerd/testing/x.py", "patience = 1\n")["patience"] == 0


def test_a_word_may_not_become_more_frequent() -> None:
    said = list(words.findings({"desk": 2, "he": 1}, ALLOWED))
    assert said == ["'he' stands 1 times, 0 are allowed: say 'it'"]


def test_a_figure_is_lowered_with_the_word() -> None:
    [said] = words.findings({"desk": 1, "he": 0}, ALLOWED)
    assert "lower the figure" in said


def test_classes_and_names_of_types_are_types() -> None:
    tree = ast.parse("class Held: ...\nAnswer = int | None\nMOST = 3\nvalue = 4\nRows: TypeAlias = list\n")
    assert list(words.types_in(tree)) == ["Held", "Answer", "Rows"]


def test_what_stands_in_the_package_is_what_is_allowed() -> None:
    assert words.main() == 0
