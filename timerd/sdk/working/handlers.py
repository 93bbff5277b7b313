"""Handlers: what may be registered as one, and how a lane calls it.

A coroutine function runs in the event loop, a plain one in a thread. However a call ends, it ends one attempt of its
deliveries and nothing else: a worker serves many queues, and a library that gives up in one handler ends no other.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from traceback import walk_tb
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from timerd.sdk.values import Delivery, Traces, invalid
from timerd.sdk.working.processes import HandlerProcesses
from timerd.sdk.working.time_limits import CURRENT_CALL, TimedCall

Handler = Callable[[Delivery], Any]
BatchResults = Sequence[object] | None
BatchHandler = Callable[[list[Delivery]], BatchResults | Awaitable[BatchResults]]
Invoke = Callable[[Any], Awaitable[Any]]


def check_handler(handler: object, queue: str, argument: str) -> None:
    """Refuses what cannot be called with one argument, and what would return before it has done anything.

    Raises InvalidTask. `argument`: what the handler is called with, for the sentence.
    """
    called = _called(handler)
    if not callable(handler):
        wrong = f"{handler!r:.200}, which cannot be called: register a function that takes one {argument}."
    elif inspect.isclass(called):
        wrong = (
            f"the class {name_of(handler)}: calling it makes an object and runs nothing more. "
            "Register a function, or a method of an object."
        )
    elif any(map(_is_generator, (called, getattr(called, "__call__", None)))):  # noqa: B004 - its code is looked at
        wrong = (
            f"the generator function {name_of(handler)}: calling it runs none of its lines. Register a function "
            "without `yield`."
        )
    elif not _takes_one(handler):
        wrong = (
            f"{name_of(handler)}{inspect.signature(handler, follow_wrapped=False)}, which cannot be called with one "
            f"argument: register a function that takes one {argument} (`functools.partial` fills in the others)."
        )
    else:
        return
    raise invalid(f"The handler of the queue {queue!r} is {wrong}", "handler")


def check_plain(function: object, queue: str) -> None:
    """Refuses what is no function, and one of which a call runs no line. Raises InvalidTask."""
    if not inspect.isroutine(function) or _is_generator(function):
        raise invalid(
            f"The task of the queue {queue!r} is {function!r:.200}: register a function, plain or `async`, without "
            "`yield`.",
            "function",
        )


def name_of(handler: object) -> str:
    """Module and name, also of a partial function and of an object that can be called."""
    called = _called(handler)
    named = called if hasattr(called, "__qualname__") else type(called)
    return f"{getattr(named, '__module__', None) or '?'}.{named.__qualname__}"


def _called(handler: object) -> Any:  # noqa: ANN401 - whatever was registered
    while isinstance(handler, partial):
        handler = handler.func
    return handler


def _is_generator(function: object) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _takes_one(handler: Callable[..., object]) -> bool:
    try:
        # A decorator may give its function more than it takes itself: only its own arguments count.
        inspect.signature(handler, follow_wrapped=False).bind(None)
    except TypeError:
        return False
    except ValueError:
        # Written in C, and says nothing of its arguments.
        return True
    return True


def _is_async(handler: Callable[[Any], Any]) -> bool:
    called = _called(handler)
    return inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(getattr(called, "__call__", None))  # noqa: B004


class HandlerCalls:
    """The calls of a lane's handler that are under way."""

    def __init__(
        self,
        handler: Callable[[Any], Any],
        queue: str,
        concurrency: int,
        tracing: Traces | None,
        on_free: Callable[[], None] = lambda: None,
    ) -> None:
        # As a sentence begins with it; also of the tasks, by which a watch of the loop knows them.
        self.name = f"The handler {name_of(handler)} of the queue {queue!r}"
        self._handler = handler
        self._on_free = on_free
        self._tasks: set[asyncio.Task[None]] = set()
        self._context = contextvars.Context()
        self._threads = HandlerThreads(concurrency)
        self._is_aborting = False
        self._is_async = _is_async(handler)
        invoke: Invoke = handler if self._is_async else self._in_thread
        # Its end is that of all it has handed back, see `finished`.
        self.invoke = invoke if tracing is None else _traced(invoke, tracing)

    def __len__(self) -> int:
        return len(self._tasks)

    def tasks(self) -> set[asyncio.Task[None]]:
        return set(self._tasks)

    def start(self) -> None:
        """Calls begin with what is current here, whatever is when there is room for them."""
        self._context = contextvars.copy_context()

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """What it does last is to say that it has ended."""
        loop, context = asyncio.get_running_loop(), self._context.copy()
        task: asyncio.Task[None] = loop.create_task(work, name=self.name, context=context)
        self._tasks.add(task)

    def ended(self, task: asyncio.Task[None]) -> None:
        """Says so itself, and not a callback of it, which would be a turn of the loop more for each call."""
        self._tasks.discard(task)
        # One that is thrown away with its loop makes no room, also while another loop runs.
        if asyncio._get_running_loop() is task.get_loop():
            self._on_free()

    async def _in_thread(self, argument: object) -> object:
        # What is current here (a trace) is current in the thread.
        inside, call = contextvars.copy_context().run, CURRENT_CALL.get()
        if call is not None:
            call.is_plain = True
        returned = await self._threads.call(partial(inside, self._handler, argument))
        if call is not None:
            call.is_plain = False
            if call.is_interrupted and inspect.isawaitable(returned):
                # It came while the thread was at it, which has left the work to this loop.
                call.task.cancel()
        return returned

    def is_cut_short(self, raised: BaseException) -> bool:
        """Whether `raised` ends the worker or the program, so that it says nothing about the attempt."""
        is_discarded = isinstance(raised, GeneratorExit) and asyncio._get_running_loop() is None
        return self._is_aborting or is_discarded or (self._is_async and _is_ctrl_c(raised))

    async def abort(self) -> None:
        """Coroutines are cancelled. A thread cannot be, and keeps neither the loop nor the program from ending."""
        self._is_aborting = True
        for task in self._tasks:
            task.cancel()
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            # Of what was cancelled before it began nobody has said that it has ended.
            self._tasks.clear()
            self._threads.close()
            if isinstance(self._handler, HandlerProcesses):
                self._handler.close()
            self._is_aborting = False


async def finished(result: object) -> Any:  # noqa: ANN401 - what the handler gives
    """Waits for the work that a handler has handed back instead of doing it, such as a lambda around a coroutine."""
    while inspect.isawaitable(result):
        result = await result
    if isinstance(result, GeneratorType | AsyncGeneratorType):
        raise TypeError(f"The handler returned {result!r:.200}, of which not a line has run: loop over it instead.")
    return result


def _traced(invoke: Invoke, tracing: Traces) -> Invoke:
    async def run(given: Any) -> Any:  # noqa: ANN401 - whatever the handler takes and gives
        with tracing.handling([given] if isinstance(given, Delivery) else given):
            return await finished(await invoke(given))

    return run


def _is_ctrl_c(raised: BaseException) -> bool:
    """Python raises it in whatever the main thread is at, so also in a coroutine of a handler. Where neither Python's
    own handler of the signal is set nor that of `asyncio.run` has raised it, the handler itself did."""
    if not isinstance(raised, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    *_, (innermost, _) = walk_tb(raised.__traceback__)
    return (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
        or innermost.f_code.co_qualname == "Runner._on_sigint"
    )


class HandlerThreads:
    """Run plain handlers, each started when there is a call more than threads.

    They are daemons: a program that ends does not wait for a handler that does not return. `Worker.stop` does.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = 0
        self._under_way = 0

    async def call(self, function: Callable[[], object]) -> object:
        loop, call = asyncio.get_running_loop(), CURRENT_CALL.get()
        ended: asyncio.Future[object] = loop.create_future()
        self._under_way += 1
        if self._threads < min(self._most, self._under_way):
            self._threads += 1
            threading.Thread(target=_run_calls, args=(self._calls,), name="timerd handler", daemon=True).start()
        self._calls.put(partial(_call, function, ended, loop, call))
        try:
            return await ended
        finally:
            self._under_way -= 1
            # The trace of what it raises has this frame: it would hold what it is held by.
            del ended

    def close(self) -> None:
        """Each thread ends with the call that it is at."""
        for _ in range(self._threads):
            self._calls.put(None)
        self._calls, self._threads = SimpleQueue(), 0


def _run_calls(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        # Nothing of it is kept until the next one.
        del call


def _call(
    function: Callable[[], object],
    ended: asyncio.Future[object],
    loop: asyncio.AbstractEventLoop,
    call: TimedCall | None,
) -> None:
    if ended.cancelled():
        return
    if call is not None:
        call.thread = threading.get_ident()
    tell: Callable[[], None]
    try:
        tell = partial(_end, ended, ended.set_result, function())
    except StopIteration as stop:
        # No future holds one, and no coroutine raises one: there it is a RuntimeError as well.
        wrapped = RuntimeError("The handler raised StopIteration.")
        wrapped.__cause__ = stop
        tell = partial(_end, ended, ended.set_exception, wrapped)
    except BaseException as raised:  # noqa: BLE001 - the attempt ends with it, and not the thread
        tell = partial(_end, ended, ended.set_exception, raised)
    if call is not None:
        call.thread = None
    # A closed loop has nobody who waits.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(tell)
    # As in `HandlerThreads.call`.
    del tell, ended


def _end(ended: asyncio.Future[object], with_: Callable[[Any], None], what: object) -> None:
    if not ended.done():
        with_(what)
