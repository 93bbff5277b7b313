"""Arguments and results that hold msgspec's Structs, where the program has msgspec: it checks and writes them, as
pydantic does all others.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, get_args

from pydantic_core import CoreSchema, core_schema

# Of what msgspec says: other sentences of it quote the value, and errors are kept and shown.
_WITHOUT_VALUES = ("Expected ", "Object ")


def understood(hint: Any) -> Any:  # noqa: ANN401 - an annotation
    """The annotation in a form that pydantic takes."""
    msgspec = _msgspec()
    if msgspec is None or not _has(hint, msgspec.Struct):
        return hint
    return Annotated[Any, _OfMsgspec(hint)]


def plain(value: object) -> object:
    """A Struct as what JSON knows. Raises ValueError for anything else."""
    msgspec = _msgspec()
    if msgspec is None or not isinstance(value, msgspec.Struct):
        raise ValueError(f"{type(value).__name__} is no type of JSON, of pydantic or of msgspec")
    return msgspec.to_builtins(value, str_keys=True)


def _msgspec() -> Any:  # noqa: ANN401 - the module
    """None: the program does not use it."""
    return sys.modules.get("msgspec")


def _has(hint: Any, kind: type) -> bool:  # noqa: ANN401 - an annotation
    if isinstance(hint, type) and issubclass(hint, kind):
        return True
    return any(_has(each, kind) for each in get_args(hint))


class _OfMsgspec:
    """Tells pydantic who checks and writes such a value."""

    def __init__(self, hint: Any) -> None:  # noqa: ANN401 - an annotation
        self._hint = hint

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> CoreSchema:
        write = core_schema.plain_serializer_function_ser_schema(self._write)
        return core_schema.no_info_plain_validator_function(self._checked, serialization=write)

    def _write(self, value: object) -> object:
        return _msgspec().to_builtins(value, str_keys=True)

    def _checked(self, value: object) -> object:
        """Of what a caller gives as well: a Struct does not check its fields when it is made."""
        msgspec = _msgspec()
        try:
            return msgspec.convert(msgspec.to_builtins(value, str_keys=True), self._hint)
        except TypeError as error:
            raise ValueError(str(error)) from None
        except msgspec.ValidationError as error:
            raise ValueError(_sentence(str(error))) from None


def _sentence(said: str) -> str:
    what, at, place = said.partition(" - at ")
    return said if what.startswith(_WITHOUT_VALUES) else f"Not a value that it may have{at}{place}"
