"""The figures of `make lint` are counted right, on a package small enough to count by hand."""

from __future__ import annotations

import ast
from pathlib import Path

import style

SOURCE = '''"""A module."""


class A:
    def typed(self, x: int, *rest: str) -> int:
        """Doc."""
        return x

    def untyped(self, x) -> int:
        def inner() -> int:
            return 1

        return inner()
'''


def measured(folder: Path) -> style.Figures:
    package = folder / "package"
    (package / "v1").mkdir(parents=True)
    (package / "a.py").write_text(SOURCE)
    (package / "__init__.py").write_text("")
    (package / "v1" / "generated.py").write_text(SOURCE)
    return style.measure(package)


def test_functions_and_modules_are_counted_without_the_generated_ones(tmp_path: Path) -> None:
    figures = measured(tmp_path)
    assert figures.modules == [(13, "package/a.py")]
    assert sorted(count for count, _ in figures.functions) == [2, 3, 5]


def test_a_missing_annotation_is_found(tmp_path: Path) -> None:
    assert measured(tmp_path).unannotated == ["package/a.py:9 untyped"]


def test_percentile_is_the_smallest_value_that_covers_the_share() -> None:
    values = list(range(1, 11))
    assert [style.percentile(values, share) for share in (0.5, 0.9, 1.0)] == [5, 9, 10]


def test_what_is_beyond_a_limit_is_named() -> None:
    figures = style.Figures(functions=[(61, "a"), (3, "b")], modules=[(20, "m")])
    beyond = {name: places for name, value, limit, places in style.rows(figures) if value > limit}
    assert beyond["function lines, longest"] == ["a (61 lines)"]
    assert "module lines, longest" not in beyond


def test_a_named_state_machine_may_be_longer() -> None:
    modules = [(700, next(iter(style.MACHINES))), (700, "timerd/other.py")]
    beyond = {
        name: places for name, value, limit, places in style.rows(style.Figures([(1, "a")], modules)) if value > limit
    }
    assert beyond == {"module lines, longest": ["timerd/other.py (700 lines)"], "module lines, median": []}


def test_containers_of_a_constructor_are_counted() -> None:
    source = """
class Rows:
    def __init__(self, memory: Memory) -> None:
        self.waiting, self.counts = DueQueue(memory.touched), Counter()
        self.by_key: dict[bytes, int] = {}
        self.memory, self.cursor = memory, 0
"""
    assert list(style.containers(ast.parse(source), "Rows")) == ["waiting", "by_key"]
