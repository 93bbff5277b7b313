"""The role `view`: tasks are seen, and not what is in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tests.certificates import Authority
from tests.services.access_rig import proof
from timerd.client import AccessDenied, Client, RetryPolicy
from timerd.config import AuthConfig, ServerConfig, TlsConfig
from timerd.services.transport.access import NEEDED, shows_contents
from timerd.services.transport.principals import Principal
from timerd.services.transport.redaction import CONTENTS, redacted
from timerd.services.transport.roles import VIEW, parse_roles
from timerd.testing import Server
from timerd.v1 import (
    cycle_service_pb2,
    overview_service_pb2,
    regulation_service_pb2,
    schedule_service_pb2,
    timer_service_pb2,
)

FILES = (timer_service_pb2, schedule_service_pb2, cycle_service_pb2, overview_service_pb2, regulation_service_pb2)
REPLIES = {
    f"/{service.full_name}/{method.name}": method.output_type
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
SPAN = timedelta(days=1)


def fields_of(message: Descriptor, seen: set[str]) -> Iterator[FieldDescriptor]:
    """At any depth."""
    if message.full_name in seen:
        return
    seen.add(message.full_name)
    for field in message.fields:
        yield field
        if field.message_type is not None:
            yield from fields_of(field.message_type, seen)


@pytest.mark.parametrize("method", [name for name, roles in NEEDED.items() if VIEW in roles])
def test_no_field_that_could_hold_a_payload_is_left(method: str) -> None:
    """A field of bytes that a later version adds to a reply is one of those, or its test says why not."""
    fields = [*fields_of(REPLIES[method], set())]
    assert {field.name for field in fields if field.type == FieldDescriptor.TYPE_BYTES} <= CONTENTS
    assert {field.name for field in fields if "error" in field.name} <= CONTENTS


def test_they_are_emptied_at_any_depth() -> None:
    reply = timer_service_pb2.ListDeadLettersResponse(next_page_token="more")
    letter = reply.dead_letters.add(attempts=3, last_error="card 4711")
    letter.task.payload, letter.task.key, letter.task.last_error = b"card 4711", "order-17", "card 4711"
    letter.task.history.add(attempt=3, error="card 4711")
    letter.task.progress.cursor = b"card 4711"
    letter.task.labels["kind"] = "payload"
    redacted(reply)
    assert b"4711" not in reply.SerializeToString()
    assert (letter.task.key, dict(letter.task.labels), letter.attempts) == ("order-17", {"kind": "payload"}, 3)
    assert reply.next_page_token == "more"


@pytest.mark.parametrize(
    ("roles", "namespace", "shows"),
    [
        ("view", "shop", False),
        ("view@shop,work", "shop", False),
        ("view,inspect", "shop", True),
        ("view,inspect@shop", "shop", True),
        ("view,inspect@shop", "bank", False),
        ("view,schedule", "shop", False),
        ("view,operate", "shop", True),
    ],
)
def test_another_role_that_allows_it_shows_everything(roles: str, namespace: str, shows: bool) -> None:
    caller = Principal("somebody", parse_roles(roles))
    assert shows_contents("/timerd.v1.TimerService/ListDeadLetters", caller, namespace) is shows


@pytest.fixture
async def clients(tmp_path: Path) -> AsyncIterator[dict[str, Client]]:
    """By the name of the caller, of a server where a letter is dead and a task pending in the namespace shop."""
    authority = Authority(tmp_path)
    pair = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    roles = {"shop": "schedule@shop,work@shop", "eyes": "view@shop", "support": "inspect@shop"}
    (tmp_path / "principals").write_text("".join(f"{name} {each} {proof(name)}\n" for name, each in roles.items()))
    config = ServerConfig(
        listen="127.0.0.1:0", synchronous="normal",
        tls=TlsConfig(certificate_file=pair.certificate, key_file=pair.key),
        auth=AuthConfig(principals_file=tmp_path / "principals"),
    )  # fmt: skip
    # Clients of another process go by the real time.
    async with Server(config=config, start=datetime.now(UTC)) as server:
        made = {
            name: Client(server.address, ca_file=authority.certificate, token=name, namespace="shop", timeout=10)
            for name in roles
        }
        shop = made["shop"]
        await shop.schedule("mails", b"card 4711", delay=SPAN, key="order-17", labels={"to": "Ada"})
        await shop.schedule("bills", b"card 4711", delay=0, retry=RetryPolicy(max_attempts=1))
        await server.advance(minutes=1)
        [task] = await shop.receive("bills", wait=20)
        await shop.finish(task, "nack", error="card 4711 is refused")
        yield made
        for client in made.values():
            await client.close()


async def test_tasks_and_dead_letters_are_seen_without_what_is_in_them(clients: dict[str, Client]) -> None:
    eyes, support = clients["eyes"], clients["support"]
    task = await eyes.get(key="order-17")
    assert (task.queue, task.key, task.labels, task.payload) == ("mails", "order-17", {"to": "Ada"}, b"")
    assert [each.payload async for each in eyes.list(queue="mails", include_payload=True)] == [b""]
    assert [each.payload async for each in support.list(queue="mails", include_payload=True)] == [b"card 4711"]
    [letter] = [each async for each in eyes.dead_letters("bills")]
    assert (letter.attempts, letter.last_error, letter.task.payload) == (1, "", b"")
    assert [(each.attempt, each.error) for each in letter.task.history] == [(1, "")]
    [letter] = [each async for each in support.dead_letters("bills")]
    assert (letter.last_error, letter.task.payload) == ("card 4711 is refused", b"card 4711")


async def test_nothing_else_is_allowed(clients: dict[str, Client]) -> None:
    eyes = clients["eyes"]
    for attempt in (
        eyes.schedule("mails", b"x", delay=SPAN),
        eyes.cancel(key="order-17"),
        eyes.receive("mails", wait=1),
        eyes.redrive(queue="bills"),
    ):
        with pytest.raises(AccessDenied, match="eyes may not call"):
            await attempt
