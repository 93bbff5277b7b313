"""The arguments of a function as JSON: checked against its annotations when a task is scheduled, and again when it is
handled, for it may have been scheduled months ago or by another program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from timerd.sdk.values import Delivery, TaskOptions, invalid, unkept
from timerd.sdk.working import name_of

try:
    from typing import NotRequired

    from pydantic import ConfigDict, TypeAdapter, ValidationError
    from pydantic.errors import PydanticSchemaGenerationError
    from pydantic_core import to_json
    from typing_extensions import TypedDict

    from timerd.tasks.structs import plain, understood
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "Typed tasks need pydantic, which checks their arguments: `pip install pydantic`."
    ) from missing

# What a call says beside the arguments of the function.
RESERVED = frozenset({"at", "delay", "key", "on_conflict", "request_id", "options"})
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Arguments:
    """Of one function. A parameter that is annotated with `Delivery` is none of them: it gets the delivery.

    Raises InvalidTask where the function cannot be a typed task.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._name = name_of(function)
        # A string annotation is looked up where the function stands.
        hints = self._hints(function)
        self._signature = inspect.signature(function)
        self._of_delivery = tuple(name for name in self._signature.parameters if hints.get(name) is Delivery)
        fields = {
            each.name: self._field(each, hints)
            for each in self._signature.parameters.values()
            if each.name not in self._of_delivery
        }
        form = TypedDict(function.__name__, fields)  # type: ignore[misc] # its fields are known at run time
        form.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
        self._adapter = self._adapter_of(form)
        self._returned: Any = understood(hints.get("return", Any))

    def _hints(self, function: Callable[..., object]) -> dict[str, Any]:
        try:
            return get_type_hints(function, include_extras=True)
        except NameError as error:
            raise self._wrong(
                f"has an annotation that is not found where the function stands ({error}): import the type, or define "
                "it, in the module itself."
            ) from None

    def _adapter_of(self, form: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - a TypedDict
        try:
            return TypeAdapter(form)
        except PydanticSchemaGenerationError as error:
            raise self._wrong(
                "has an argument of a type that pydantic does not know: take a dataclass, a pydantic model, a Struct "
                "of msgspec or a plain type."
            ) from error

    def _field(self, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:  # noqa: ANN401 - an annotation
        if parameter.kind not in _BY_NAME:
            raise self._wrong(f"takes {parameter}: its arguments have names, so that they can travel as JSON.")
        if parameter.name in RESERVED:
            raise self._wrong(f"has a parameter {parameter.name!r}, which is a word of `schedule` itself: rename it.")
        if parameter.name not in hints:
            raise self._wrong(f"does not say of what type {parameter.name!r} is: annotate it, as `user: int`.")
        hint = understood(hints[parameter.name])
        return hint if parameter.default is inspect.Parameter.empty else NotRequired[hint]

    def _wrong(self, sentence: str) -> Exception:
        return invalid(f"The function {self._name} cannot be a typed task: it {sentence}", "function")

    def to_json(self, positional: tuple[object, ...], named: Mapping[str, object]) -> bytes:
        """Raises InvalidTask, which names the argument."""
        try:
            given = self._signature.bind_partial(*positional, **named).arguments
        except TypeError as error:
            of_options = TaskOptions.__dataclass_fields__.keys() & named.keys() - self._signature.parameters.keys()
            options = " and ".join(sorted(of_options))
            instead = f" Give {options} as `options=TaskOptions(...)`." if options else ""
            raise invalid(f"{self._name}: {error}.{instead}", "arguments") from None
        try:
            checked = self._adapter.validate_python(given)
        except ValidationError as error:
            raise invalid(f"{self._name} cannot be called so: {_sentence(error)}", _place(error)) from None
        return self._adapter.dump_json(checked)

    def from_json(self, payload: bytes, delivery: Delivery) -> dict[str, Any]:
        """What the function is called with. Raises ValueError with a sentence."""
        try:
            arguments: dict[str, Any] = self._adapter.validate_json(payload or b"{}")
        except ValidationError as error:
            raise ValueError(f"The payload is not what {self._name} takes: {_sentence(error)}") from None
        return {**arguments, **dict.fromkeys(self._of_delivery, delivery)}

    def result_to_json(self, returned: object) -> bytes:
        """Raises InvalidTask for what cannot be JSON, which ends the task as a dead letter."""
        try:
            return to_json(returned, fallback=plain)
        except ValueError as error:
            # Also of what holds itself.
            raise unkept(f"What {self._name} returned cannot be kept as JSON: {error}") from None

    def result_from_json(self, result: bytes) -> object:
        """As the function says that it returns it. Raises ValueError with a sentence."""
        try:
            return self._adapter_of(self._returned).validate_json(result)
        except ValidationError as error:
            raise ValueError(f"The result is not what {self._name} returns: {_sentence(error)}") from None


def _sentence(error: ValidationError) -> str:
    """All that is wrong, without what was given: errors are kept and shown, and payloads may be private."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in found) + "."


def _place(error: ValidationError) -> str:
    return ".".join(map(str, error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]))
