"""Who may call what: tokens and certificates, roles, renewal without a restart."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.certificates import Authority, Pair
from tests.services.access_rig import proof, write
from timerd.client import AccessDenied, Client, InvalidTask, TimerdError
from timerd.config import AuthConfig, ServerConfig, TlsConfig
from timerd.model.errors import Denied, StartupError, Unauthenticated
from timerd.peer.keda import externalscaler_pb2
from timerd.services.server import HEALTH_SERVICE, TIMER_SERVICE, WORK_SERVICE
from timerd.services.transport.access import ANYWHERE, NEEDED, SERVER_WIDE, STREAMS, allow
from timerd.services.transport.permission import Permission
from timerd.services.transport.principals import Principal, Principals, read_principals
from timerd.services.transport.roles import ROLES, Role, parse_roles
from timerd.services.transport.tls import peer_credentials
from timerd.testing import Server
from timerd.v1 import (
    cycle_service_pb2,
    overview_service_pb2,
    regulation_service_pb2,
    schedule_service_pb2,
    timer_service_pb2,
    work_service_pb2,
)
from timerd.worker import Worker

CALLED = (
    timer_service_pb2,
    work_service_pb2,
    schedule_service_pb2,
    overview_service_pb2,
    cycle_service_pb2,
    regulation_service_pb2,
    externalscaler_pb2,
)
FILES = [module.DESCRIPTOR for module in CALLED]
SERVICES = [service for file in FILES for service in file.services_by_name.values()]
LATER = datetime(2030, 6, 1, tzinfo=UTC)
METHODS = [f"/{service.full_name}/{method.name}" for service in SERVICES for method in service.methods]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server_pair(authority: Authority) -> Pair:
    return authority.sign("server", "DNS:localhost", "IP:127.0.0.1")


@pytest.fixture
def principals(tmp_path: Path) -> Path:
    path = tmp_path / "principals"
    path.write_text(
        f"# who may do what\nmails schedule,work {proof('t-mails')}\nops operate {proof('t-ops')} # nights\n\n"
        "orders schedule cert:orders\n"
    )
    return path


@pytest.fixture
async def with_tokens(server_pair: Pair, principals: Path) -> AsyncIterator[Server]:
    tls = TlsConfig(certificate_file=server_pair.certificate, key_file=server_pair.key)
    auth = AuthConfig(principals_file=principals)
    async with Server(config=ServerConfig(listen="127.0.0.1:0", synchronous="normal", tls=tls, auth=auth)) as server:
        yield server


def test_every_method_of_ours_needs_a_role() -> None:
    assert sorted(NEEDED) == sorted(METHODS)
    assert {role for roles in NEEDED.values() for role in roles} == set(ROLES)


def test_what_names_no_namespace_is_for_the_server_as_a_whole() -> None:
    inputs = {
        f"/{service.full_name}/{method.name}": method.input_type for service in SERVICES for method in service.methods
    }
    without = {name for name, message in inputs.items() if "namespace" not in message.fields_by_name}
    assert without - STREAMS <= SERVER_WIDE
    assert all("request" in inputs[name].oneofs_by_name for name in STREAMS)


def test_the_page_says_which_method_needs_which_role() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operate" / "security.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    named = {role: set(re.findall(r"\b[A-Z][A-Za-z]+\b", text)) for role, text in rows.items()}
    assert named == {role: {name.rpartition("/")[2] for name in METHODS if role in NEEDED[name]} for role in ROLES}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_allows_its_methods_and_no_other(role: str) -> None:
    caller = Principal("somebody", frozenset({Role(role)}))
    for method in [*METHODS, "/timerd.v1.TimerService/Invented", "/other.Service/Call"]:
        for place in (None, ANYWHERE, "shop"):
            if role in NEEDED.get(method, ()):
                allow(method, caller, place)
            else:
                with pytest.raises(Denied, match="somebody may not call"):
                    allow(method, caller, place)
    allow("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", caller, ANYWHERE)


def test_who_is_nobody_is_told_so() -> None:
    with pytest.raises(Unauthenticated):
        Permission(lambda: None, lambda *_: None).check(ANYWHERE)


@pytest.mark.parametrize(
    ("roles", "namespace", "queue", "allowed"),
    [
        ("work", "shop", "mails", True),
        ("work", None, None, True),
        ("work@shop", "shop", "mails", True),
        ("work@shop", "shopping", "mails", False),
        ("work@shop", None, None, False),
        ("work@*", None, None, True),
        ("work@team-*", "team-a", "mails", True),
        ("work@team-*", "team", "mails", False),
        ("work@shop/mails", "shop", "mails", True),
        ("work@shop/mails", "shop", None, True),
        ("work@shop/mails", "shop", "bills", False),
        ("work@*/mails", None, None, False),
        ("work@shop/eu/*", "shop", "eu/mails", True),
        ("work@a.b", "a.b", "mails", True),
        ("work@a.b", "aXb", "mails", False),
        ("schedule,work@shop", "other", "mails", False),
        ("work@*-a*-b", "-a" * 1_000_000, "mails", False),
    ],
)
def test_a_role_may_be_for_a_namespace_and_a_queue(
    roles: str, namespace: str | None, queue: str | None, allowed: bool
) -> None:
    caller = Principal("somebody", parse_roles(roles))
    if allowed:
        allow("/timerd.v1.WorkService/Receive", caller, namespace, queue)
    else:
        with pytest.raises(Denied, match=re.escape("it needs the role work, and somebody has")):
            allow("/timerd.v1.WorkService/Receive", caller, namespace, queue)


@pytest.mark.parametrize("roles", ROLES)
@pytest.mark.parametrize("place", ["", "@shop", "@*", "@team-*"])
def test_a_role_is_said_as_it_was_written(roles: str, place: str) -> None:
    (role,) = parse_roles(roles + place)
    assert parse_roles(str(role)) == {role}


async def test_a_namespace_is_its_callers_own(server_pair: Pair, principals: Path, authority: Authority) -> None:
    """By unary calls, the Session stream and the Work stream."""
    write(
        principals,
        f"shop schedule@shop,work@shop/mails,inspect@shop {proof('t-shop')}\nall schedule,operate {proof('t-all')}\n",
    )
    tls = TlsConfig(certificate_file=server_pair.certificate, key_file=server_pair.key)
    config = ServerConfig(
        listen="127.0.0.1:0", synchronous="normal", tls=tls, auth=AuthConfig(principals_file=principals)
    )
    async with Server(config=config) as server:

        def client(token: str, namespace: str) -> Client:
            return Client(server.address, ca_file=authority.certificate, token=token, namespace=namespace, timeout=5)

        async with client("t-all", "bank") as bank, client("t-shop", "bank") as thief:
            task = await bank.schedule("mails", b"x", at=LATER)
            for attempt in (
                thief.schedule("mails", b"x", at=LATER),
                thief.schedule_many("mails", [(b"x", LATER)]),
                thief.cancel(task.id),
                thief.cancel_many([task.id]),
                thief.reschedule(task.id, at=LATER),
                thief.get(task.id),
                thief.fire_now(task.id),
            ):
                with pytest.raises(AccessDenied, match=r"in the namespace 'bank'.*and shop has .*schedule@shop"):
                    await attempt
            with pytest.raises(AccessDenied, match="in the namespace 'bank'"):
                _ = [letter async for letter in thief.dead_letters()]
            assert (await bank.get(task.id)).state.name == "PENDING"
        async with client("t-shop", "shop") as shop:
            await shop.schedule("mails", b"x", at=LATER)
            assert [letter async for letter in shop.dead_letters()] == []
            with pytest.raises(AccessDenied, match="it needs the role operate"):
                await shop.purge()
            with pytest.raises(AccessDenied, match="may not call GetServerInfo"):
                await shop.server_info()
        for namespace, queue in (("bank", "mails"), ("shop", "bills")):
            worker = Worker(server.address, ca_file=authority.certificate, token="t-shop", namespace=namespace)
            worker.on(queue)(lambda delivery: None)
            with pytest.raises(AccessDenied, match=f"may not call Work in the namespace '{namespace}'"):
                await worker.run()


@pytest.mark.parametrize("name", ["", "timers.example"])
async def test_of_several_addresses_the_certificate_is_for_the_first_or_for_the_name_that_is_given(
    authority: Authority, name: str
) -> None:
    pair = authority.sign(f"several-{name}", f"DNS:{name}" if name else "IP:127.0.0.1")
    config = ServerConfig(listen="127.0.0.1:0", tls=TlsConfig(certificate_file=pair.certificate, key_file=pair.key))
    async with Server(config=config) as server:
        several = f"ipv4:{server.address},{server.address}"
        async with Client(several, ca_file=authority.certificate, tls_server_name=name, timeout=5) as client:
            await client.schedule("mails", b"x", at=LATER)


async def test_a_token_gives_its_roles(with_tokens: Server, authority: Authority, tmp_path: Path) -> None:
    ca = authority.certificate
    async with Client(with_tokens.address, ca_file=ca, token="t-mails") as client:
        await client.schedule("mails", b"x", at=LATER)
        with pytest.raises(AccessDenied, match="mails may not call ListDeadLetters: it needs the role operate"):
            _ = [letter async for letter in client.dead_letters()]
    file = tmp_path / "token"
    write(file, "t-ops\n")
    async with Client(with_tokens.address, ca_file=ca, token_file=file, timeout=5) as client:
        assert [letter async for letter in client.dead_letters()] == []
        with pytest.raises(AccessDenied, match="needs the role schedule"):
            await client.get("x")


@pytest.mark.parametrize("token", ["", "t-nobody", "t-mails2"])
async def test_who_is_not_known_is_told_so(with_tokens: Server, authority: Authority, token: str) -> None:
    async with Client(with_tokens.address, ca_file=authority.certificate, token=token, timeout=5) as client:
        with pytest.raises(AccessDenied, match="does not know this caller"):
            await client.get("x")
        with pytest.raises(AccessDenied):
            await client.schedule("mails", b"x", at=LATER)


async def test_a_worker_needs_its_role(with_tokens: Server, authority: Authority) -> None:
    worker = Worker(with_tokens.address, ca_file=authority.certificate, token="t-ops")
    worker.on("mails")(lambda delivery: None)
    with pytest.raises(TimerdError, match="ops may not call Work"):
        await worker.run()


async def test_health_is_for_whoever_watches(with_tokens: Server, authority: Authority) -> None:
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    async with grpc.aio.secure_channel(with_tokens.address, credentials) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        assert (await stub.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
    assert not {TIMER_SERVICE, WORK_SERVICE} & {HEALTH_SERVICE}


async def test_principals_are_taken_up_anew(with_tokens: Server, authority: Authority, principals: Path) -> None:
    async with Client(with_tokens.address, ca_file=authority.certificate, token="t-new", timeout=5) as client:
        with pytest.raises(AccessDenied):
            await client.get("x")
        write(principals, f"new schedule {proof('t-new')}\n")
        await client.schedule("mails", b"x", at=LATER)
        write(principals, "spoilt\n")
        await client.schedule("mails", b"x", at=LATER)


async def test_a_client_certificate_gives_its_roles(
    authority: Authority, server_pair: Pair, principals: Path, tmp_path: Path
) -> None:
    tls = TlsConfig(
        certificate_file=server_pair.certificate, key_file=server_pair.key, client_ca_file=authority.certificate
    )
    config = ServerConfig(
        listen="127.0.0.1:0", synchronous="normal", tls=tls, auth=AuthConfig(principals_file=principals)
    )
    orders, strange = authority.sign("orders"), authority.sign("strange")
    forged = Authority(tmp_path, "another").sign("orders")
    async with Server(config=config) as server:

        def client(pair: Pair | None) -> Client:
            certificate, key = pair or (None, None)
            ca = authority.certificate
            return Client(server.address, ca_file=ca, cert_file=certificate, key_file=key, timeout=2)

        async with client(orders) as good:
            await good.schedule("mails", b"x", at=LATER)
            with pytest.raises(AccessDenied, match="orders may not call"):
                _ = [letter async for letter in good.dead_letters()]
        async with client(strange) as unknown:
            with pytest.raises(AccessDenied, match="does not know this caller"):
                await unknown.get("x")
        for pair in (None, forged):
            async with client(pair) as refused:
                with pytest.raises(TimerdError, match="could not be reached"):
                    await refused.get("x")


async def test_a_renewed_certificate_is_taken_up_by_the_next_connection(tmp_path: Path) -> None:
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    pair = first.sign("server", "DNS:localhost", "IP:127.0.0.1")
    later = second.sign("later", "DNS:localhost", "IP:127.0.0.1")
    config = ServerConfig(listen="127.0.0.1:0", tls=TlsConfig(certificate_file=pair.certificate, key_file=pair.key))
    async with Server(config=config) as server:

        async def schedules(authority: Authority) -> None:
            async with Client(server.address, ca_file=authority.certificate, timeout=5) as client:
                assert (await client.schedule("mails", b"x", at=LATER)).outcome.name == "STORED"

        async with Client(server.address, ca_file=first.certificate) as old:
            await old.schedule("mails", b"x", at=LATER)
            # Half of a renewal leaves the old ones in force.
            os.replace(later.certificate, pair.certificate)
            await schedules(first)
            os.replace(later.key, pair.key)
            await schedules(second)
            await old.schedule("mails", b"x", at=LATER)


async def test_instances_call_each_other_with_what_they_show_to_callers(
    authority: Authority, server_pair: Pair
) -> None:
    tls = TlsConfig(
        certificate_file=server_pair.certificate, key_file=server_pair.key, client_ca_file=authority.certificate
    )
    async with Server(config=ServerConfig(listen="127.0.0.1:0", tls=tls)) as server:
        credentials = peer_credentials(tls)
        assert credentials is not None
        async with grpc.aio.secure_channel(server.address, credentials) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            assert (await stub.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
    assert peer_credentials(TlsConfig()) is None


WRONG = [
    ("mails schedule\n", "line 1: write NAME ROLES PROOF"),
    (f"\nmails sleep {proof('x')}\n", "line 2: sleep is no role for mails: write one of schedule, work"),
    (f"mails work,schedule@shop/mails {proof('x')}\n", "line 1: schedule@shop/mails is no role"),
    (f"mails work@ {proof('x')}\n", "line 1: work@ is no role"),
    (f"mails work@shop/ {proof('x')}\n", "line 1: work@shop/ is no role"),
    ("mails work secret-token\n", "line 1: the proof of mails must be"),
    (f"a work {proof('x')}\nb work {proof('x')}\n", "line 2: b has the proof of a"),
]


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_a_wrong_line_is_named_and_its_secret_is_not(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "principals"
    path.write_text(text)
    with pytest.raises(StartupError) as refused:
        read_principals(path)
    assert says in str(refused.value)
    assert "secret-token" not in str(refused.value)


def test_no_file_of_principals_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="Cannot read the file of principals"):
        Principals(tmp_path / "absent")


def test_a_token_is_sent_over_tls_only(authority: Authority) -> None:
    with pytest.raises(InvalidTask, match="over TLS only"):
        Client("127.0.0.1:1", token="t")
    with pytest.raises(InvalidTask, match="one way"):
        Client("127.0.0.1:1", tls=True, token="t", token_file="f")
    assert "t-secret" not in repr(Client("127.0.0.1:1", tls=True, token="t-secret")._connection)
