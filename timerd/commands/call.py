"""What every command that speaks to a server shares: its options, its client, its way to fail.

`online` turns a coroutine that takes a `CommandCall` into a plain function that typer understands: the options of
`Common` are added to its own, the client is opened around it, and errors leave as one sentence.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timerd.commands import options
from timerd.commands.failures import CommandFailure, Unreachable, WrongInput, failure_of
from timerd.commands.output import Form, Output
from timerd.commands.progress import Bar
from timerd.commands.recent_ids import IdSource, remember, unknown_part, whole_id
from timerd.commands.times import parse_span
from timerd.commands.watch import Round, checked_seconds, repeat_below, repeat_in_place

if TYPE_CHECKING:
    from timerd.client import Client, ConnectOptions


_FILES = ("tls_ca", "tls_cert", "tls_key", "token_file")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which server, as whom, and how."""

    server: str
    namespace: str
    tls_ca: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    token_file: Path | None
    timeout_s: float

    def check(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise WrongInput("A client certificate needs both --tls-cert and --tls-key.")
        for path in (self.tls_ca, self.tls_cert, self.tls_key):
            options.check_file(path, "an existing PEM file")
        options.check_file(self.token_file, "the file that holds the token, or give the token in TIMERD_TOKEN")

    def connection(self) -> ConnectOptions:
        """What clients and workers of a command are made from."""
        from timerd.sdk.transport import ConnectOptions

        return ConnectOptions(
            self.server,
            namespace=self.namespace,
            timeout=self.timeout_s,
            ca_file=self.tls_ca,
            cert_file=self.tls_cert,
            key_file=self.tls_key,
            # Not a flag: flags are seen by everybody on the machine.
            token="" if self.token_file is not None else os.environ.get("TIMERD_TOKEN", ""),
            token_file=self.token_file,
        )

    def client(self) -> Client:
        from timerd.client import Client

        return Client(self.connection())


@dataclass(frozen=True, slots=True)
class CommandCall:
    """What a command has in hand while it runs. It connects when its own input has been found to be good."""

    endpoint: Endpoint
    out: Output
    bar: Bar
    _open: AsyncExitStack
    # What was typed for ids, and is none that was shown.
    _unknown: list[str] = field(default_factory=list)

    async def connect(self) -> Client:
        await _knock(self.endpoint)
        return await self._open.enter_async_context(self.endpoint.client())

    def whole_id(self, text: str) -> str:
        """The id that this user was shown and has this part; the text itself where none has. Raises WrongInput."""
        found = whole_id(self._source, text)
        if found == text:
            self._unknown.append(text)
        return found

    def not_found(self) -> str:
        """What to say where the server knows no task by an id that was typed; empty: no more than the server says."""
        return " ".join(filter(None, map(unknown_part, self._unknown)))

    def remember(self) -> None:
        """Ids that were shown, so that a part of one names it."""
        shown, self.out.shown_ids = self.out.shown_ids, []
        remember(self._source, shown)

    @property
    def _source(self) -> IdSource:
        return IdSource(self.endpoint.server, self.endpoint.namespace)


def _common(
    server: options.ServerOption = options.DEFAULT_SERVER,
    namespace: options.Namespace = "default",
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    token_file: options.TokenFile = None,
    timeout: options.Timeout = "10s",
) -> Endpoint:
    timeout_s = parse_span(timeout).total_seconds()
    if timeout_s <= 0:
        raise WrongInput(f"--timeout is {timeout}: give more than 0, for example 10s.")
    return Endpoint(_address(server), namespace, tls_ca, tls_cert, tls_key, token_file, timeout_s)


def endpoint_by_environment(server: str) -> Endpoint:
    """Of a command that has no options for more than where the server is."""
    namespace = os.environ.get("TIMERD_NAMESPACE", "default")
    tls_ca, tls_cert, tls_key, token_file = map(_file_by_environment, _FILES)
    return _common(server, namespace, tls_ca, tls_cert, tls_key, token_file)


def _file_by_environment(name: str) -> Path | None:
    path = os.environ.get(f"TIMERD_{name.upper()}")
    return Path(path) if path else None


def form_of_one(json: options.Json = False) -> Form:
    """Of commands that have no table of records."""
    return Form.of(json)


def form_of_listing(json: options.Json = False, output: options.OutputOption = None) -> Form:
    """The form that --output names.

    Raises:
        WrongInput: --json names another one.
    """
    if json and output not in (None, Form.JSON):
        raise WrongInput(f"--json means -o json, and -o {output.value} was given too: give one of them.")
    return output or Form.of(json)


def _address(server: str) -> str:
    from timerd.sdk.transport import server_address
    from timerd.sdk.values import InvalidTask

    try:
        return server_address(server, "--server")
    except InvalidTask as wrong:
        raise WrongInput(str(wrong)) from None


def online(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The command as typer takes it, with the options of every command that speaks to a server."""
    return _with_options(command, form_of_one, _once)


def showing(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """As `online`, for commands that only show, and are asked once: with --output."""
    return _with_options(command, form_of_listing, _once)


def listing(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """As `online`, for commands that only show: with --output and --watch."""
    return _with_options(command, form_of_listing, _watched)


def repeating(command: Callable[..., Awaitable[None]], seconds: Callable[..., float | None]) -> Callable[..., None]:
    """As `online`, for commands that go on by themselves: `seconds` declares the options that say how often."""
    return _with_options(command, form_of_one, seconds)


def following(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """As `online`, for commands that go on until Ctrl-C, which is how they are meant to end."""
    run = online(command)

    @wraps(run)
    def follow(**given: Any) -> None:  # noqa: ANN401 - what the command declares
        with suppress(KeyboardInterrupt):
            run(**given)

    return follow


def _once() -> None:
    return None


def _watched(watch: options.WatchOption = None) -> float | None:
    return None if watch is None else checked_seconds(watch)


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)


def _with_options(
    command: Callable[..., Awaitable[None]], form: Callable[..., Form], seconds: Callable[..., float | None]
) -> Callable[..., None]:
    """`form` and `seconds` declare options, and make of what is given how to print, and how often."""
    shared = [_parameters(function) for function in (form, seconds, _common)]

    def run(**given: Any) -> None:  # noqa: ANN401 - what the command declares
        form_given, seconds_given, common_given = ({name: given.pop(name) for name in each} for each in shared)
        chosen, pause_s, endpoint = form(**form_given), seconds(**seconds_given), _common(**common_given)
        endpoint.check()
        if pause_s is None:
            asyncio.run(_with_bar(command, endpoint, chosen, given))
        else:
            _run_watched(lambda write: _call(command, endpoint, Output(chosen, write=write), given), chosen, pause_s)

    own = {name: each for name, each in _parameters(command).items() if name != "call"}
    merged = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in (own, *shared) for each in part.values()]
    run.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in merged}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _run_watched(one: Round, form: Form, pause_s: float) -> None:
    """Until Ctrl-C, which is how it is meant to end."""
    in_place = form in (Form.TABLE, Form.WIDE) and sys.stdout.isatty()
    with suppress(KeyboardInterrupt):
        asyncio.run((repeat_in_place if in_place else repeat_below)(one, pause_s))


async def _with_bar(
    command: Callable[..., Awaitable[None]], endpoint: Endpoint, form: Form, given: dict[str, Any]
) -> None:
    with Bar(f"waiting for timerd at {endpoint.server}") as bar:
        await _call(command, endpoint, Output(form, bar.stop), given, bar)


async def _call(
    command: Callable[..., Awaitable[None]],
    endpoint: Endpoint,
    out: Output,
    given: dict[str, Any],
    bar: Bar | None = None,
) -> None:
    """`bar` None: one that is never shown."""
    from timerd.client import TimerdError

    async with AsyncExitStack() as opened:
        call = CommandCall(endpoint, out, bar or Bar(""), opened)
        opened.callback(call.remember)
        try:
            await command(call, **given)
        except TimerdError as error:
            if error.code == "NOT_FOUND" and (sentence := call.not_found()):
                raise CommandFailure(sentence) from error
            raise failure_of(error, endpoint.server) from error


@asynccontextmanager
async def connected(endpoint: Endpoint) -> AsyncIterator[Client]:
    """Of a command that speaks to a server only where it is asked to. Raises CommandFailure."""
    from timerd.client import TimerdError

    endpoint.check()
    await _knock(endpoint)
    try:
        async with endpoint.client() as client:
            yield client
    except TimerdError as error:
        raise failure_of(error, endpoint.server) from error


async def _knock(endpoint: Endpoint) -> None:
    """A client would go on trying until its timeout, as a service should; a person wants to know at once."""
    from timerd.sdk.transport import host_and_port

    address = host_and_port(endpoint.server)
    if address is None:
        # Another name server is to be asked (dns://SERVER/HOST:PORT), or a socket, which gRPC can.
        return
    try:
        async with asyncio.timeout(endpoint.timeout_s):
            _, writer = await asyncio.open_connection(*address)
    except (OSError, TimeoutError) as error:
        why = _why(error)
        raise Unreachable(
            f"Nothing answers at {endpoint.server} ({why}): start a server with `timerd serve`, "
            "or name another one with --server."
        ) from error
    writer.close()


def _why(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "nobody knows that name"
    return os.strerror(error.errno).lower() if error.errno else "no answer"
