"""What docs/use/slots.md says for other languages and for databases is so."""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from timerd.core.slots import SPACE, Key, cycle, hash_of, hashes_of, scaled, slot_of, slot_range

PAGE = (Path(__file__).parents[3] / "docs/use/slots.md").read_text()
KINDS = {"integer": int, "UUID": UUID, "text": str}
INITDB, POSTGRES = shutil.which("initdb", path="/usr/lib/postgresql/15/bin:" + os.environ["PATH"]), "postgres"
RANDOM = random.Random(5)
INTEGERS: list[Key] = [0, -1, -(2**63), 2**63 - 1, *(RANDOM.randrange(-(2**63), 2**63) for _ in range(2_000))]
UUIDS: list[Key] = [UUID(int=RANDOM.getrandbits(128)) for _ in range(2_000)]
TEXTS: list[Key] = ["", "zoë", "a\\b", "\\x41", "\\101", "it's", *(f"member-{n}" for n in range(100))]


def rows(header: str) -> list[list[str]]:
    """The cells of the table with this first column."""
    table = PAGE.partition(f"| {header} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in table]


def test_the_vectors_of_the_page() -> None:
    told = rows("key")
    assert len(told) == 9
    for kind, text, key_hash, moment, of_480, of_7 in told:
        key = KINDS[kind](text)
        found = hash_of(key)
        assert (f"{found:016x}", cycle(28_800_000).moment_ms(key)) == (key_hash, int(moment))
        assert (slot_of(found, 480), slot_of(found, 7)) == (int(of_480), int(of_7))


def test_the_ranges_of_the_page() -> None:
    told = rows("slot")
    assert len(told) == 4
    for name, first, last, lo, hi in told:
        slot, slots = map(int, name.split(" of "))
        found = slot_range(slot, slots)
        assert (f"{found.first:016x}", f"{found.end - 1:016x}") == (first, last)
        assert found.signed == (int(lo), int(hi))


def statements(after: str) -> str:
    return PAGE.partition(after)[2].partition("```sql\n")[2].partition("```")[0]


def in_slots(keys: list[Key], slots: int) -> list[tuple[str, ...]]:
    """By slot, the texts of its keys."""
    found: list[list[str]] = [[] for _ in range(slots)]
    for key, slot in zip(keys, scaled(hashes_of(keys), slots).tolist(), strict=True):
        found[slot].append(str(key))
    return [tuple(sorted(each)) for each in found]


def test_sqlite_finds_the_members_of_each_slot_by_a_range() -> None:
    with sqlite3.connect(":memory:") as connection:
        connection.create_function("slot_hash", 1, lambda key: hash_of(key) - 2**63, deterministic=True)
        connection.execute("CREATE TABLE account (id)")
        keys = [*INTEGERS, *TEXTS]
        connection.executemany("INSERT INTO account VALUES (?)", ((key,) for key in keys))
        connection.executescript(statements("SQLite has no SHA-256"))
        select = statements("The members of a slot")
        for slots in (7, 480):
            bounds = [slot_range(slot, slots).signed for slot in range(slots)]
            found = [connection.execute(select, {"lo": lo, "hi": hi}).fetchall() for lo, hi in bounds]
            assert [tuple(sorted(str(key) for (key,) in each)) for each in found] == in_slots(keys, slots)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {select}", {"lo": 0, "hi": 1}).fetchall()
        assert "account_slot_hash" in plan[0][3]
    connection.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """An empty one of PostgreSQL, which refuses to run as root."""
    if INITDB is None:
        pytest.skip("PostgreSQL cannot be found: install it to try the SQL of the page on it")
    place = Path(tempfile.mkdtemp(prefix="timerd-slots-", dir="/var/tmp"))
    try:
        if os.geteuid() == 0:
            shutil.chown(place, other_user())
        postgres("initdb", "-E", "UTF8", "--locale=C", "-A", "trust", "--no-sync", place=place)
        yield place
    finally:
        shutil.rmtree(place)


def other_user() -> str:
    return "postgres" if re.search("^postgres:", Path("/etc/passwd").read_text(), re.MULTILINE) else "nobody"


def postgres(program: str, *options: str, place: Path, given: str = "") -> None:
    user = other_user() if os.geteuid() == 0 else None
    command = [str(Path(str(INITDB)).with_name(program)), *options, "-D", str(place / "data")]
    command += ["postgres"] if program == POSTGRES else []
    done = subprocess.run(command, cwd=place, input=given, capture_output=True, text=True, check=False, user=user)
    assert (done.returncode, re.findall(r"ERROR.*", done.stderr)) == (0, []), done.stderr


@pytest.mark.process
@pytest.mark.parametrize(("kind", "keys"), [("numeric", INTEGERS), ("uuid", UUIDS), ("text", TEXTS)])
def test_postgresql_has_the_same_hashes(cluster: Path, kind: str, keys: list[Key]) -> None:
    column = statements("PostgreSQL, for a key")
    if kind == "text":
        column = column.replace("id::text::bytea", r"replace(id, '\', '\\')::bytea")
        assert r"`replace(id, '\', '\\')::bytea`" in PAGE
    values = ", ".join("('{}')".format(str(key).replace("'", "''")) for key in keys)
    out = cluster / f"found-{kind}"
    script = ["DROP TABLE IF EXISTS account;", f"CREATE TABLE account (n bigserial, id {kind});"]
    script += [f"INSERT INTO account (id) VALUES {values};"]
    script += [*re.findall(r".+?;", column, re.DOTALL), f"COPY (SELECT slot_hash FROM account ORDER BY n) TO '{out}';"]
    # In single-user mode an empty line after the semicolon ends a statement.
    postgres(POSTGRES, "--single", "-j", place=cluster, given="".join(f"{each.strip()}\n\n" for each in script))
    assert [int(line) for line in out.read_text().splitlines()] == [hash_of(key) - SPACE // 2 for key in keys]
