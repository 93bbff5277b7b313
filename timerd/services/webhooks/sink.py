"""The sink of one target: each delivery is a request, and its answer settles it.

It is a worker like others, so leases, retries, expiry, cancels and the backlog are those of every queue. Its credit is
what the breaker allows: what waits for a target in trouble is not taken in hand, and can go on waiting for days.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from timerd.core.dispatch import NOT_LISTED, Action, Assignment, InterruptReason
from timerd.core.sinks.breaker import FIRST_PAUSE_MS, Breaker, TargetState
from timerd.core.sinks.trouble import TargetTrouble, trouble_of
from timerd.core.taken import QueueKey
from timerd.core.webhooks.answers import Consequence, judge_answer
from timerd.model.identity import ACK_TOKEN_BYTES
from timerd.model.pushback import MOST_AFTER_MS, Pushback
from timerd.model.webhooks import ERROR_BYTES, HttpAnswer, NoAnswer, WebhookTarget
from timerd.ports import Poster
from timerd.services.background import begin, note
from timerd.services.calls.results import KeptResults
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.ports import Confirmation, Sent
from timerd.services.dispatch.tokens import ack_tokens
from timerd.services.sinks.target_credit import TargetCredit, loop_ms
from timerd.services.webhooks.requests import WebhookRequest, request_of
from timerd.services.webhooks.results import READ_BYTES, keep_durably, result_of
from timerd.services.webhooks.secret_file import SecretFile

LEASE_MS = 30_000
EXTEND_EVERY_S = 8.0
_log = logging.getLogger("timerd.webhooks")


class WebhookSink:
    """Implements services.dispatch.ports.Sink. `now_ms` is the wall clock; pauses go by the loop's own, which is never
    stepped. `outcomes` counts what has become of requests."""

    counts_as_worker = False
    takes_backlog = True

    def __init__(
        self,
        delivery: Delivery,
        target: WebhookTarget,
        poster: Poster,
        secrets: SecretFile,
        now_ms: Callable[[], int],
        results: KeptResults,
    ) -> None:
        self.number = delivery.next_number()
        self.namespace = target.namespace
        self.closing = False
        self.target = target
        self.secrets = secrets
        self.outcomes: Counter[str] = Counter()
        self._delivery = delivery
        self._poster = poster
        self._now_ms = now_ms
        self._results = results
        self._breaker = Breaker(target.in_flight)
        # Ack token -> the request that is open.
        self._open: dict[bytes, asyncio.Task[None]] = {}
        self._credit = TargetCredit(self, self.queue, delivery, self._breaker, self._open.__len__)
        self._sequence = 0
        self._extending: asyncio.Task[None] | None = None
        self._warned = self._why = ""

    @property
    def queue(self) -> QueueKey:
        return QueueKey(self.target.namespace, self.target.queue)

    @property
    def state(self) -> TargetState:
        return self._breaker.state

    def trouble(self) -> TargetTrouble | None:
        """None: it takes requests."""
        return trouble_of("webhook", self._breaker, self._why, loop_ms())

    def join(self) -> None:
        self._delivery.join(self, self.namespace, LEASE_MS, called="webhook")
        self._credit.balance()

    async def close(self) -> None:
        """Requests that are open are given up: what they did is unknown, and their tasks come again when their leases
        are over."""
        self.closing = True
        self._credit.close()
        tasks = [*self._open.values(), *([self._extending] if self._extending is not None else ())]
        for each in tasks:
            each.cancel()
        for each in tasks:
            with suppress(asyncio.CancelledError):
                await each
        await self._poster.close()

    # -- what dispatch asks ---------------------------------------------------------------------------------------

    def deliver(self, assignment: Assignment) -> Sent:
        taken, secret = assignment.taken, self._delivery.secret
        tokens = ack_tokens(taken, secret)
        most_ms = min(self.target.timeout_ms, assignment.attempt_timeout_ms)
        sent_bytes = 0
        for row in range(len(taken)):
            deadline_ms = taken.rows.deadline_ms(row)
            timeout_ms = max(1, min(most_ms, deadline_ms - assignment.sent_ms)) if deadline_ms else most_ms
            # A target says no progress before it answers.
            timeout_ms = min(timeout_ms, taken.rows.template_of(row).stall_timeout_ms or timeout_ms)
            request = request_of(taken, row, secret)
            token = tokens[row * ACK_TOKEN_BYTES : (row + 1) * ACK_TOKEN_BYTES]
            self._open[token] = begin(self._work(token, request, timeout_ms), "webhooks")
            sent_bytes += len(request.body)
        self._credit.used(len(taken))
        if self._extending is None or self._extending.done():
            self._extending = begin(self._extend(), "webhooks")
        return Sent(len(taken), sent_bytes)

    def block_if_full(self) -> bool:
        return False

    def owe(self, tokens: int) -> None:
        """What is not confirmed comes again."""

    def confirm(self, confirmation: Confirmation) -> None:
        """What is not confirmed comes again. A limit that the queue does not list is said to who reads the log."""
        unlisted = [each.sentence for each in confirmation.refused.values() if each.reason == NOT_LISTED]
        if unlisted and unlisted[0] != self._warned:
            self._warned = unlisted[0]
            _log.warning("the webhook target of %s/%s: %s", self.namespace, self.target.queue, self._warned)

    def interrupt(self, tokens: bytes, reason: InterruptReason) -> None:
        """A request that is open goes on: what it has done by then nobody could take back."""

    def go_away(self) -> None:
        """Requests that are open go on to their end."""

    # -- requests -------------------------------------------------------------------------------------------------

    async def _extend(self) -> None:
        while self._open:
            await asyncio.sleep(EXTEND_EVERY_S)
            self._delivery.extend(self, b"".join(self._open))

    async def _work(self, token: bytes, request: WebhookRequest, timeout_ms: int) -> None:
        try:
            answer = await self._answer(request, timeout_ms)
            judged = judge_answer(answer, self._now_ms(), self.target.reject_statuses)
            if request.keep_ms and judged.action is Action.ACK and isinstance(answer, HttpAnswer):
                await self._keep(token, request, answer)
        finally:
            del self._open[token]
        self.outcomes[_counted(judged)] += 1
        self._hear(judged)
        # First: what goes back must not come again at once.
        self._credit.balance()
        self._settle(token, judged)

    async def _answer(self, request: WebhookRequest, timeout_ms: int) -> HttpAnswer | NoAnswer:
        headers = request.signed(self.secrets.keys, self._now_ms() // 1_000)
        try:
            most_bytes = READ_BYTES if request.keep_ms else ERROR_BYTES
            return await self._poster.post(headers, request.body, timeout_ms, most_bytes)
        except NoAnswer as error:
            return error
        except Exception as error:  # noqa: BLE001 - noted, and tried again
            note("webhooks", error, f"a task of the queue {self.target.queue!r} is posted again")
            return NoAnswer(f"No answer: {type(error).__name__}.")

    async def _keep(self, token: bytes, request: WebhookRequest, answer: HttpAnswer) -> None:
        """The result, THEN the end of the task."""
        result = result_of(answer)
        if result is not None:
            await keep_durably(self._results, self.target.namespace, token, result, request.keep_ms)

    def _settle(self, token: bytes, judged: Consequence) -> None:
        if judged.action is Action.RELEASE and not self._breaker.is_throttled_too_long(loop_ms()):
            self._throttled(token, judged)
            return
        self._sequence += 1
        action = Action.NACK if judged.action is Action.RELEASE else judged.action
        self._delivery.settle(self, self._sequence, action, token, judged.wait_ms, judged.error)

    def _throttled(self, token: bytes, judged: Consequence) -> None:
        """As of a handler: all that the limit holds waits, also for workers."""
        self._sequence += 1
        after_ms = min(max(judged.wait_ms or 0, FIRST_PAUSE_MS), MOST_AFTER_MS)
        throttle = Pushback(self.target.limit, after_ms)
        self._delivery.settle(self, self._sequence, Action.NACK, token, None, judged.error, throttle)

    # -- the target -----------------------------------------------------------------------------------------------

    def _hear(self, judged: Consequence) -> None:
        before, self._why = self._breaker.state, judged.error
        self._breaker.heard(judged.health, judged.wait_ms, loop_ms())
        state = self._breaker.state
        if state is before:
            return
        where = f"{self.target.namespace}/{self.target.queue}"
        if state is TargetState.OK:
            _log.info("the webhook target of %s takes requests again", where)
        elif state is TargetState.PAUSED:
            _log.error("the webhook target of %s says that it is gone: nothing is sent until a restart", where)
        else:
            does = "fails" if state is TargetState.OPEN else "has asked for a pause"
            _log.warning(
                "the webhook target of %s %s, so its tasks wait, then one is tried: %s", where, does, judged.error
            )


def _counted(judged: Consequence) -> str:
    """As a label of a metric."""
    throttled = judged.action is Action.RELEASE
    return "throttled" if throttled else {Action.ACK: "acked", Action.REJECT: "rejected"}.get(judged.action, "failed")
