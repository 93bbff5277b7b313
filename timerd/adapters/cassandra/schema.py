"""The keyspace and its tables: applied when asked, compared with the code at every start.

Each version is a file of CQL in the package. A version is recorded after its last statement, and every statement may
run twice, so an interrupted application is simply repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

from timerd.adapters.cassandra.driver import Driver
from timerd.adapters.cassandra.settings import CassandraSettings
from timerd.model.errors import StartupError

NEWEST = 3
# Versions that only add tables, which a program of the version before them passes by: that one serves on, and starts.
# They are recorded beside the others, where it does not look.
ADDITIONS = frozenset({2, 3})
_UNIFIED = "{'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4'}"
_LEVELED = "{'class': 'LeveledCompactionStrategy'}"
# ScyllaDB has no unified compaction.
_COMPACTION = {
    "cassandra": {"rows": _UNIFIED, "registers": _LEVELED},
    "scylla": {"rows": "{'class': 'IncrementalCompactionStrategy'}", "registers": _LEVELED},
}
_VERSIONS = """CREATE TABLE IF NOT EXISTS schema_versions (
    part text, version int, PRIMARY KEY (part, version))"""


def apply_schema(settings: CassandraSettings) -> int:
    """Creates the keyspace if it is absent and brings its tables to the newest version, which is returned. Blocks."""
    driver = Driver.connect(settings)
    try:
        _create_keyspace(driver, settings)
        driver.run(_VERSIONS)
        version = _refuse_newer(driver)
        compaction = _COMPACTION["scylla" if _is_scylla(driver) else "cassandra"]
        for step in range(version + 1, NEWEST + 1):
            for statement in statements(step, compaction):
                driver.run(statement)
            part = "additions" if step in ADDITIONS else "tables"
            driver.run("INSERT INTO schema_versions (part, version) VALUES (%s, %s)", (part, step))
        return NEWEST
    finally:
        driver.shutdown()


def check_schema(driver: Driver) -> int:
    """The version, which must be that of the code, or one that only added to it."""
    settings = driver.settings
    if not driver.run(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s AND table_name = 'schema_versions'",
        (settings.keyspace,),
    ):
        raise StartupError(
            f"There are no tables of timerd in the keyspace {settings.keyspace!r}. Run `timerd schema apply`, or name "
            "the keyspace that has them."
        )
    version = _refuse_newer(driver)
    if version < NEWEST:
        raise StartupError(
            f"The keyspace {settings.keyspace!r} has schema version {version}; this timerd needs {NEWEST}. "
            "Run `timerd schema apply`."
        )
    return NEWEST


def replicas(driver: Driver) -> int:
    """The smallest replication factor of any data centre."""
    found = driver.run(
        "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s", (driver.settings.keyspace,)
    )
    counts = [int(n) for name, n in dict(found[0][0]).items() if name != "class"] if found else []
    return min(counts, default=1)


def statements(version: int, compaction: dict[str, str]) -> Iterator[str]:
    """Of one version, without its comments."""
    name = f"{version:04d}.cql"
    text = resources.files(__package__).joinpath("cql", name).read_text(encoding="utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    for statement in code.split(";"):
        if statement.strip():
            yield (
                statement.strip().replace("{rows}", compaction["rows"]).replace("{registers}", compaction["registers"])
            )


def _create_keyspace(driver: Driver, settings: CassandraSettings) -> None:
    places = ", ".join(f"'{name}': {count:d}" for name, count in settings.replication.items())
    # Transactions of ScyllaDB need a keyspace without tablets.
    tablets = " AND tablets = {'enabled': false}" if _is_scylla(driver) else ""
    driver.run(
        f"CREATE KEYSPACE IF NOT EXISTS {settings.keyspace} WITH replication = "
        f"{{'class': 'NetworkTopologyStrategy', {places}}}{tablets}"
    )


def _is_scylla(driver: Driver) -> bool:
    return bool(
        driver.run(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'system' AND table_name = 'scylla_local'"
        )
    )


def _versions(driver: Driver, *parts: str) -> list[int]:
    return [
        int(version)
        for part in parts
        for (version,) in driver.run("SELECT version FROM schema_versions WHERE part = %s", (part,))
    ]


def _refuse_newer(driver: Driver) -> int:
    """The newest version that was applied, by whichever program."""
    needed = max(_versions(driver, "tables"), default=0)
    if needed > NEWEST:
        raise StartupError(
            f"The keyspace {driver.settings.keyspace!r} was brought to schema version {needed} by a newer timerd; this "
            f"one knows up to {NEWEST}. Start that version."
        )
    return max(_versions(driver, "tables", "additions"), default=0)
