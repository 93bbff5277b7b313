"""Addresses of servers: what is meant is plain, or it is refused when the client is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk.refused_addresses import REFUSED
from timerd import Client, SyncClient, Worker
from timerd.client import InvalidTask
from timerd.commands.options import DEFAULT_SERVER
from timerd.sdk.transport.addresses import DEFAULT_TARGET, authority_of, host_and_port, server_address

MEANT = {
    "localhost": "localhost:7400",
    " timerd.example\n": "timerd.example:7400",
    "my_service:7401": "my_service:7401",
    "127.0.0.1": "127.0.0.1:7400",
    "[::1]": "[::1]:7400",
    "[fe80::1%eth0]:80": "[fe80::1%eth0]:80",
    "dns:///timerd": "dns:///timerd:7400",
    "dns://8.8.8.8/timerd:80": "dns://8.8.8.8/timerd:80",
    "ipv4:10.0.0.1,10.0.0.2:80": "ipv4:10.0.0.1:7400,10.0.0.2:80",
    "ipv6:[::1],[::2]:80": "ipv6:[::1]:7400,[::2]:80",
    "unix:timerd.sock": "unix:timerd.sock",
    "unix:///run/timerd.sock": "unix:///run/timerd.sock",
    "unix-abstract:timerd": "unix-abstract:timerd",
}


@pytest.mark.parametrize("given", MEANT)
def test_a_port_that_is_left_out_is_the_default_one(given: str) -> None:
    assert server_address(given) == MEANT[given]
    assert server_address(MEANT[given]) == MEANT[given]


@pytest.mark.parametrize("kind", [Client, SyncClient, Worker])
@pytest.mark.parametrize("given", REFUSED)
def test_what_is_no_address_is_refused_when_the_client_is_made(kind: Callable[[str], Any], given: str) -> None:
    with pytest.raises(InvalidTask) as told:
        kind(given)
    assert str(told.value).startswith(f"`target` is {given!r}: ")
    assert REFUSED[given] in str(told.value)
    assert told.value.field == "target"


def test_an_address_is_text() -> None:
    made: Any = Client
    with pytest.raises(InvalidTask, match="`target` is text, not 7400"):
        made(7400)


def test_what_only_grpc_can_resolve_has_no_host() -> None:
    assert host_and_port("dns:///localhost:80") == host_and_port("localhost:80") == ("localhost", 80)
    assert host_and_port("[::1]:80") == ("::1", 80)
    assert {host_and_port(f"{each}:80") for each in ("dns://8.8.8.8/timerd", "unix:x", "ipv4:10.0.0.1")} == {None}


def test_the_default_of_the_command_line_is_that_of_the_clients() -> None:
    assert DEFAULT_SERVER == DEFAULT_TARGET


def test_of_several_addresses_a_call_is_for_the_first() -> None:
    assert authority_of(server_address("ipv4:10.0.0.1,10.0.0.2:80")) == "10.0.0.1:7400"
    assert authority_of(server_address("ipv6:[::1]:80,[::2]:80")) == "[::1]:80"
    assert {authority_of(each) for each in ("ipv4:10.0.0.1:80", "localhost:80", "dns:///a:80", "unix:/a,b")} == {""}
