"""Group commit: one thread writes, and one fsync serves everybody who waits.

Work is a function that runs inside the transaction and returns another, which is asked for the result when all work of
the commit has been written; only after COMMIT do the waiters hear of it, by one call into their event loop.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from timerd.adapters.sqlite.jobs import JobResult, Jobs, WriteJob, tell
from timerd.adapters.sqlite.schema import give_back_pages
from timerd.model.errors import StoreUnavailable, StoreUnknown, TimerdError

T = TypeVar("T")
TxT = TypeVar("TxT", bound="Transaction")
MOST_JOBS = 4_096
# A disk that has not finished a commit for so long is frozen: who comes now is told at once instead of waiting with the
# others, whose outcome it decides when it goes on.
STALLED_S = 5.0
# While nothing is written nothing fires, so this is the moment for what holds up all threads. A little later than
# the readers rest, so that what they gave back goes too.
REST_S = 1.5
# After fewer there is little to give back.
COMMITS_BEFORE_REST = 100
# Errors of one piece of work, not of the disk: the others of its commit are repeated without it.
_OWN_FAULTS = (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError, sqlite3.DataError)
_log = logging.getLogger(__name__)


class Transaction(Protocol):
    """What is kept from commit to commit, and rebuilt when one fails."""

    connection: sqlite3.Connection

    def begin(self) -> None: ...

    def flush(self) -> None:
        """Writes what the work has gathered."""

    def forget(self) -> None:
        """The transaction was rolled back: whatever was remembered of it, or before it, is to be read again."""


class Writer(Generic[TxT]):
    """Owns the writing connection. `reopen` makes a new one after an error that leaves the old unusable; `on_error`
    hears of SQLite's errors, `on_rest` is called in its thread when nothing was written for a while after much was."""

    def __init__(
        self,
        transaction: TxT,
        reopen: Callable[[], TxT],
        on_error: Callable[[sqlite3.Error], None] = lambda _: None,
        on_rest: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_error = on_error
        self._on_rest = on_rest
        self._transaction = transaction
        self._reopen = reopen
        self._jobs = Jobs(self._rest, REST_S)
        # Since what is spare was given back.
        self._commits = 0
        self._closed = False
        self._broken = False
        # Of work that was handed in: how much, how much of it was answered, and when it last went on.
        self._submitted = self._answered = 0
        self._went_on_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="timerd-writer", daemon=True)
        self._thread.start()

    async def submit(self, work: Callable[[TxT], Callable[[], T]]) -> T:
        """Runs `work` in one of the next commits, in the order of the calls."""
        if self._closed:
            raise StoreUnavailable("The store is closed.", "STORE_CLOSED")
        self._refuse_when_frozen()
        self._submitted += 1
        result: T = await self._jobs.hand_over(work)
        return result

    def _refuse_when_frozen(self) -> None:
        now_s = time.monotonic()
        if self._answered >= self._submitted:
            self._went_on_s = now_s
        elif now_s - self._went_on_s > STALLED_S:
            raise _not_stored(TimeoutError(f"the disk has not answered for {now_s - self._went_on_s:.0f} s"))

    def rest_again(self) -> None:
        """Much was read: what is spare is given back as after much that was written. From any thread."""
        self._commits = COMMITS_BEFORE_REST
        self._jobs.stir()

    async def close(self) -> None:
        """After everything that was submitted before."""
        if not self._closed:
            self._closed = True
            self._jobs.end()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        open_ = True
        while open_:
            batch, open_ = self._jobs.next_batch(MOST_JOBS)
            if batch:
                self._commits += 1
                self._tell(self._commit(batch))
            # What it wrote is not kept while it waits for more.
            del batch
        self._transaction.connection.close()

    def _rest(self) -> None:
        give_back_pages(self._transaction.connection)
        if self._commits >= COMMITS_BEFORE_REST:
            self._commits = 0
            self._on_rest()

    def _commit(self, batch: Sequence[WriteJob]) -> list[JobResult]:
        try:
            if self._broken:
                self._transaction = self._reopen()
                self._broken = False
        except (sqlite3.Error, OSError, TimerdError) as error:
            return _failed(batch, _not_stored(error))
        try:
            results = self._apply(batch)
        except sqlite3.Error as error:
            self._on_error(error)
            self._roll_back()
            if isinstance(error, _OWN_FAULTS):
                return self._one_by_one(batch, error)
            return _failed(batch, _not_stored(error))
        except Exception as error:  # noqa: BLE001 - the thread lives on, the waiters are told
            self._roll_back()
            _log.exception("A piece of work failed inside a commit of %d; nothing of it was stored.", len(batch))
            return self._one_by_one(batch, error)
        try:
            self._transaction.connection.execute("COMMIT")
        except sqlite3.Error as error:
            return _failed(batch, self._commit_failed(error))
        return [(job, result, None) for job, result in zip(batch, results, strict=True)]

    def _apply(self, batch: Sequence[WriteJob]) -> list[Any]:
        transaction = self._transaction
        transaction.connection.execute("BEGIN IMMEDIATE")
        transaction.begin()
        finishers = [job.work(transaction) for job in batch]
        transaction.flush()
        return [finish() for finish in finishers]

    def _one_by_one(self, batch: Sequence[WriteJob], error: BaseException) -> list[JobResult]:
        if len(batch) == 1:
            return _failed(batch, error)
        return [outcome for job in batch for outcome in self._commit([job])]

    def _commit_failed(self, error: sqlite3.Error) -> Exception:
        """Only a full disk is certain: then the frame that makes the transaction valid, its last one, was never
        written. SQLite has rolled back by itself."""
        self._roll_back()
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
            return _not_stored(error)
        return StoreUnknown(f"The store did not say whether the commit is on disk ({error}). Repeat the call.")

    def _roll_back(self) -> None:
        """Some errors have rolled back already; a connection that cannot is replaced."""
        connection = self._transaction.connection
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._transaction.forget()
        except sqlite3.Error:
            _log.exception("The transaction could not be rolled back; the database is opened again.")
            connection.close()
            self._broken = True

    def _tell(self, outcomes: list[JobResult]) -> None:
        self._answered += len(outcomes)
        self._went_on_s = time.monotonic()
        tell(outcomes)


def _failed(batch: Sequence[WriteJob], error: BaseException) -> list[JobResult]:
    return [(job, None, error) for job in batch]


def _not_stored(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"The store could not write ({error}); nothing was stored. Look at the disk's free space and health.",
        "STORE_UNAVAILABLE",
        retry_after_ms=1_000,
    )
