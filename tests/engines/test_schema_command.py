"""`timerd schema apply` against a real node, and what it says to wrong input."""

from __future__ import annotations

import pytest

from tests.engines.finding import Found
from tests.engines.keyspace import NAME, Keyspace
from timerd.adapters.cassandra.schema import NEWEST
from timerd.adapters.cassandra.settings import parse_nodes, parse_replication
from timerd.cli import run
from timerd.model.errors import StartupError


@pytest.mark.engines
def test_the_tables_are_made_and_making_them_again_changes_nothing(
    cassandra_found: Found, keyspace: Keyspace, capsys: pytest.CaptureFixture[str]
) -> None:
    node = f"{cassandra_found.address}:{cassandra_found.port}"
    where = ["--cassandra", node, "--keyspace", NAME, "--datacenter", cassandra_found.datacenter]
    keyspace.run("DELETE FROM schema_versions WHERE part IN ('tables', 'additions')")
    for _ in range(2):
        assert run(["schema", "apply", *where, "--replication", "1"]) == 0
        assert f"has schema version {NEWEST}" in capsys.readouterr().out
    assert sorted(keyspace.run("SELECT version FROM schema_versions")) == [(n + 1,) for n in range(NEWEST)]


def test_nobody_there_is_a_sentence_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "apply", "--cassandra", "127.0.0.1:1"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("timerd: No Cassandra node")
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("option", "value", "code"), [("--replication", "many", 2), ("--keyspace", "A", 2), ("--cassandra", "a:1,b:2", 1)]
)
def test_wrong_input_is_named(option: str, value: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "apply", option, value]) == code
    assert value in capsys.readouterr().err


def test_nodes_and_replicas_are_read_from_text() -> None:
    assert parse_nodes("10.0.0.1, 10.0.0.2") == (("10.0.0.1", "10.0.0.2"), 9042)
    assert parse_nodes("a:9142,b:9142") == (("a", "b"), 9142)
    assert parse_replication("3", "east") == {"east": 3}
    assert parse_replication("east:3,west:2", "east") == {"east": 3, "west": 2}
    for text in ("", ":", "a:x"):
        with pytest.raises(StartupError, match="nodes"):
            parse_nodes(text)
