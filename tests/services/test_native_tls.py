"""TLS at both doors: whom they let in, what handlers see of a caller, and how new files are taken up."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import grpc
import grpc.aio
import pytest

from tests.certificates import Authority, Pair
from tests.services.native_rig import DOORS, OPTIONS, needs_native
from tests.services.tls_rig import WAYS, answered, channel, listening, made, refusal, seen_by, spoken
from timerd.config import TlsConfig
from timerd.model.errors import StartupError
from timerd.services.transport.grpcio_door import GrpcioDoor
from timerd.services.transport.native_door import NativeDoor
from timerd.services.transport.passed_on import CONNECTION

pytestmark = needs_native
HOSTS = ("DNS:localhost", "IP:127.0.0.1")
NONE_SHOWN: dict[str, list[str]] = {"x509_subject_alternative_name": [], "x509_common_name": []}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server_pair(authority: Authority) -> Pair:
    return authority.sign("server", *HOSTS)


@pytest.fixture(scope="module")
def ca(authority: Authority) -> bytes:
    return authority.certificate.read_bytes()


def files(pair: Pair, client_ca: Path | None = None) -> TlsConfig:
    return TlsConfig(certificate_file=pair.certificate, key_file=pair.key, client_ca_file=client_ca)


# --- what handlers see ------------------------------------------------------------------------------------------------

_ALL = "DNS:a.example,IP:127.0.0.1,IP:::1,IP:2001:db8::a,URI:spiffe://example.org/orders,email:a@example.org,DNS:*.b.example"
Signs = Callable[[Authority], Pair]
SHOWN: dict[str, Signs] = {
    "a host": lambda by: by.sign("orders"),
    "all kinds of names": lambda by: by.sign("all", *_ALL.split(",")),
    "a common name alone": lambda by: by.sign("alone", extensions="basicConstraints=CA:FALSE\n"),
    "no common name": lambda by: by.sign("nameless", "DNS:nameless", subject="/O=nobody"),
    "two common names": lambda by: by.sign("two", "DNS:two", subject="/CN=first/O=between/CN=second"),
    "letters beyond ASCII": lambda by: by.sign("umlaut", "DNS:umlaut", subject="/CN=Bücher Ω"),
    "no name at all": lambda by: by.sign("none", subject="/O=nobody", extensions="basicConstraints=CA:FALSE\n"),
    "for clients alone": lambda by: by.sign("client", extensions="extendedKeyUsage=clientAuth\n"),
    "P-384": lambda by: by.sign("longer", curve="secp384r1"),
}


@pytest.mark.parametrize("signs", SHOWN.values(), ids=SHOWN.keys())
async def test_the_names_in_a_certificate_are_seen_alike_by_whichever_way_a_call_goes(
    authority: Authority, server_pair: Pair, ca: bytes, signs: Signs
) -> None:
    pair = signs(authority)
    found = {}
    for door in DOORS:
        tls = files(server_pair, authority.certificate)
        async with listening(door, tls) as address, channel(address, ca, pair) as opened:
            found[door] = [await seen_by(opened, way) for way in WAYS]
    assert found["native"] == found["grpcio"]
    assert found["native"] == found["native"][:1] * len(WAYS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("door", DOORS)
async def test_who_is_asked_for_no_certificate_shows_none(
    authority: Authority, server_pair: Pair, ca: bytes, door: str, way: str
) -> None:
    pair = authority.sign("orders")
    async with listening(door, files(server_pair)) as address, channel(address, ca, pair) as opened:
        said = await seen_by(opened, way)
    assert said["names"] == NONE_SHOWN
    assert said["peer"] == "ipv4:127.0.0.1"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("door", DOORS)
async def test_without_tls_a_call_comes_from_its_caller_as_well(door: str, way: str) -> None:
    async with listening(door, TlsConfig()) as address, grpc.aio.insecure_channel(address, options=OPTIONS) as opened:
        said = await seen_by(opened, way)
    assert (said["names"], said["peer"]) == (NONE_SHOWN, "ipv4:127.0.0.1")


@pytest.mark.parametrize("way", WAYS)
async def test_nobody_speaks_for_another_connection(
    authority: Authority, server_pair: Pair, ca: bytes, way: str
) -> None:
    """The native door says in a header which connection a call came by, over what the caller wrote there."""
    orders, strange = authority.sign("orders"), authority.sign("strange")
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(listening("native", files(server_pair, authority.certificate)))
        one, other = [await stack.enter_async_context(channel(address, ca, pair)) for pair in (orders, strange)]
        await seen_by(one, way)
        for forged in ("1", "2", "x", "-1", ""):
            said = await seen_by(other, way, ((CONNECTION, forged), (CONNECTION, "1"), ("x-one", "a")))
            assert said["names"]["x509_common_name"] == ["strange"]
            assert said["headers"] == (["timerd-connection", "x-one"] if way == "plain" else ["x-one"])


# --- who is let in ----------------------------------------------------------------------------------------------------

Shows = Callable[[Authority, Path], Pair | None]
KNOWN: dict[str, tuple[Shows, bool]] = {
    "signed": (lambda by, _: by.sign("orders"), True),
    "the authority itself": (lambda by, _: by.own_pair(), True),
    "none": (lambda *_: None, False),
    "of another authority": (lambda _, folder: Authority(folder, "authority").sign("orders"), False),
    "another authority": (lambda _, folder: Authority(folder, "another").own_pair(), False),
    "over": (lambda by, _: by.sign("over", days=-1), False),
    "for servers alone": (lambda by, _: by.sign("shop", extensions="extendedKeyUsage=serverAuth\n"), False),
}


@pytest.mark.parametrize(("shows", "is_known"), KNOWN.values(), ids=KNOWN.keys())
async def test_both_let_in_the_same_callers(
    authority: Authority,
    server_pair: Pair,
    ca: bytes,
    tmp_path: Path,
    shows: Shows,
    is_known: bool,
) -> None:
    pair = shows(authority, tmp_path)
    found = {}
    for door in DOORS:
        async with listening(door, files(server_pair, authority.certificate)) as address:
            found[door] = await answered(address, ca, pair)
    assert found == dict.fromkeys(DOORS, is_known)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("door", DOORS)
async def test_without_tls_nobody_is_heard(server_pair: Pair, door: str, way: str) -> None:
    tls = files(server_pair)
    async with listening(door, tls) as address, grpc.aio.insecure_channel(address, options=OPTIONS) as opened:
        assert await refusal(opened, way) is grpc.StatusCode.UNAVAILABLE
        assert await spoken(address, ["h2"])


@pytest.mark.parametrize("offered", [["h2"], ["http/1.1", "h2"], ["http/1.1"], []], ids=str)
async def test_both_speak_http_2_where_it_was_offered_and_else_nothing(server_pair: Pair, offered: list[str]) -> None:
    found = {}
    for door in DOORS:
        async with listening(door, files(server_pair)) as address:
            found[door] = bool(await spoken(address, offered))
    assert found == dict.fromkeys(DOORS, "h2" in offered)


async def test_handshakes_that_never_end_keep_nobody_out_and_end_with_the_door(server_pair: Pair, ca: bytes) -> None:
    # Nothing; the first bytes of a record; what is no TLS.
    begun = (b"", b"\x16\x03\x01\x02\x00\x01", b"\x16\x03\x01\x00\x05\x01\x00\x01")
    async with listening("native", files(server_pair)) as address:
        host, _, port = address.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(60)]
        for number, (_, writer) in enumerate(silent):
            writer.write(begun[number % len(begun)])
        assert await answered(address, ca)
    for reader, writer in silent:
        with suppress(ConnectionError):
            assert not await reader.read()
        writer.close()


# --- files that change ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
async def test_new_files_are_taken_up_by_the_next_connection(tmp_path: Path, door: str) -> None:
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    pair, later = first.sign("server", *HOSTS), second.sign("later", *HOSTS)
    caller, callers_later = first.sign("caller"), second.sign("callers-later")
    own_ca = tmp_path / "ca.pem"
    own_ca.write_bytes(first.certificate.read_bytes())
    roots, roots_later = first.certificate.read_bytes(), second.certificate.read_bytes()
    async with listening(door, files(pair, own_ca)) as address, channel(address, roots, caller) as old:
        assert await refusal(old) is None
        # Half of a renewal leaves all of the old ones in force.
        os.replace(later.certificate, pair.certificate)
        assert await answered(address, roots, caller)
        os.replace(later.key, pair.key)
        assert await answered(address, roots_later, caller)
        assert not await answered(address, roots, caller)
        own_ca.write_bytes(roots_later)
        assert await answered(address, roots_later, callers_later)
        assert not await answered(address, roots_later, caller)
        own_ca.write_text("spoilt")
        assert await answered(address, roots_later, callers_later)
        assert await refusal(old) is None, "what is open goes on"


async def test_files_that_the_native_door_cannot_use_are_said_and_left_to_grpcio(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    tls = files(authority.sign("p-521", *HOSTS, curve="secp521r1"))
    assert isinstance(made("auto", tls), GrpcioDoor)
    assert "for the native one, give it TLS files that it can use" in caplog.text
    with pytest.raises(StartupError, match="cannot serve: give it TLS files that it can use"):
        made("native", tls)
    assert isinstance(made("auto", files(authority.sign("p-256", *HOSTS))), NativeDoor)


async def test_new_files_that_it_cannot_use_leave_the_old_ones_in_force(
    authority: Authority, ca: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    pair, other = authority.sign("own", *HOSTS), authority.sign("odd", *HOSTS, curve="secp521r1")
    async with listening("native", files(pair)) as address:
        os.replace(other.key, pair.key)
        os.replace(other.certificate, pair.certificate)
        assert await answered(address, ca)
        assert "The native front door cannot use the new TLS files" in caplog.text
