"""Prints the figures of the package and fails beyond the limits: the house must stay readable in an afternoon.

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

MODULE_LINES, MACHINE_LINES = 500, 800
# A state machine is one idea, and whole in one file: what else it would take to read how a row ends. With the reason.
MACHINES = {
    "timerd/core/partition/partition_machine.py": "the life of a held partition, and the one face of its rows",
    "timerd/core/partition/row_table.py": "every transition of a row that is held",
}
# What is known of a row of a held partition stands in the containers that these objects make, and nowhere else: each is
# drawn in docs/understand/row-states.md.
MOST_CONTAINERS = 12
HOLDERS = {
    "timerd/core/partition/partition_machine.py": "PartitionMachine",
    "timerd/core/partition/row_table.py": "RowTable",
    "timerd/core/partition/rows_in_hand.py": "RowsInHand",
    "timerd/core/partition/settle_log.py": "SettleLog",
}
# Of a partition as a whole: how far it was read, and how many rows ended how.
OF_NO_ROW = {*HOLDERS.values(), "Sweep", "Counter", "frozenset", "ToldEnds"}
ROOT = Path(__file__).resolve().parent.parent
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Figures:
    """What was counted. `functions` and `modules` hold (lines, where)."""

    functions: list[tuple[int, str]] = field(default_factory=list)
    modules: list[tuple[int, str]] = field(default_factory=list)
    unannotated: list[str] = field(default_factory=list)
    containers: list[str] = field(default_factory=list)


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
        if not isinstance(child, ast.expr):
            yield from functions(child, isinstance(child, ast.ClassDef))


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Those within it, at any depth. `ast.walk` visits each part of each expression too, of which there are ten times
    as many."""
    for part in ("body", "handlers", "cases", "orelse", "finalbody"):
        for child in getattr(node, part, ()):
            if isinstance(child, ast.stmt):
                yield child
            yield from statements(child)


def measure(package: Path) -> Figures:
    figures = Figures()
    for path in modules(package):
        name = path.relative_to(package.parent).as_posix()
        text = path.read_text(encoding="utf-8")
        # An empty __init__ is a signpost, not a module to read.
        if text.strip():
            figures.modules.append((len(text.splitlines()), name))
        tree = ast.parse(text)
        figures.containers += containers(tree, HOLDERS[name]) if name in HOLDERS else ()
        for function, in_class in functions(tree):
            where = f"{name}:{function.lineno} {function.name}"
            figures.functions.append((1 + (function.end_lineno or function.lineno) - function.lineno, where))
            if not is_annotated(function, in_class):
                figures.unannotated.append(where)
    return figures


def containers(tree: ast.AST, name: str) -> Iterator[str]:
    """The attributes of the class that its constructor makes: objects, dicts, sets and lists."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    yield from _made_by(each)


def _made_by(constructor: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(constructor):
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in _pairs(target, node.value)]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = [(node.target, node.value)]
        else:
            continue
        yield from (
            target.attr for target, value in pairs if isinstance(target, ast.Attribute) and _is_container(value)
        )


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _is_container(value: ast.expr) -> bool:
    if isinstance(value, ast.IfExp):
        return _is_container(value.body) or _is_container(value.orelse)
    if isinstance(value, ast.Call):
        made = value.func.value if isinstance(value.func, ast.Subscript) else value.func
        return isinstance(made, ast.Name) and made.id not in OF_NO_ROW
    return isinstance(value, ast.Dict | ast.Set | ast.List | ast.DictComp | ast.SetComp | ast.ListComp)


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
    machines = [each for each in figures.modules if each[1] in MACHINES]
    others = [each for each in figures.modules if each[1] not in MACHINES]
    yield "module lines, median", statistics.median(sizes), 150, []
    yield "module lines, longest", longest(others), MODULE_LINES, beyond(others, MODULE_LINES)
    yield "state machine lines, longest", longest(machines), MACHINE_LINES, beyond(machines, MACHINE_LINES)
    yield "containers of a row's state", len(figures.containers), MOST_CONTAINERS, figures.containers
    yield "functions without all types", len(figures.unannotated), 0, figures.unannotated


def longest(measured: list[tuple[int, str]]) -> int:
    return max((count for count, _ in measured), default=0)


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
