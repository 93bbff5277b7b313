"""The API definition holds its rules, the rules find what breaks them, and the generated code is up to date. What was
released stays: buf tells, where it is here."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto

import buf_rules
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
        (HEAD + 'options { go_package: "elsewhere" }', 'the option go_package = "timerd/v1;timerdv1"'),
        (HEAD + 'options { java_package: "com.timerd.v1" }', "java_multiple_files = true"),
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


# --- buf -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def buf() -> Path:
    """Not fetched here: `make lint` does that, before the tests in CI."""
    if not buf_rules.BUF.exists() and os.environ.get("CI") == "true":
        pytest.fail("buf is not here: python .ci/buf_rules.py fetches it, and CI is to have it")
    if not buf_rules.BUF.exists():
        pytest.skip("buf is not here: python .ci/buf_rules.py fetches it")
    return buf_rules.BUF


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the definition, to be spoilt."""
    shutil.copytree(buf_rules.ROOT / "proto", tmp_path / "proto")
    shutil.copy(buf_rules.ROOT / "buf.yaml", tmp_path)
    return tmp_path


def spoil(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_buf_has_nothing_against_the_definition(buf: Path, tree: Path) -> None:
    assert list(buf_rules.findings(buf, tree)) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "finding"),
    [
        ("v1/task.proto", "int32 code = 1;", "int32 code = 31;", 'field "1" with name "code"'),
        ("v1/task.proto", "int32 code = 1;", "int64 code = 1;", 'changed type from "int32" to "int64"'),
        ("v1/task.proto", "string reason = 3;", "string why = 3;", 'changed name from "reason" to "why"'),
        ("v1/task.proto", 'java_package = "com.timerd.v1"', 'java_package = "org.timerd"', "java_package"),
        ("v1/work_service.proto", "  rpc Extend(ExtendRequest) returns (ExtendResponse);\n", "", 'RPC "Extend"'),
        ("peer/v1/tick_service.proto", "bytes tick = 1;", "bytes tick = 11;", 'field "1" with name "tick"'),
        ("v1/task.proto", "TRYING = 9;", "TRYING = 9;\n  RETRIED = 10;", "should be prefixed with"),
    ],
)
def test_buf_finds_what_was_taken_back(buf: Path, tree: Path, file: str, old: str, new: str, finding: str) -> None:
    spoil(tree / "proto/timerd" / file, old, new)
    assert finding in "\n".join(buf_rules.findings(buf, tree))


def test_between_instances_names_may_change(buf: Path, tree: Path) -> None:
    spoil(tree / "proto/timerd/peer/v1/tick_service.proto", "bytes tick = 1;", "bytes row = 1;")
    assert list(buf_rules.findings(buf, tree)) == []
