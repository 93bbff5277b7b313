"""Handlers in processes of their own, which can be ended whatever they are at.

Each call runs in a child process that is kept for the next one; there are as many as calls at a time. A child imports
the module of its handler, as `multiprocessing` does with "spawn", so a program's own start stands under
`if __name__ == "__main__"`. It ends when the pipe to its worker is closed, and with its worker, whatever it is at.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timerd.sdk.values import (
    DeliveredBatch,
    Delivery,
    Interrupted,
    InvalidResult,
    Progress,
    invalid,
    message_of,
    report_of,
)
from timerd.sdk.working.dispositions import FailedElsewhere, result_of
from timerd.sdk.working.time_limits import CURRENT_CALL, TimedCall
from timerd.v1 import work_service_pb2 as pb

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


# What a child sends: how the call has ended, and before that what the handler says of its progress.
_ENDED, _REPORTED = "ended", "reported"


class ProcessDied(RuntimeError):
    """The process of a handler has ended beneath it: by a signal, or since the handler has left it."""


class HandlerProcesses:
    """A plain handler that has each call done by a child. Called in a thread."""

    def __init__(self, handler: Callable[[Any], Any], queue: str) -> None:
        name = getattr(handler, "__qualname__", "")
        if not name or "<" in name:
            raise invalid(
                f"The handler of the queue {queue!r} is {handler!r:.200}, which another process cannot import: with "
                "`isolation` register a function that is defined in a module, not in a function.",
                "handler",
            )
        self.__qualname__, self.__module__ = name, handler.__module__
        self._handler = handler
        self._idle: list[HandlerProcess] = []
        self._busy: set[HandlerProcess] = set()

    def __call__(self, given: Delivery | list[Delivery]) -> object:
        call = CURRENT_CALL.get()
        process = self._taken(call)
        if call is not None and call.is_interrupted:
            # It came while the process started.
            self._idle.append(process)
            raise Interrupted
        self._busy.add(process)
        if call is not None:
            call.process = process
        try:
            failed, results = process.ask(given)
        finally:
            self._busy.discard(process)
            if call is not None:
                call.process = None
        if call is not None and (call.is_over or call.is_interrupted):
            # It may be about to be ended.
            process.end()
        else:
            self._idle.append(process)
        if failed is not None:
            raise failed
        return results

    def _taken(self, call: TimedCall | None) -> HandlerProcess:
        if self._idle:
            return self._idle.pop()
        with call.starting() if call is not None else nullcontext():
            process = HandlerProcess(self._handler)
            process.started()
        return process

    def close(self) -> None:
        """No call is waited for any more: what is still at one has been given up, or is delivered again."""
        for process in [*self._busy]:
            process.kill()
        while self._idle:
            self._idle.pop().close()


class HandlerProcess:
    """One child."""

    def __init__(self, handler: Callable[[Any], Any]) -> None:
        # Nobody else needs it.
        from multiprocessing import get_context

        spawn = get_context("spawn")
        self._stack = tempfile.NamedTemporaryFile("r", prefix="timerd-stack-")  # noqa: SIM115 - it is closed with the child
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs, handler, self._stack.name), daemon=True)
        self._process.start()
        theirs.close()

    def started(self) -> None:
        """Waits until it has imported its handler. Raises ProcessDied."""
        with self._died_of("before it had imported the handler's module"):
            self._pipe.recv_bytes()

    def ask(self, given: Delivery | list[Delivery]) -> tuple[FailedElsewhere | None, object]:
        """Raises ProcessDied."""
        with self._died_of("while it had this task"):
            self._pipe.send_bytes(_request(given))
            while True:
                kind, one, other = pickle.loads(self._pipe.recv_bytes())
                if kind == _ENDED:
                    return one, other
                report_of(given if isinstance(given, Delivery) else given[0])(one, other)

    @contextmanager
    def _died_of(self, when: str) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode or 0
            self.close()
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise ProcessDied(f"The process of the handler {how} {when}.") from None

    def dump_stack(self) -> None:
        """Also of a child that is in code which is not Python's."""
        if hasattr(faulthandler, "register"):
            self._signal(signal.SIGUSR1)

    def stack(self) -> str:
        """What `dump_stack` has asked for by now."""
        with suppress(OSError, ValueError):
            lines = Path(self._stack.name).read_text(errors="replace").splitlines(keepends=True)
            own = ("sdk/working/processes.py", "/multiprocessing/", '"<string>"')
            return "".join(line for line in lines if not any(each in line for each in own))
        return ""

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()

    def end(self) -> None:
        self.terminate()
        self.close()

    def close(self) -> None:
        self._pipe.close()
        self._stack.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, TypeError):
            os.kill(self._process.pid, number)  # type: ignore[arg-type]


def isolated(handler: Callable[[Any], Any], queue: str, isolation: str) -> Callable[[Any], Any]:
    """The handler as `isolation` wants it. Raises InvalidTask."""
    if not isolation:
        return handler
    if isolation != "process":
        raise invalid(f'`isolation` is {isolation!r}: write "process", or leave it out.', "isolation")
    return HandlerProcesses(handler, queue)


def _request(given: Delivery | list[Delivery]) -> bytes:
    each = [given] if isinstance(given, Delivery) else given
    rows = [message_of(delivery).SerializeToString() for delivery in each]
    return pickle.dumps((isinstance(given, Delivery), rows))


def _serve(pipe: Connection, handler: Callable[[Any], Any], stack: str) -> None:
    """What a child does. Ctrl-C is for the worker, which lets it finish what it has begun."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, file=open(stack, "w"), all_threads=False)  # noqa: SIM115 - as long as the child
    threading.Thread(target=_end_with_worker, daemon=True).start()
    with suppress(EOFError, OSError):
        pipe.send_bytes(b"started")
        while True:
            is_one, rows = pickle.loads(pipe.recv_bytes())
            report = partial(_report, pipe)
            batches = [DeliveredBatch(pb.Deliver.FromString(row), report=report) for row in rows]
            deliveries = [Delivery(batch, 0) for batch in batches]
            pipe.send_bytes(_answer(handler, deliveries[0] if is_one else deliveries))


def _end_with_worker() -> None:
    """In the middle of a call too: the worker's tasks go to another one, which would run them beside it."""
    from multiprocessing import parent_process

    worker = parent_process()
    if worker is not None:
        worker.join()
        os.kill(os.getpid(), signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)


def _report(pipe: Connection, token: bytes, progress: Progress) -> None:
    pipe.send_bytes(pickle.dumps((_REPORTED, token, progress)))


def _answer(handler: Callable[[Any], Any], given: Delivery | list[Delivery]) -> bytes:
    try:
        results = handler(given)
        if asyncio.iscoroutine(results):
            results = asyncio.run(results)
        kept = result_of(given, results) if isinstance(given, Delivery) else _each_kept(given, results)
        return pickle.dumps((_ENDED, None, kept))
    except BaseException as raised:  # noqa: BLE001 - the attempt ends with it, and not the process
        return pickle.dumps((_ENDED, FailedElsewhere.of(raised), None))


def _each_kept(given: list[Delivery], results: object) -> object:
    """What can be a result goes back to the worker. So does what is no answer to a batch, of which the worker tells."""
    if not isinstance(results, Sequence):
        return results
    if len(results) != len(given):
        return [None] * len(results)
    return [_one_kept(delivery, entry) for delivery, entry in zip(given, results, strict=True)]


def _one_kept(delivery: Delivery, entry: object) -> object:
    try:
        if isinstance(entry, BaseException) or (isinstance(entry, type) and issubclass(entry, BaseException)):
            return FailedElsewhere.of(entry)
        return result_of(delivery, entry)
    except InvalidResult as wrong:
        return FailedElsewhere.of(wrong)
