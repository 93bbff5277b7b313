"""Holds the API definition to the rules that its users rely on, and the generated code to the definition.

The rules are those of the usual STANDARD lint set as far as a descriptor shows them: a client of any language can guess
the next name from the last. With --write the generated code is made anew instead of compared.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
# What users of all languages program against, and what only the instances say to each other.
PACKAGES = ("timerd.v1", "timerd.peer.v1")
# A contract of somebody else: its names are not ours to choose.
FOREIGN = "timerd/peer/keda"
# Without these, who generates code has to think of a place for it; as buf's managed mode would set them.
PLACES = {"csharp_namespace": "Timerd.V1", "go_package": "timerd/v1;timerdv1", "java_package": "com.timerd.v1"}
LOWER_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
UPPER_SNAKE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
PASCAL = re.compile(r"([A-Z][a-z0-9]*)+")


def sources() -> list[str]:
    return sorted(path.relative_to(PROTO).as_posix() for path in PROTO.rglob("*.proto"))


def protoc(*options: str) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", "--fatal_warnings", *options, *sources()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The definitions do not compile without warnings:\n{done.stderr}")


def described() -> list[FileDescriptorProto]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "descriptors")
        protoc(f"--descriptor_set_out={out}")
        files = FileDescriptorSet.FromString(out.read_bytes()).file
    return [file for file in files if Path(file.name).parent.as_posix() != FOREIGN]


def generate(folder: Path) -> None:
    protoc(f"--python_out={folder}", f"--pyi_out={folder}", f"--grpc_python_out={folder}")


def upper(name: str) -> str:
    """TaskState -> TASK_STATE."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def file_findings(file: FileDescriptorProto) -> Iterator[str]:
    if file.syntax != "proto3":
        yield "must be proto3"
    if file.package not in PACKAGES:
        yield f"is of package {file.package!r}, must be of one of {', '.join(PACKAGES)}"
    if Path(file.name).parent.as_posix() != file.package.replace(".", "/"):
        yield f"must stand in proto/{file.package.replace('.', '/')}"
    if not LOWER_SNAKE.fullmatch(Path(file.name).stem):
        yield "must have a lower_snake_case name"
    if file.package == "timerd.v1":
        yield from place_findings(file)
    for enum in file.enum_type:
        yield from enum_findings(enum)
    for message in file.message_type:
        yield from message_findings(message)
    if file.public_dependency or file.weak_dependency:
        yield "imports must be neither public nor weak"


def place_findings(file: FileDescriptorProto) -> Iterator[str]:
    for option, place in PLACES.items():
        if getattr(file.options, option) != place:
            yield f'must have the option {option} = "{place}"'
    if not file.options.java_multiple_files:
        yield "must have the option java_multiple_files = true"


def enum_findings(enum: EnumDescriptorProto) -> Iterator[str]:
    prefix = upper(enum.name)
    if not PASCAL.fullmatch(enum.name):
        yield f"enum {enum.name} must be PascalCase"
    if enum.options.allow_alias:
        yield f"enum {enum.name} must not allow aliases"
    if enum.value[0].number != 0 or enum.value[0].name != f"{prefix}_UNSPECIFIED":
        yield f"enum {enum.name} must begin with {prefix}_UNSPECIFIED = 0"
    for value in enum.value:
        if not value.name.startswith(f"{prefix}_") or not UPPER_SNAKE.fullmatch(value.name):
            yield f"{enum.name}.{value.name} must be {prefix}_AND_UPPER_SNAKE_CASE"


def message_findings(message: DescriptorProto) -> Iterator[str]:
    # What protoc makes of a map field has names of its own.
    if message.options.map_entry:
        return
    if not PASCAL.fullmatch(message.name):
        yield f"message {message.name} must be PascalCase"
    for field in message.field:
        yield from field_findings(message.name, field)
    for oneof in message.oneof_decl:
        if not LOWER_SNAKE.fullmatch(oneof.name.removeprefix("_")):
            yield f"oneof {message.name}.{oneof.name} must be lower_snake_case"
    for nested in message.nested_type:
        yield from message_findings(nested)
    for enum in message.enum_type:
        yield from enum_findings(enum)


def field_findings(message: str, field: FieldDescriptorProto) -> Iterator[str]:
    if not LOWER_SNAKE.fullmatch(field.name):
        yield f"{message}.{field.name} must be lower_snake_case"
    if field.name == "descriptor":
        yield f"{message}.descriptor clashes with generated code in some languages"
    if field.label == FieldDescriptorProto.LABEL_REQUIRED:
        yield f"{message}.{field.name} must not be required"


def service_findings(files: list[FileDescriptorProto]) -> Iterator[str]:
    """Names of services and calls; each call has a request and a response of its own."""
    calls = [(service.name, call) for file in files for service in file.service for call in service.method]
    for file in files:
        for service in file.service:
            if not service.name.endswith("Service") or not PASCAL.fullmatch(service.name):
                yield f"{file.name}: service {service.name} must be PascalCase and end in Service"
    used = Counter(kind for _, call in calls for kind in (call.input_type, call.output_type))
    for service_name, call in calls:
        where = f"{service_name}.{call.name}"
        if not PASCAL.fullmatch(call.name):
            yield f"{where} must be PascalCase"
        for kind, suffix in ((call.input_type, "Request"), (call.output_type, "Response")):
            name = kind.rpartition(".")[2]
            if name not in (f"{call.name}{suffix}", f"{service_name}{call.name}{suffix}"):
                yield f"{where}: {name} must be named {call.name}{suffix}"
            if used[kind] > 1:
                yield f"{where}: {name} must belong to one call only"


def stale() -> Iterator[str]:
    """Generated files that differ from what the definitions give now."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        for place in (*(package.replace(".", "/") for package in PACKAGES), FOREIGN):
            yield from differences(place, ROOT / place, Path(folder, place))


def differences(place: str, committed: Path, made: Path) -> Iterator[str]:
    names = {path.name for path in made.iterdir()}
    for name in sorted(names | {path.name for path in committed.glob("*_pb2*.py*")}):
        old, new = committed / name, made / name
        if not (old.exists() and new.exists() and old.read_bytes() == new.read_bytes()):
            yield f"{place}/{name} is not what proto/ gives: run make proto"


def main() -> int:
    if sys.argv[1:] == ["--write"]:
        generate(ROOT)
        print(f"generated {' and '.join(PACKAGES)} from {len(sources())} files")
        return 0
    files = described()
    findings = [f"{file.name}: {finding}" for file in files for finding in file_findings(file)]
    findings += [*service_findings(files), *stale()]
    print("\n".join(findings) or f"proto rules: {len(files)} files hold them, the generated code is up to date")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
