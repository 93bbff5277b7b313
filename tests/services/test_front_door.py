"""Which front door serves, and how it is seen."""

from __future__ import annotations

from tests.services.api_rig import running
from timerd.commands.doctor import record_of, rows_of
from timerd.v1 import timer_service_pb2 as wire


async def test_the_server_and_doctor_say_which_door_serves() -> None:
    async with running(front_door="grpcio") as rig:
        info = await rig.stub.GetServerInfo(wire.GetServerInfoRequest())
    assert info.front_door == "grpcio"
    assert rows_of(info)["front door"] == "grpcio"
    assert record_of(info, [])["front_door"] == "grpcio"


def test_a_server_of_an_older_release_does_not_say() -> None:
    assert rows_of(wire.GetServerInfoResponse())["front door"] == "not known"
