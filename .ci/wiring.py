"""Finds collaborators that an object gets after it was made, from another one.

Such a slot is empty until somebody remembers to fill it, and no type checker sees that nobody does. A collaborator is a
function, a Protocol, or an object of a class that is no value: values are dataclasses, tuples, enumerations, errors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from style import statements

VALUES = {"NamedTuple", "Enum", "IntEnum", "StrEnum", "IntFlag", "Exception", "dict", "str", "bytes", "int", "Message"}


def acting_classes(tree: ast.AST) -> Iterator[str]:
    """The classes of a module whose objects are collaborators."""
    yield "Callable"
    for node in statements(tree):
        if isinstance(node, ast.ClassDef):
            marks = {word for mark in node.decorator_list for word in _names(mark)}
            bases = {word for base in node.bases for word in _names(base)}
            if "dataclass" not in marks and not bases & VALUES:
                yield node.name
        elif isinstance(node, ast.Assign) and "Callable" in _names(node.value):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def slots(tree: ast.AST, acting: set[str]) -> Iterator[str]:
    """The attributes that constructors make of collaborators."""
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            kinds = {arg.arg: _names(arg.annotation) for arg in (*node.args.args, *node.args.kwonlyargs)}
            for target, names in _set_on_self(node):
                if acting & set().union(*(kinds.get(name, {name}) for name in names)):
                    yield target


def given(tree: ast.AST, named: set[str], acting: set[str]) -> Iterator[tuple[int, str]]:
    """(line, attribute): where an attribute of that name is set on another object, but for a value that is seen to be
    one."""
    for node in statements(tree):
        for target, value in _pairs(node):
            if target.attr in named and ast.unparse(target.value) != "self" and not _is_value(value, acting):
                yield target.lineno, ast.unparse(target)


def _is_value(value: ast.expr, acting: set[str]) -> bool:
    """A constant, or an object that is made here of a class of values."""
    if isinstance(value, ast.IfExp):
        return _is_value(value.body, acting) and _is_value(value.orelse, acting)
    made = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
    return isinstance(value, ast.Constant) or (made[:1].isupper() and made not in acting)


def _pairs(node: ast.AST) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    """The attributes that an assignment sets, each with its value."""
    for target in node.targets if isinstance(node, ast.Assign) else ():
        pairs = [(target, node.value)] if isinstance(node, ast.Assign) else []
        if isinstance(target, ast.Tuple) and isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        yield from ((each, value) for each, value in pairs if isinstance(each, ast.Attribute))


def _set_on_self(constructor: ast.FunctionDef) -> Iterator[tuple[str, set[str]]]:
    for node in statements(constructor):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            yield node.target.attr, _names(node.annotation)
        for target, value in _pairs(node):
            yield target.attr, _names(value.func if isinstance(value, ast.Call) else value)


def _names(node: ast.AST | None) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} if node is not None else set()
