"""Prints the size figures of the package and fails beyond the limits: the house must stay readable in an afternoon.

Counted are the modules under timerd/ without the generated timerd/v1 and timerd/peer. A function counts from `def` to
its last line, its docstring included; a nested one counts by itself and within its parent.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Figures:
    """What was counted. `functions` and `modules` hold (lines, where)."""

    functions: list[tuple[int, str]] = field(default_factory=list)
    modules: list[tuple[int, str]] = field(default_factory=list)
    unannotated: list[str] = field(default_factory=list)


def modules(package: Path) -> Iterator[Path]:
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] not in ("v1", "peer"):
            yield path


def is_annotated(function: Function, in_class: bool) -> bool:
    """Whether each parameter (but self and cls) and the result have a type."""
    spec = function.args
    static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in function.decorator_list)
    positional = (spec.posonlyargs + spec.args)[1 if in_class and not static else 0 :]
    rest = [arg for arg in (spec.vararg, spec.kwarg) if arg]
    return function.returns is not None and all(arg.annotation for arg in positional + spec.kwonlyargs + rest)


def functions(node: ast.AST, in_class: bool = False) -> Iterator[tuple[Function, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child, in_class
        yield from functions(child, isinstance(child, ast.ClassDef))


def measure(package: Path) -> Figures:
    figures = Figures()
    for path in modules(package):
        name = path.relative_to(package.parent).as_posix()
        text = path.read_text(encoding="utf-8")
        # An empty __init__ is a signpost, not a module to read.
        if text.strip():
            figures.modules.append((len(text.splitlines()), name))
        for function, in_class in functions(ast.parse(text)):
            where = f"{name}:{function.lineno} {function.name}"
            figures.functions.append((1 + (function.end_lineno or function.lineno) - function.lineno, where))
            if not is_annotated(function, in_class):
                figures.unannotated.append(where)
    return figures


def percentile(values: list[int], share: float) -> int:
    """The smallest value that `share` of all values do not exceed."""
    return sorted(values)[max(0, -(-int(len(values) * share * 1000) // 1000) - 1)]


def rows(figures: Figures) -> Iterator[tuple[str, float, float, list[str]]]:
    """Each figure: its name, value, limit, and the places that are beyond it."""
    lines = [count for count, _ in figures.functions]
    sizes = [count for count, _ in figures.modules]
    yield "function lines, median", statistics.median(lines), 8, []
    yield "function lines, p90", percentile(lines, 0.9), 30, []
    yield "function lines, longest", max(lines), 60, beyond(figures.functions, 60)
    yield "module lines, median", statistics.median(sizes), 150, []
    yield "module lines, longest", max(sizes), 400, beyond(figures.modules, 400)
    yield "functions without all types", len(figures.unannotated), 0, figures.unannotated


def beyond(measured: list[tuple[int, str]], limit: int) -> list[str]:
    return [f"{where} ({count} lines)" for count, where in sorted(measured, reverse=True) if count > limit]


def main() -> int:
    figures = measure(ROOT / "timerd")
    annotated = 100 * (1 - len(figures.unannotated) / len(figures.functions))
    print(f"{len(figures.modules)} modules, {len(figures.functions)} functions, {annotated:.1f} % annotated")
    failed = False
    for name, value, limit, places in rows(figures):
        failed |= value > limit
        print(f"  {name:<28} {value:>6g}   limit {limit:>4g}{'   TOO MUCH' if value > limit else ''}")
        for place in places:
            print(f"      {place}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
