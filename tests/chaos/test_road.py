"""Roads: what is cut breaks, what is held arrives later."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.chaos.road import Road, Roads

_PATIENCE_S = 30
_SILENCE_S = 0.1


def _echo(listening: socket.socket) -> None:
    while True:
        try:
            connection = listening.accept()[0]
        except OSError:
            return
        with connection:
            while data := connection.recv(100):
                connection.sendall(data)


@pytest.fixture
def road() -> Iterator[Road]:
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_echo, args=(listening,))
    thread.start()
    roads = Roads()
    yield roads.to("127.0.0.1", listening.getsockname()[1])
    roads.close()
    # Wakes who waits there.
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


def travels(traveller: socket.socket, data: bytes) -> None:
    traveller.sendall(data)
    assert traveller.recv(100) == data


def is_broken(traveller: socket.socket) -> bool:
    try:
        return traveller.recv(100) == b""
    except ConnectionResetError:
        return True


def test_what_is_held_arrives_when_the_road_opens(road: Road) -> None:
    with socket.create_connection(("127.0.0.1", road.port), _PATIENCE_S) as traveller:
        travels(traveller, b"there and back")
        road.hold()
        traveller.sendall(b"held")
        traveller.settimeout(_SILENCE_S)
        with pytest.raises(TimeoutError):
            traveller.recv(100)
        road.heal()
        traveller.settimeout(_PATIENCE_S)
        assert traveller.recv(100) == b"held"


def test_a_cut_breaks_what_is_there_and_lets_nobody_in(road: Road) -> None:
    with socket.create_connection(("127.0.0.1", road.port), _PATIENCE_S) as traveller:
        travels(traveller, b"there and back")
        road.cut()
        assert is_broken(traveller)
    with socket.create_connection(("127.0.0.1", road.port), _PATIENCE_S) as traveller:
        assert is_broken(traveller)
    road.heal()
    with socket.create_connection(("127.0.0.1", road.port), _PATIENCE_S) as traveller:
        travels(traveller, b"again")
