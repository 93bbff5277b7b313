"""The API definition holds its rules, the rules find what breaks them, and the generated code is up to date."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto

import proto_rules

HEAD = 'name: "timerd/v1/a.proto" package: "timerd.v1" syntax: "proto3" '


def described(text: str) -> FileDescriptorProto:
    return text_format.Parse(text, FileDescriptorProto())


def call(name: str, request: str, response: str) -> str:
    return f'method {{ name: "{name}" input_type: ".timerd.v1.{request}" output_type: ".timerd.v1.{response}" }}'


def test_the_definition_holds_the_rules() -> None:
    files = proto_rules.described()
    findings = [f"{file.name}: {finding}" for file in files for finding in proto_rules.file_findings(file)]
    assert len(files) >= 3
    assert findings + list(proto_rules.service_findings(files)) == []


def test_the_generated_code_is_up_to_date() -> None:
    assert list(proto_rules.stale()) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ('name: "timerd/v1/a.proto" package: "timerd.v1"', "proto3"),
        ('name: "timerd/v1/a.proto" package: "other.v1" syntax: "proto3"', "package 'other.v1'"),
        ('name: "a.proto" package: "timerd.v1" syntax: "proto3"', "must stand in proto/timerd/v1"),
        (HEAD + 'enum_type { name: "TaskState" value { name: "TASK_STATE_DONE" number: 0 } }', "_UNSPECIFIED = 0"),
        (
            HEAD + 'enum_type { name: "A" value { name: "A_UNSPECIFIED" number: 0 } value { name: "DONE" number: 1 } }',
            "A.DONE must be A_AND",
        ),
        (HEAD + 'message_type { name: "A" field { name: "fireTime" } }', "A.fireTime must be lower_snake_case"),
        (HEAD + 'message_type { name: "a_b" }', "message a_b must be PascalCase"),
    ],
)
def test_a_broken_rule_is_found(text: str, finding: str) -> None:
    assert any(finding in found for found in proto_rules.file_findings(described(text)))


@pytest.mark.parametrize(
    ("service", "calls", "finding"),
    [
        ("Timers", "", "end in Service"),
        ("AService", call("Get", "GetRequest", "Task"), "Task must be named GetResponse"),
        ("AService", call("Get", "Id", "GetResponse"), "Id must be named GetRequest"),
        ("AService", 2 * call("Get", "GetRequest", "GetResponse"), "must belong to one call only"),
    ],
)
def test_a_broken_service_rule_is_found(service: str, calls: str, finding: str) -> None:
    file = described(f'{HEAD} service {{ name: "{service}" {calls} }}')
    assert any(finding in found for found in proto_rules.service_findings([file]))


def test_a_good_service_has_no_findings() -> None:
    file = described(f'{HEAD} service {{ name: "AService" {call("Get", "GetRequest", "GetResponse")} }}')
    assert list(proto_rules.service_findings([file])) == []
