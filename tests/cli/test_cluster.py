"""`timerd cluster`, `partition`, `announce`, `drain`, and what `doctor` finds among the instances."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from tests.cli.conftest import Terminal
from tests.cli.healthy_answers import healthy
from tests.sdk.fake_server import FakeServer
from timerd.commands.doctor_cluster import cluster_findings
from timerd.commands.partition import parse_bucket
from timerd.v1 import operate_pb2 as pb

BUCKET_MS = 1_893_456_000_000
BUCKET = "2030-01-01T00:00:00Z"


def instance(name: str, *parts: pb.HeldPartition, state: int = pb.INSTANCE_STATE_SERVING) -> pb.Instance:
    report = pb.InstanceReport(version="0.1.0", schema_version=1, clock_trusted=True, lease_trusted=True)
    report.partitions.extend(parts)
    made = pb.Instance(name=name, address=f"10.0.0.{ord(name) - 96}:7400", incarnation=7, clock_uncertainty_ms=1)
    made.state = state  # type: ignore[assignment]
    made.heartbeat_age.CopyFrom(Duration(seconds=1, nanos=500_000_000))
    if state in (pb.INSTANCE_STATE_SERVING, pb.INSTANCE_STATE_LEAVING):
        made.report.CopyFrom(report)
    return made


def held(**given: int) -> pb.HeldPartition:
    return pb.HeldPartition(bucket_start_ms=BUCKET_MS, phase="hot", fencing_token=42, lag_ms=1_200, **given)


def cluster(*instances: pb.Instance) -> pb.GetClusterResponse:
    return pb.GetClusterResponse(instances=instances or (instance("a"), instance("b")), answered_by="a")


# -- cluster --------------------------------------------------------------------------------------------------------


def test_the_cluster_is_two_tables_or_an_object_for_each_instance(terminal: Terminal, server: FakeServer) -> None:
    dead = instance("c", state=pb.INSTANCE_STATE_DEAD)
    found = cluster(instance("a", held(waiting=5, open=2)), instance("b", held(shard=1)), dead)
    server.timers.unary_answers["GetCluster"].extend([found, found])
    ran = terminal("cluster", "-o", "wide")
    assert (ran.code, ran.err) == (0, "")
    for shown in ("10.0.0.1:7400", "serving", "dead", "1.5s", "1.2s", "2030-01-01T00:00:00.000Z", "42", "hot"):
        assert shown in ran.out
    a, b, c = terminal("cluster", "--json").lines
    assert (a["name"], a["state"], a["incarnation"], a["heartbeat_age_s"]) == ("a", "serving", 7, 1.5)
    assert a["partitions"][0] == {
        "bucket": "2030-01-01T00:00:00.000Z",
        "bucket_start_ms": BUCKET_MS,
        "scope": 0,
        "shard": 0,
        "phase": "hot",
        "fencing_token": 42,
        "lag_ms": 1_200,
        "waiting": 5,
        "open": 2,
    }
    assert b["partitions"][0]["shard"] == 1
    assert (c["state"], c["answers"], c["partitions"]) == ("dead", False, [])


def test_a_cluster_without_partitions_says_so(terminal: Terminal, server: FakeServer) -> None:
    server.timers.unary_answers["GetCluster"].append(cluster())
    assert "No partition is held" in terminal("cluster").out


# -- drain ----------------------------------------------------------------------------------------------------------


def test_drain_waits_until_nothing_is_held(terminal: Terminal, server: FakeServer) -> None:
    busy, done = cluster(instance("b", held())), cluster(instance("b", state=pb.INSTANCE_STATE_LEAVING))
    server.timers.unary_answers["DrainInstance"].append(pb.DrainInstanceResponse(partitions_held=3))
    server.timers.unary_answers["GetCluster"].extend([busy, done])
    ran = terminal("drain", "b")
    assert (ran.code, ran.err) == (0, "")
    assert "b holds nothing any more" in ran.out
    assert not server.timers.unary_answers["GetCluster"]


def test_drain_answers_in_json(terminal: Terminal, server: FakeServer) -> None:
    server.timers.unary_answers["DrainInstance"].append(pb.DrainInstanceResponse(partitions_held=0))
    server.timers.unary_answers["GetCluster"].append(cluster(instance("b")))
    assert terminal("drain", "b", "--json").json == {"instance": "b", "partitions_handed_over": 0}


@pytest.mark.parametrize(
    ("begun", "after", "says"),
    [
        (pb.DrainInstanceResponse(), None, "b does not answer, and may have begun"),
        (pb.DrainInstanceResponse(partitions_held=2), cluster(instance("b", held())), "b still holds 1 of 2"),
    ],
)
def test_a_drain_that_does_not_end_says_why(
    terminal: Terminal,
    server: FakeServer,
    begun: pb.DrainInstanceResponse,
    after: pb.GetClusterResponse | None,
    says: str,
) -> None:
    server.timers.unary_answers["DrainInstance"].append(begun)
    if after is not None:
        server.timers.unary_answers["GetCluster"].append(after)
    ran = terminal("drain", "b", "--wait", "0s")
    assert ran.code == 1
    assert says in ran.err


def test_a_drain_needs_a_name(terminal: Terminal, server: FakeServer) -> None:
    ran = terminal("drain", "")
    assert (ran.code, server.timers.unary) == (2, [])
    assert "The INSTANCE is empty" in ran.err


# -- announce -------------------------------------------------------------------------------------------------------


def test_an_announced_bucket_has_shards_enough(terminal: Terminal, server: FakeServer) -> None:
    reply = pb.AnnounceLoadResponse(bucket_start_ms=BUCKET_MS, shard_count=15)
    server.timers.unary_answers["AnnounceLoad"].extend([reply] * 2)
    ran = terminal("announce", BUCKET, "--tasks", "700000", "--payload-bytes", "200")
    assert (ran.code, ran.err) == (0, "")
    assert "has 15 shards" in ran.out
    request = pb.AnnounceLoadRequest.FromString(server.timers.unary[0][1])
    assert (request.time.seconds * 1000, request.tasks, request.payload_bytes) == (BUCKET_MS, 700_000, 200)
    told = terminal("announce", BUCKET, "--tasks", "700000", "--json").json
    assert told == {"bucket": "2030-01-01T00:00:00.000Z", "bucket_start_ms": BUCKET_MS, "shard_count": 15}


def test_of_one_shard_it_says_who_fires_it(terminal: Terminal, server: FakeServer) -> None:
    reply = pb.AnnounceLoadResponse(bucket_start_ms=BUCKET_MS, shard_count=1)
    server.timers.unary_answers["AnnounceLoad"].append(reply)
    assert "has 1 shard: one instance fires all of it." in terminal("announce", BUCKET, "--tasks", "70").out


def test_nothing_cannot_be_announced(terminal: Terminal, server: FakeServer) -> None:
    ran = terminal("announce", BUCKET, "--tasks", "0")
    assert (ran.code, server.timers.unary) == (2, [])
    assert "whole number from 1" in ran.err


# -- partition ------------------------------------------------------------------------------------------------------


def open_bucket() -> pb.GetPartitionResponse:
    control = pb.ControlRow(fencing_token=42, holder="a", closing_ms=BUCKET_MS + 2_000, verified_ms=BUCKET_MS + 1_500)
    taken = pb.PartitionInfo(
        bucket_start_ms=BUCKET_MS, control=control, placed_on="a", ended={"acked": 9, "cancelled": 1},
        settle_records=3, rows=12, held=held(waiting=2),
    )  # fmt: skip
    free = pb.PartitionInfo(bucket_start_ms=BUCKET_MS, shard=1, placed_on="b")
    return pb.GetPartitionResponse(announced=True, shard_count=2, partitions=[taken, free])


def test_a_partition_is_shown_shard_by_shard(terminal: Terminal, server: FakeServer) -> None:
    server.timers.unary_answers["GetPartition"].extend([open_bucket()] * 2)
    ran = terminal("partition", BUCKET, "--count", "-o", "wide")
    assert (ran.code, ran.err) == (0, "")
    for shown in ("2 shards, open", "9 acked, 1 cancelled", "+1.500s", "+2.000s", "nobody; placed on b", "42"):
        assert shown in ran.out
    request = pb.GetPartitionRequest.FromString(server.timers.unary[0][1])
    assert (request.time.seconds * 1000, request.HasField("shard"), request.count_rows) == (BUCKET_MS, False, True)
    taken, free = terminal("partition", str(BUCKET_MS), "1", "--queue", "mails", "--json").lines
    assert (taken["control"]["fencing_token"], taken["ended"], taken["rows"]) == (42, {"acked": 9, "cancelled": 1}, 12)
    assert (free["control"], free["held"], free["rows"], free["placed_on"]) == (None, None, None, "b")
    request = pb.GetPartitionRequest.FromString(server.timers.unary[1][1])
    assert (request.shard, request.queue, request.time.seconds * 1000) == (1, "mails", BUCKET_MS)


def test_a_finished_partition_shows_what_it_had(terminal: Terminal, server: FakeServer) -> None:
    control = pb.ControlRow(fencing_token=9, holder="a", inserted=77, finish_time=Timestamp(seconds=1))
    info = pb.PartitionInfo(bucket_start_ms=BUCKET_MS, control=control, ended={"acked": 76}, unexplained=1)
    found = pb.GetPartitionResponse(announced=True, finished=True, shard_count=1, partitions=[info])
    server.timers.unary_answers["GetPartition"].append(found)
    ran = terminal("partition", BUCKET, "-o", "wide")
    for shown in ("1 shard, finished", "77", "76 acked"):
        assert shown in ran.out


def test_a_bucket_without_tasks_is_an_answer(terminal: Terminal, server: FakeServer) -> None:
    server.timers.unary_answers["GetPartition"].append(pb.GetPartitionResponse())
    ran = terminal("partition", BUCKET, "--queue", "mails")
    assert ran.code == 1
    assert "No task was ever stored in the bucket of 2030-01-01T00:00:00.000Z of the backlog of 'mails'" in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("yesterday",), "not an ISO 8601 time"),
        (("2030-01-01T00:00:00",), "has no offset"),
        (("99999999999999999999",), "no time: milliseconds since 1970"),
        ((BUCKET, "--", "-1"), "Invalid value for '[SHARD]'"),
        ((BUCKET, "two"), "Invalid value for '[SHARD]'"),
    ],
)
def test_bad_buckets_and_shards_get_a_sentence(
    terminal: Terminal, server: FakeServer, arguments: tuple[str, ...], says: str
) -> None:
    ran = terminal("partition", *arguments)
    assert (ran.code, server.timers.unary) == (2, [])
    assert says in ran.err


def test_a_bucket_may_be_a_time_or_its_milliseconds() -> None:
    assert parse_bucket(str(BUCKET_MS)) == parse_bucket(BUCKET) == datetime(2030, 1, 1, tzinfo=UTC)


# -- doctor ---------------------------------------------------------------------------------------------------------


def dead(found: pb.GetClusterResponse) -> None:
    found.instances.append(instance("c", state=pb.INSTANCE_STATE_DEAD))


def silent(found: pb.GetClusterResponse) -> None:
    found.instances[1].ClearField("report")


def wrong_clock(found: pb.GetClusterResponse) -> None:
    found.instances[1].clock_difference_ms = -102


def jumping_clock(found: pb.GetClusterResponse) -> None:
    found.instances[1].report.clock_trusted = False


def without_lease(found: pb.GetClusterResponse) -> None:
    found.instances[1].report.lease_trusted = False


def other_schema(found: pb.GetClusterResponse) -> None:
    found.instances[1].report.schema_version = 2


def left_open(found: pb.GetClusterResponse) -> None:
    found.overdue_buckets = 2
    found.oldest_overdue_bucket.FromMilliseconds(BUCKET_MS)


def leaving(found: pb.GetClusterResponse) -> None:
    for each in found.instances:
        each.state = pb.INSTANCE_STATE_LEAVING


@pytest.mark.parametrize(
    ("ail", "says"),
    [
        (dead, "c has given no sign of life for 1.5s"),
        (silent, "b lives, but does not answer a at 10.0.0.2:7400"),
        (wrong_clock, "The clock of b is -102 ms (within 1 ms) off that of a"),
        (jumping_clock, "The clock of b is not trusted"),
        (without_lease, "b is not sure of its lease"),
        (other_schema, "different versions of the tables (a version 1, b version 2)"),
        (left_open, "2 buckets are not finished although over for long"),
        (leaving, "No instance takes partitions"),
    ],
)
def test_each_ailment_of_a_cluster_is_found(ail: Callable[[pb.GetClusterResponse], None], says: str) -> None:
    found = cluster()
    assert list(cluster_findings(found)) == []
    ail(found)
    sentences = list(cluster_findings(found))
    assert len(sentences) == 1
    assert says in sentences[0]


def test_a_difference_within_the_uncertainty_is_none() -> None:
    found = cluster()
    found.instances[1].clock_difference_ms = 150
    found.instances[1].clock_uncertainty_ms = 60
    assert list(cluster_findings(found)) == []


def test_doctor_shows_the_cluster(terminal: Terminal, server: FakeServer) -> None:
    sick = cluster()
    dead(sick)
    server.timers.unary_answers["GetServerInfo"].extend([healthy()] * 3)
    server.timers.unary_answers["GetCluster"].extend([cluster(), sick, sick])
    ran = terminal("doctor")
    assert ran.code == 0
    assert "2 (a, b); clocks at most 0 ms apart" in ran.out
    assert "version 1" in ran.out
    ran = terminal("doctor")
    assert ran.code == 1
    assert "WRONG: c has given no sign of life" in ran.out
    record = terminal("doctor", "--json").json
    assert (record["instances"], record["schema_version"], record["healthy"]) == (["a", "b"], 1, False)


def test_doctor_makes_do_with_an_older_server(terminal: Terminal, server: FakeServer) -> None:
    server.timers.unary_answers["GetServerInfo"].append(healthy())
    server.timers.unary_answers["GetCluster"].append((grpc.StatusCode.UNIMPLEMENTED, "Method not found!", ()))
    ran = terminal("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert "instances" not in ran.out
