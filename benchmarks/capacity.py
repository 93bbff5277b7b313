"""What a cluster of a given size needs: nodes, disk, memory, lightweight transactions. Writes docs/operate/capacity.md.

    python -m benchmarks.capacity [--pending 10e9] [--per-day 1e9] [--payload 200] [--shards 70] [--write-docs]

Every figure is either measured (`MEASURED`, each with the command that measures it again), a setting of timerd, or a
choice of whoever plans, named as such. Those of docs/understand/benchmarks.md are read from there, and what writes it
writes this one too: a page that copied them was of another run after each benchmark.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import NamedTuple

from benchmarks.document import median_on
from timerd.core.cluster.load_estimate import SHARD_ROWS
from timerd.model.partition import BUCKET_MS
from timerd.model.settle import ENTRY
from timerd.model.shard_counts import MOST_HOT

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "operate" / "capacity.md"
BENCHMARKS = "[benchmarks.md](../understand/benchmarks.md)"
DAY_S = 86_400
TB, GB = 1e12, 1e9
BUCKET_S = BUCKET_MS // 1_000
LOOK_AHEAD_S = 90


class Figure(NamedTuple):
    """Something that was measured: its value, and by what."""

    value: float
    what: str
    source: str


def of_benchmarks(part: str, row: str, what: str) -> Figure:
    """As the last run of the benchmarks wrote it."""
    return Figure(median_on(DOCS / "understand" / "benchmarks.md", part, row), what, BENCHMARKS)


MEASURED = {
    "row": Figure(236, "bytes of a task of 200 B on a Cassandra node's disk", "`python -m benchmarks.cassandra_disk`"),
    "memory": of_benchmarks("memory", "near due", "bytes of a loaded task of 200 B in an instance"),
    "insert": Figure(38_800, "rows/s one node takes in, messages of 1,000", "[cassandra.md](cassandra.md)"),
    "scan": Figure(60_000, "rows/s one node gives back, with bodies", "[cassandra.md](cassandra.md)"),
    "trickle": of_benchmarks(
        "lateness",
        "a handler of batches, server CPU from schedule to delivery",
        "us of an instance's CPU a task at 2,000/s, all in all",
    ),
    "stored": of_benchmarks("bulk", "due over 30 days, server CPU", "us of it to store a task, in messages of 1,000"),
    "fired": of_benchmarks("fire", "a handler of batches, server CPU", "us of it to fire a task, many at an instant"),
    "beats": Figure(0.5, "LWT/s of an instance at rest", "`python -m benchmarks.store_calls`"),
    "marks": Figure(1.0, "LWT/s of a shard that fires", "`python -m benchmarks.store_calls`"),
}


@dataclass(frozen=True)
class Plan:
    """What is wanted, and what whoever plans has chosen."""

    pending: float = 10e9
    per_day: float = 1e9
    payload_bytes: int = 200
    shards: int = 70
    replicas: int = 3
    peak: float = 5
    history_days: float = 1
    # Of a node's disk.
    node_bytes: float = 4 * TB
    filled: float = 0.5
    memory_bytes: float = float(1 << 30)

    # -- tasks ------------------------------------------------------------------------------------------------------

    @property
    def per_s(self) -> float:
        return self.per_day / DAY_S

    @property
    def bucket(self) -> float:
        """Tasks of a bucket."""
        return self.per_s * BUCKET_S

    # -- disk -------------------------------------------------------------------------------------------------------

    @property
    def row_bytes(self) -> float:
        return MEASURED["row"].value - 200 + self.payload_bytes

    @property
    def pending_bytes(self) -> float:
        return self.pending * self.row_bytes * self.replicas

    @property
    def history_bytes(self) -> float:
        """Rows stay with how they ended, until their partition is dropped whole."""
        return self.per_day * self.history_days * (self.row_bytes + ENTRY.itemsize) * self.replicas

    @property
    def disk_bytes(self) -> float:
        return self.pending_bytes + self.history_bytes

    # -- nodes ------------------------------------------------------------------------------------------------------

    @property
    def nodes_by_disk(self) -> float:
        return self.disk_bytes / (self.node_bytes * self.filled)

    @property
    def nodes_by_load(self) -> float:
        """At the peak: each row is written to every replica, and read once from a majority."""
        a_second = self.per_s * self.peak
        majority = self.replicas // 2 + 1
        return a_second * (self.replicas / MEASURED["insert"].value + majority / MEASURED["scan"].value)

    @property
    def nodes(self) -> int:
        return max(self.replicas, ceil(self.nodes_by_disk), ceil(self.nodes_by_load))

    # -- instances --------------------------------------------------------------------------------------------------

    @property
    def loaded_bytes(self) -> float:
        """A bucket, and the next one's beginning beside what is left of it."""
        task_bytes = MEASURED["memory"].value - 200 + self.payload_bytes
        return self.bucket * (1 + LOOK_AHEAD_S / BUCKET_S) * task_bytes

    def cores(self, task_us: float) -> float:
        return self.per_s * self.peak * task_us / 1e6

    @property
    def fewest_cores(self) -> float:
        return self.cores(MEASURED["stored"].value + MEASURED["fired"].value)

    @property
    def most_cores(self) -> float:
        return self.cores(MEASURED["trickle"].value)

    def instances(self, cores: float) -> int:
        """One more than what must be alive. An instance is a process with one loop, which has one core."""
        return max(3, ceil(max(self.loaded_bytes / self.memory_bytes, cores)) + 1)

    @property
    def transactions(self) -> float:
        """A second, of the whole cluster."""
        return self.instances(self.most_cores) * MEASURED["beats"].value + self.shards * MEASURED["marks"].value

    @property
    def fewest_shards(self) -> int:
        """So that no shard of an ordinary bucket is hot."""
        return ceil(self.bucket / SHARD_ROWS)


def needs(plan: Plan) -> list[tuple[str, str, str]]:
    """(what, how much, from what)."""
    p = plan
    return [
        (
            "tasks a second, on average and at the peak",
            f"{p.per_s:,.0f}, {p.per_s * p.peak:,.0f}",
            f"peak = {p.peak:g} x average (chosen)",
        ),
        (
            "tasks of a bucket",
            f"{p.bucket / 1e6:.2f} million, {p.bucket * p.payload_bytes / GB:.2f} GB of payload",
            "5 minutes",
        ),
        ("disk, pending", f"{p.pending_bytes / TB:.1f} TB", f"{p.row_bytes:.0f} B x {p.replicas} replicas"),
        ("disk, history", f"{p.history_bytes / TB:.1f} TB", f"{p.history_days:g} day, + {ENTRY.itemsize} B each"),
        (
            "nodes by disk",
            f"{p.nodes_by_disk:.1f}",
            f"{p.node_bytes / TB:g} TB each, filled to {p.filled:.0%} (chosen)",
        ),
        (
            "nodes by load at the peak",
            f"{p.nodes_by_load:.1f}",
            "each row written to all replicas, read once by a majority",
        ),
        ("**nodes of Cassandra**", f"**{p.nodes}**", "the larger, at least the replicas"),
        ("memory of loaded tasks, all instances", f"{p.loaded_bytes / GB:.2f} GB", "a bucket and 90 s of the next one"),
        ("cores of instances at the peak", f"{p.fewest_cores:.1f} to {p.most_cores:.1f}", "in bulk; a task by itself"),
        (
            "**instances**",
            f"**{p.instances(p.fewest_cores)} to {p.instances(p.most_cores)}**",
            "a core and 1 GiB of `memory_budget` each; one more than is needed, at least 3",
        ),
        ("shards of a bucket", f"{p.shards}", f"at least {p.fewest_shards}, for {SHARD_ROWS:,} tasks each"),
        ("**LWT a second**", f"**{p.transactions:.0f}**", "heartbeats, and a mark a second of each shard that fires"),
        ("LWT a task", f"{p.transactions / p.per_s:.4f}", ""),
    ]


HEAD = """# Capacity

<!-- Written by `python -m benchmarks.capacity --write-docs`; do not edit. -->

What {pending:g} billion pending tasks and {per_day:g} billion a day need, {bucket:.1f} million of {payload} B in a
bucket. The script takes other numbers: `python -m benchmarks.capacity --help`.

| what | how much | from |
|---|---:|---|
"""
FIGURES = """
## The figures behind it

| figure | value | measured by |
|---|---:|---|
"""
NOTES = """
All of them are from one machine with two busy cores, client, instances and node together. What they do not say:

- **Nodes by load** adds up what one node took in and gave back by itself, without replicas. Three real nodes with
  replication 3 were not measured, nor was compaction under such a load.
- **Cores** are from SQLite, from one task by itself at 2,000 tasks/s to messages of a thousand. On Cassandra an
  instance's processor time was not measured.
- **A partition** of the store is a shard of a bucket: {rows:,.0f} tasks, {size:.0f} MB, with {shards} shards.
- **Choose `--shards` at the first start** by the table where every bucket is this full. A bucket that is found hot gets
  more by itself, but only {hot:,} buckets ({days:.1f} days) can have more than the cluster's number at a time.

## Lightweight transactions

Measured by `python -m benchmarks.store_calls`: three instances, 4 shards, calls of the whole cluster in a second.

| tasks/s | LWT/s | of it heartbeats | serial reads/s | LWT a task |
|---:|---:|---:|---:|---:|
{calls}

A partition that fires moves its marks once a second, whatever it fires, so transactions grow with the number of shards
that fire and not with the tasks. One that waits is only read. At 10,000/s the bucket was found hot and had got further
shards, which move marks of their own.
"""


class Calls(NamedTuple):
    """Of a whole cluster, a second (`python -m benchmarks.store_calls`)."""

    rate: int
    transactions: float
    heartbeats: float
    serial_reads: float

    def row(self) -> str:
        a_task = f"{self.transactions / self.rate:.4f}" if self.rate else ""
        return (
            f"| {self.rate:,} | {self.transactions:.2f} | {self.heartbeats:.2f} | {self.serial_reads:.2f} | {a_task} |"
        )


# At 10,000/s the bucket was found hot and had been given more shards.
CALLS = (Calls(0, 1.50, 1.50, 4.50), Calls(100, 5.49, 1.50, 4.59), Calls(10_000, 14.60, 1.50, 5.80))


def told(value: float) -> str:
    """As the pages write it."""
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def page(plan: Plan) -> str:
    head = HEAD.format(
        pending=plan.pending / GB, per_day=plan.per_day / GB, bucket=plan.bucket / 1e6, payload=plan.payload_bytes
    )
    table = "".join(f"| {what} | {much} | {source} |\n" for what, much, source in needs(plan))
    figures = "".join(f"| {each.what} | {told(each.value)} | {each.source} |\n" for each in MEASURED.values())
    rows = plan.bucket / plan.shards
    notes = NOTES.format(
        rows=rows,
        size=rows * plan.row_bytes / 1e6,
        shards=plan.shards,
        hot=MOST_HOT,
        days=MOST_HOT * BUCKET_S / DAY_S,
        calls="\n".join(each.row() for each in CALLS),
    )
    return head + table + FIGURES + figures + notes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pending", type=float, default=Plan.pending)
    parser.add_argument("--per-day", type=float, default=Plan.per_day)
    parser.add_argument("--payload", type=int, default=Plan.payload_bytes, help="bytes")
    parser.add_argument("--shards", type=int, default=Plan.shards)
    parser.add_argument("--replicas", type=int, default=Plan.replicas)
    parser.add_argument("--peak", type=float, default=Plan.peak, help="times the average")
    parser.add_argument("--history-days", type=float, default=Plan.history_days)
    parser.add_argument("--node-tb", type=float, default=Plan.node_bytes / TB, help="disk of a node")
    parser.add_argument("--filled", type=float, default=Plan.filled, help="share of it that may be in use")
    parser.add_argument("--memory-gb", type=float, default=Plan.memory_bytes / GB, help="of an instance, for tasks")
    parser.add_argument("--write-docs", action="store_true", help="of the figures that are planned for by default")
    given = parser.parse_args()
    if given.write_docs:
        PAGE.write_text(page(Plan()))
        return
    plan = Plan(
        given.pending, given.per_day, given.payload, given.shards, given.replicas, given.peak, given.history_days,
        given.node_tb * TB, given.filled, given.memory_gb * GB,
    )  # fmt: skip
    for what, much, source in needs(plan):
        print(f"{what.replace('*', ''):<46} {much.replace('*', ''):>34}   {source}")


if __name__ == "__main__":
    main()
