"""What is served, as an OpenAPI document: every unary method, from the descriptors, and the short routes."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor

import timerd.v1
from timerd.config import own_version
from timerd.web.front import LINES
from timerd.web.plain import is_repeated
from timerd.web.route import JSON, ShortRoute

_TEXT, _NUMBER, _WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}
_LONG = {"type": ["string", "integer"], "format": "int64"}
_BYTES = {"type": "string", "contentEncoding": "base64"}
# As protobuf writes them in JSON.
_KNOWN: Mapping[str, dict[str, Any]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "examples": ["3s", "0.250s"]},
    "google.protobuf.FieldMask": _TEXT,
}
_KINDS: Mapping[int, dict[str, Any]] = {
    FieldDescriptor.CPPTYPE_STRING: _TEXT,
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_DOUBLE: _NUMBER,
    FieldDescriptor.CPPTYPE_FLOAT: _NUMBER,
    FieldDescriptor.CPPTYPE_INT32: _WHOLE,
    FieldDescriptor.CPPTYPE_UINT32: _WHOLE,
    FieldDescriptor.CPPTYPE_INT64: _LONG,
    FieldDescriptor.CPPTYPE_UINT64: _LONG,
}
_ERROR = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": _TEXT, "message": _TEXT, "details": {"type": "array", "items": {"type": "object"}}},
}


@cache
def unary_methods() -> tuple[MethodDescriptor, ...]:
    """Of all services in timerd.v1."""
    names = [each.name for each in pkgutil.iter_modules(timerd.v1.__path__) if each.name.endswith("_pb2")]
    files = [import_module(f"timerd.v1.{name}").DESCRIPTOR for name in sorted(names)]
    methods = [m for file in files for service in file.services_by_name.values() for m in service.methods]
    return tuple(m for m in methods if not (m.client_streaming or m.server_streaming))


def document(routes: Iterable[ShortRoute]) -> str:
    schemas: dict[str, Any] = {"Error": _ERROR}
    paths: dict[str, dict[str, Any]] = {}
    for method in unary_methods():
        paths[f"/{method.containing_service.full_name}/{method.name}"] = {"post": _method(method, schemas)}
    for route in routes:
        paths.setdefault(route.path, {})[route.verb.lower()] = _short(route)
    info = {"title": "timerd", "version": own_version()}
    return json.dumps({"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}})


def _method(method: MethodDescriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    asked, said = _message(method.input_type, schemas), _message(method.output_type, schemas)
    return {
        "operationId": f"{method.containing_service.name}_{method.name}",
        "tags": [method.containing_service.name],
        "requestBody": {"required": True, "content": {"application/json": {"schema": asked}}},
        "responses": _responses(said),
    }


def _short(route: ShortRoute) -> dict[str, Any]:
    in_path = [_parameter(name, "path", "") for name in re.findall(r"{(\w+)}", route.path)]
    in_query = [_parameter(name, "query", words) for name, words in route.query.items()]
    shown: dict[str, Any] = {
        "tags": ["short"],
        "summary": route.summary,
        "parameters": [*in_path, *in_query, _parameter("namespace", "query", "default where left out")],
        "responses": _responses({}, LINES if route.is_endless else JSON),
    }
    if route.body:
        shown["requestBody"] = {"description": route.body, "content": {"*/*": {}}}
    return shown


def _parameter(name: str, place: str, words: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "description": words, "schema": _TEXT}


def _responses(schema: dict[str, Any], form: str = JSON) -> dict[str, Any]:
    error = {"schema": {"$ref": "#/components/schemas/Error"}}
    return {
        "200": {"description": "Done.", "content": {form: {"schema": schema}}},
        "default": {"description": "Not done, and why.", "content": {"application/json": error}},
    }


def _message(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - a descriptor, of either kind
    """A reference; what it leads to gets into `schemas`."""
    if kind.full_name in _KNOWN:
        return _KNOWN[kind.full_name]
    if kind.full_name not in schemas:
        schemas[kind.full_name] = shown = {"type": "object", "properties": {}}
        shown["properties"] = dict(_fields(kind, schemas))
    return {"$ref": f"#/components/schemas/{kind.full_name}"}


def _fields(kind: Any, schemas: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401 - as above
    for field in kind.fields:
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            values = _one(inner.fields_by_name["value"], schemas)
            yield field.camelcase_name, {"type": "object", "additionalProperties": values}
        else:
            one = _one(field, schemas)
            yield field.camelcase_name, {"type": "array", "items": one} if is_repeated(field) else one


def _one(field: Any, schemas: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - as above
    if field.message_type is not None:
        return _message(field.message_type, schemas)
    if field.enum_type is not None:
        return {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    return _BYTES if field.type == FieldDescriptor.TYPE_BYTES else _KINDS[field.cpp_type]
