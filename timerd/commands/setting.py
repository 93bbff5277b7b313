"""One setting as its users know it: its name in a file and in the environment, and how its value is written.

All of it is read off the model (timerd/config.py), so that a field that is added there is known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from typing import Any, get_origin, get_type_hints

from pydantic import SecretStr

from timerd.commands.failures import WrongInput
from timerd.commands.times import parse_span, shown_span

PREFIX = "TIMERD_"
HIDDEN = "(set, not shown)"
_UNIT = re.compile(r"_(ms|bytes)$")
_SIZES = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SIZE = re.compile(r"(\d+)\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class Setting:
    """`path`: the fields that lead to it. `name`: what a file calls it, with its section: `tls.key_file`."""

    path: tuple[str, ...]
    kind: Any
    default: object

    @property
    def name(self) -> str:
        return _UNIT.sub("", ".".join(self.path))

    @property
    def variable(self) -> str:
        return PREFIX + self.name.replace(".", "_").upper()

    @property
    def is_secret(self) -> bool:
        return "SecretStr" in str(self.kind)

    def read(self, value: object) -> object:
        """As the model takes it. Raises WrongInput."""
        unit = _UNIT.search(self.path[-1])
        if unit is not None:
            return _span_ms(value) if unit[1] == "ms" else _size_bytes(value)
        if isinstance(value, str) and get_origin(self.kind) is tuple:
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    def show(self, value: object) -> object:
        """As a user would write it; JSON can hold it."""
        unit = _UNIT.search(self.path[-1])
        if value is None or isinstance(value, SecretStr):
            return HIDDEN if value else None
        if unit is not None and isinstance(value, int):
            return shown_exactly(value) if unit[1] == "ms" else shown_size(value)
        if isinstance(value, tuple):
            return ",".join(map(str, value))
        return value if isinstance(value, bool | int | float | Mapping) else str(value)


def settings_of(model: type[Any], path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Every setting of the model, section by section."""
    kinds = get_type_hints(model)
    for each in fields(model):
        kind = kinds[each.name]
        default = each.default_factory() if callable(each.default_factory) else each.default
        if is_dataclass(kind) and isinstance(kind, type):
            yield from settings_of(kind, (*path, each.name))
        else:
            yield Setting((*path, each.name), kind, default)


def value_of(config: object, setting: Setting) -> object:
    for name in setting.path:
        config = getattr(config, name)
    return config


def _span_ms(value: object) -> int:
    if not isinstance(value, str):
        raise WrongInput(f"{value!r} is not a span of time: write a number with its unit in quotes, as in '90s'.")
    return round(parse_span(value).total_seconds() * 1000)


def _size_bytes(value: object) -> int:
    found = _SIZE.fullmatch(str(value).strip().lower()) if not isinstance(value, bool) else None
    if found is None or found[2] not in _SIZES:
        raise WrongInput(f"{value!r} is not a size: write bytes, or a number with KiB, MiB or GiB, as in '512MiB'.")
    return int(found[1]) * _SIZES[found[2]]


def shown_exactly(span_ms: int) -> str:
    short = shown_span(timedelta(milliseconds=span_ms))
    return short if _span_ms(short) == span_ms else f"{span_ms}ms"


def shown_size(size_bytes: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % _SIZES[unit.lower()] == 0:
            return f"{size_bytes // _SIZES[unit.lower()]}{unit}"
    return str(size_bytes)
