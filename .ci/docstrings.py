"""Prints what the docstrings of the public Python API leave out, and fails where there is anything.

Public is what `__all__` of these modules names, with the methods and properties of its classes. Each has a docstring of
its own, which names its parameters: as `name`, or at the beginning of a line as "name: ...". That of a class names
those of its constructor, and the members of an enum, which are the outcomes that a caller has to tell apart.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import Any, is_typeddict

MODULES = ("timerd.client", "timerd.worker", "timerd.testing", "timerd.sdk.values.errors")


def findings(module: ModuleType) -> Iterator[str]:
    """One sentence for each name or parameter that is left out."""
    for name in module.__all__:
        thing, where = getattr(module, name), f"{module.__name__}.{name}"
        if inspect.isclass(thing):
            yield from class_findings(thing, module)
        elif callable(thing):
            yield from said(where, thing.__doc__, parameters(thing))


def class_findings(kind: type, module: ModuleType) -> Iterator[str]:
    """Of the class, and of its members, which are told once where several public classes have them of one."""
    where = f"{module.__name__}.{kind.__name__}"
    names = keys_without_words(kind, module) if is_typeddict(kind) else constructed_by(kind, module)
    yield from said(where, own_doc(kind), names)
    for name, owner, member in members(kind):
        shown = owner if owner.__name__ in module.__all__ else kind
        at = f"{module.__name__}.{shown.__name__}.{name}"
        yield from said(at, member.__doc__, parameters(member)[1:] if callable(member) else [])


def said(where: str, doc: str | None, names: list[str]) -> Iterator[str]:
    """What a docstring does not say of these names."""
    if not doc:
        yield f"{where} has no docstring."
        return
    for name in names:
        if not re.search(rf"`\*{{0,2}}{name}`|^ *\*{{0,2}}{name}: ", doc, re.MULTILINE):
            yield f"{where} does not say what `{name}` is."


def own_doc(kind: type) -> str | None:
    """A dataclass without one has its signature instead, which is none."""
    doc = vars(kind).get("__doc__")
    return None if doc and is_dataclass(kind) and doc.startswith(f"{kind.__name__}(") else doc


def constructed_by(kind: type, module: ModuleType) -> list[str]:
    """The parameters of its constructor, unless that is another public class's; the members of an enum."""
    if issubclass(kind, Enum):
        return [member.name for member in kind]
    maker = next(base for base in kind.__mro__ if "__init__" in vars(base))
    inherited = maker is not kind and maker.__name__ in module.__all__
    if maker.__module__.partition(".")[0] != kind.__module__.partition(".")[0] or inherited:
        return []
    return parameters(vars(maker)["__init__"])[1:]


def keys_without_words(kind: type, module: ModuleType) -> list[str]:
    """The keys of a TypedDict that are no fields of the dataclass, named in its docstring, that says what they are."""
    named = [getattr(module, name, None) for name in re.findall(r"`(\w+)`", kind.__doc__ or "")]
    explained = {field.name for each in named if inspect.isclass(each) and is_dataclass(each) for field in fields(each)}
    return [key for key in kind.__annotations__ if key not in explained]


def members(kind: type) -> Iterator[tuple[str, type, Any]]:
    """Its public methods and properties, also those of the classes that it is made of, and whose they are."""
    home = kind.__module__.partition(".")[0]
    for name in dir(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), object)
        if name.startswith("_") or owner.__module__.partition(".")[0] != home:
            continue
        member = vars(owner)[name]
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        if inspect.isfunction(member) or isinstance(member, property):
            yield name, owner, member


def parameters(function: Any) -> list[str]:  # noqa: ANN401 - whatever can be called
    """All but those that are private."""
    return [name for name in inspect.signature(function).parameters if not name.startswith("_")]


def main() -> int:
    found = [each for name in MODULES for each in findings(import_module(name))]
    for each in dict.fromkeys(found):
        print(f"  {each}")
    print(f"{len(MODULES)} modules, {len(set(found))} names and parameters without a word")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
