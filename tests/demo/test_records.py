"""The logs come back as they were written, also while they are being written."""

from __future__ import annotations

from pathlib import Path

from tests.sdk.fake_server import deliver_of
from timerd.demo.records import CallRecord, Confirmed, DeliveryRecord, Kill, LogReader, LogWriter, Record, read_logs
from timerd.demo.witness import read_deliveries
from timerd.sdk.values.deliveries import DeliveredBatch
from timerd.sdk.values.deliveries import Delivery as SdkDelivery

RECORDS: tuple[Record, ...] = (
    CallRecord("schedule", 1, 0.5, 1.5, "OK", "T1", 2000),
    DeliveryRecord(1, "T1", "D1", 1, 2000, 2000.25),
    Confirmed("D1", 1, 2003.125),
    Kill(5.0, 6.0),
)


def test_records_survive_their_file(tmp_path: Path) -> None:
    for index, record in enumerate(RECORDS):
        log = LogWriter(tmp_path / str(index % 2))
        log.write([record])
        log.close()
    logs = read_logs([tmp_path / "0", tmp_path / "1", tmp_path / "absent"])
    assert (*logs.calls, *logs.deliveries, *logs.confirmed, *logs.kills) == RECORDS


def test_a_line_that_is_being_written_waits_for_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log, reader = LogWriter(path), LogReader(path)
    log.write(RECORDS[:1])
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:10])
    log.close()
    assert reader.read() == [RECORDS[0]]
    assert reader.read() == []
    path.write_bytes(whole + whole)
    assert reader.read() == [RECORDS[0]]


def test_the_witness_reads_a_message_as_the_sdk_does() -> None:
    message = deliver_of("demo", [b"7", b"12", b"0"], first=40)
    batch = DeliveredBatch(message)
    expected = [SdkDelivery(batch, index) for index in range(3)]
    read = read_deliveries(message, 1234.5)
    assert [each.number for each in read] == [7, 12, 0]
    assert [(each.task_id, each.delivery_id, each.attempt, each.fire_at_ms) for each in read] == [
        (each.task_id, each.delivery_id, each.attempt, each.fire_at_ms) for each in expected
    ]
    assert {each.received_ms for each in read} == {1234.5}
