"""The Work stream of a worker: credit and settlements out, deliveries in, over as many connections as it takes.

Rules that the server relies on: the first message is Open, with the tokens of everything in hand (also of what ended
here without a confirmation), so that a broken stream costs no second delivery, and with the names of the streams before
it, so that what was sent on them and never came costs no attempt; unconfirmed settlements follow at once;
the credit of a new stream is what the lanes have free, so credit is never counted twice. After GoAway nothing new is
asked for; when what is in hand has ended, or the server leaves, the worker connects again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Mapping

from timerd.sdk.transport import Backoff, Duplex
from timerd.sdk.values import DeliveredBatch, InterruptReason, MsClock, TimerdError, is_hopeless
from timerd.sdk.working.accounts import Account, accounts_of, declared
from timerd.sdk.working.dispositions import ACK, RELEASE, Disposition
from timerd.sdk.working.lanes import Lane
from timerd.sdk.working.leases import Hold, InHand
from timerd.sdk.working.loop_watch import LoopWatch
from timerd.sdk.working.settling import Settler
from timerd.sdk.working.stall_reports import StallReports
from timerd.sdk.working.startup_line import startup_line
from timerd.v1 import work_service_pb2 as pb

log = logging.getLogger("timerd.worker")
OpenWorkStream = Callable[[Callable[[pb.WorkResponse], None]], Duplex[pb.WorkResponse]]
_SETTLE_AGAIN_S = 0.5
_FLUSH_EVERY_S = 0.002
# Acks that nobody is known to wait for: a message of them costs the server as much as a hundred more tasks in it.
_ACKS_EVERY_S = 0.02
# Of the credit of a lane: so much that came back does not wait, nor does any where the server has less left.
_WORTH_CREDIT = 1 / 4
# Of the credit of a lane: where so much waits for handlers, what came back can wait too.
_WORTH_WAITING = 1 / 2
_CONFIRM_S = 10.0
# Keeps a message of them below 1 MiB.
_MOST_REPORTS = 500
_NAME_BYTES = 16
# More than a server takes at one time are not named: it has forgotten them.
_MOST_REPLACED = 16
# How much longer each wait for the next try is. A server that was killed is back within a second, and then keeps for
# another one what its workers had: twice as long each time, a worker may come when that is over.
_TRIES_FACTOR = 1.5


class WorkStream:
    """The stream of one worker: it hosts all of its lanes."""

    def __init__(
        self,
        open_stream: OpenWorkStream,
        lanes: Mapping[str, Lane],
        namespace: str,
        name: str,
        lease_ms: int,
        clock: MsClock,
    ) -> None:
        self.in_hand = InHand()
        self._open_stream = open_stream
        self._lanes = lanes
        self._accounts = accounts_of(lanes)
        self._pools = declared(set(self._accounts.values()))
        self._namespace = namespace
        self._name = name
        self._lease_ms = lease_ms
        self._clock = clock
        self._settler = Settler()
        self._stalls = StallReports(self.in_hand, self._send_reports)
        self._credits: Counter[Account] = Counter()
        self._stream: Duplex[pb.WorkResponse] | None = None
        self._backoff = Backoff(factor=_TRIES_FACTOR)
        self._flush_timer: asyncio.TimerHandle | None = None
        # When it is due, and when it was last done.
        self._flush_at_s = self._flushed_s = 0.0
        # Of the streams since the last one that was answered, this one last: a server may have sent on any of them.
        self._names: list[bytes] = []
        self._takes_new = True
        # A RELEASE voids the credit of the stream: it is given anew when the server has taken that in.
        self._is_credit_void = False
        self._stopping = False
        # Confirmed: the server sends nothing new on this stream.
        self._parted: asyncio.Event | None = None
        # Why this worker cannot be served.
        self._refused: TimerdError | None = None
        self._heard_s = 0.0
        self._has_greeted = False
        self._is_away = False
        self._was_open = False
        self._confirm_timer: asyncio.TimerHandle | None = None
        self._confirm_timed_out = False
        for lane in lanes.values():
            lane.start(self)

    async def run(self) -> None:
        """Until `stop`; raises where the server refuses this worker for good."""
        extender = asyncio.create_task(self._extend_forever())
        watch = LoopWatch(lambda: self._lease_ms / 1000)
        watch.start()
        try:
            while not self._is_finished():
                self._note_end(await self._run_stream())
                if not self._is_finished():
                    await asyncio.sleep(self._backoff.next_s())
        finally:
            watch.stop()
            self._stalls.stop()
            extender.cancel()
            if self._confirm_timer is not None:
                self._confirm_timer.cancel()
            if self._confirm_timed_out:
                log.warning("The server did not confirm all settlements; those tasks will be delivered again.")
            await asyncio.gather(extender, return_exceptions=True)

    def stop(self) -> None:
        """What has begun is finished; what has not, or still comes, is handed back. `run` ends when all is
        confirmed."""
        if self._stopping:
            return
        self._stopping = True
        self._takes_new = False
        for lane in self._lanes.values():
            lane.hand_back()
        if self._stream is not None:
            message, self._parted = self._settler.goodbye()
            self._stream.send(message)
        self._flush_later()

    async def abort(self) -> None:
        """Handlers that still run are cancelled; what they had is delivered again."""
        await asyncio.gather(*(lane.abort() for lane in self._lanes.values()))

    def settle(self, disposition: Disposition, tokens: bytes) -> None:
        if disposition.action == pb.SETTLE_ACTION_NACK:
            self._report(tokens)
        self._settler.add(disposition, tokens)
        self._is_credit_void |= disposition is RELEASE
        self._flush_later(_ACKS_EVERY_S if disposition is ACK and self._takes_new else _FLUSH_EVERY_S)

    def extend(self) -> None:
        """What is in hand is still being worked on."""
        if self._stream is not None and (tokens := self.in_hand.tokens()):
            self._stream.send(pb.WorkRequest(extend=pb.Extend(ack_tokens=tokens)).SerializeToString())
            self._report(tokens)

    def _report(self, tokens: bytes) -> None:
        """What handlers have said of these. It is said again each time: another instance may have to keep it by now."""
        if self._stream is not None:
            self._send_reports(self.in_hand.reports(tokens, self._settler.token_bytes))

    def _send_reports(self, reports: list[pb.ProgressReport]) -> bool:
        if self._stream is None:
            return False
        for at in range(0, len(reports), _MOST_REPORTS):
            extend = pb.Extend(reports=reports[at : at + _MOST_REPORTS])
            self._stream.send(pb.WorkRequest(extend=extend).SerializeToString())
        return True

    async def sync(self) -> None:
        """Until the server has taken in all that was said here, and what it had sent by then is here."""
        self._flush()
        message, confirmed = self._settler.ping()
        if self._stream is not None:
            self._stream.send(message)
        await confirmed.wait()

    def running(self) -> set[asyncio.Task[None]]:
        """The handlers that have not ended."""
        return {task for lane in self._lanes.values() for task in lane.running()}

    def end(self, hold: Hold) -> None:
        self.in_hand.remove(hold)
        self._credit(self._accounts[hold.batch.queue], len(hold))
        if hold.batch.is_awaited:
            self._flush_later()

    def resized(self, queue: str, change: int) -> None:
        """The lane wants so many more, or fewer of what came back."""
        self._credit(self._accounts[queue], change)

    def _credit(self, account: Account, tasks: int) -> None:
        self._credits[account] += tasks
        self._flush_later(_ACKS_EVERY_S if self._is_supplied(account) else _FLUSH_EVERY_S)

    def _is_supplied(self, account: Account) -> bool:
        """Both sides can go on without what came back here: the server has credit left, or the handlers have enough
        that waits for them."""
        if not self._takes_new:
            return False
        credit = account.credit
        if account.waiting >= _WORTH_WAITING * credit:
            return True
        back, quarter = self._credits[account], _WORTH_CREDIT * credit
        return back < quarter <= credit - account.held - back

    def _is_finished(self) -> bool:
        return self._stopping and not self.in_hand and (self._settler.is_idle or self._confirm_timed_out)

    async def _run_stream(self) -> TimerdError | None:
        self._takes_new = not self._stopping
        self._was_open = False
        self._stream = self._open_stream(self._on_response)
        self._stream.send(self._open_message())
        for message in self._settler.unconfirmed():
            self._stream.send(message)
        self._credits = Counter({each: tasks for each, tasks in self._uncredited().items() if tasks < 0})
        self._flush_later()
        try:
            ended = await self._stream.run()
            return self._refused or ended
        finally:
            self._stream = self._parted = None

    def _open_message(self) -> bytes:
        self._names = [*self._names[-_MOST_REPLACED:], secrets.token_bytes(_NAME_BYTES)]
        free = self._uncredited() if self._takes_new else {}
        opening = pb.Open(
            namespace=self._namespace,
            worker=self._name,
            # Of a pool when the server has said that it knows what one is.
            credits=[each.credited(tasks) for each, tasks in free.items() if tasks > 0 and each.pool is None],
            lease_ms=self._lease_ms,
            merges_confirmed=True,
            resume=self.in_hand.tokens() + self._settler.tokens(),
            stream=self._names[-1],
            replaces=self._names[:-1],
            pools=self._pools,
        )
        return pb.WorkRequest(open=opening).SerializeToString()

    def _uncredited(self) -> dict[Account, int]:
        """By how much the server's credit is to grow where it has none left, and all that it has sent is here. Where
        more is here than a lane wants by now it is less than nothing: so much of what ends frees none."""
        return {each: each.credit - each.held for each in self._accounts.values()}

    def _note_end(self, ended: TimerdError | None) -> None:
        if ended is None or self._is_finished():
            return
        if is_hopeless(ended, was_open=self._was_open):
            raise ended
        # Once per outage is enough for the eye.
        log.log(logging.DEBUG if self._is_away else logging.WARNING, "No work stream (%s); connecting again.", ended)
        self._is_away = True

    def _on_response(self, response: pb.WorkResponse) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        kind = response.WhichOneof("response")
        if kind == "deliver":
            self._on_deliver(response.deliver)
        elif kind == "confirmed":
            self._on_confirmed(response.confirmed)
        elif kind == "opened":
            self._on_opened(response.opened)
        elif kind == "extended":
            self._on_interrupt(response.extended.lost, InterruptReason.LOST)
        elif kind == "interrupt":
            self._on_interrupt(response.interrupt.ack_tokens, InterruptReason(response.interrupt.reason))
        elif kind == "go_away":
            log.info("The server is going away (%s); finishing what is in hand.", response.go_away.reason)
            self._takes_new = False
            self._flush_later()

    def _on_opened(self, opened: pb.Opened) -> None:
        self._backoff.reset()
        self._names = self._names[-1:]
        self._stalls.repeat()
        if self._is_away or not self._has_greeted:
            log.info("%s", startup_line(self._name, opened.server, self._namespace, self._lanes.values()))
        self._has_greeted = True
        self._is_away = False
        self._was_open = True
        self._lease_ms = opened.lease_ms or self._lease_ms
        self._settler.token_bytes = opened.ack_token_bytes or self._settler.token_bytes
        if opened.lost:
            self._on_interrupt(opened.lost, InterruptReason.LOST)
        if self._pools:
            self._open_pools(opened)

    def _open_pools(self, opened: pb.Opened) -> None:
        if not opened.knows_pools:
            self._refused = TimerdError(
                f"The server {opened.server!r} is of a release that knows no pools: upgrade it, or register the "
                "handlers with `worker.on`.",
                code="UNIMPLEMENTED",
            )
            if self._stream is not None:
                self._stream.close()
            return
        free = self._uncredited()
        for account in free:
            if account.pool is not None:
                self._credits[account] = free[account]
        self._flush_later()

    def _on_interrupt(self, tokens: bytes, reason: InterruptReason) -> None:
        """A reason that only a later server knows ends nothing."""
        token_bytes = self._settler.token_bytes
        if reason is InterruptReason.LOST:
            self.in_hand.mark_lost(tokens, token_bytes)
        if reason and self.in_hand.interrupt(tokens, token_bytes, reason):
            for lane in self._lanes.values():
                lane.interrupt()

    def _on_deliver(self, message: pb.Deliver) -> None:
        lane = self._lanes.get(message.queue)
        if self._stopping:
            self.settle(RELEASE, message.ack_tokens)
            return
        if lane is None:
            log.error("The server sent tasks of the queue %r, which this worker did not ask for.", message.queue)
            return
        batch = DeliveredBatch(message, self.in_hand.lost, self._clock(), self.in_hand.report)
        lane.accept(batch)
        if batch.stalls_s is not None:
            self._stalls.watch()

    def _on_confirmed(self, confirmed: pb.SettleConfirmed) -> None:
        if self._settler.confirm(confirmed):
            asyncio.get_running_loop().call_later(_SETTLE_AGAIN_S, self._flush_later)
        elif not self._takes_new:
            self._flush_later()
        if self._is_credit_void and not self._settler.is_releasing:
            self._is_credit_void = False
            self._credits = Counter(self._uncredited())
            self._flush_later()

    def _flush_later(self, every_s: float = _FLUSH_EVERY_S) -> None:
        """Everything of one loop turn leaves together: settlements first, then the credit that they free. Under load,
        of `every_s`."""
        earliest_s = self._flushed_s + every_s
        if self._flush_timer is not None and self._flush_at_s <= earliest_s:
            return
        loop = asyncio.get_running_loop()
        at_s = max(loop.time(), earliest_s)
        if self._flush_timer is not None:
            if self._flush_at_s <= at_s:
                return
            self._flush_timer.cancel()
        self._flush_at_s, self._flush_timer = at_s, loop.call_at(at_s, self._flush)

    def _flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self._flushed_s = asyncio.get_running_loop().time()
        self._watch_the_end()
        if self._stream is None:
            return
        messages = self._settler.take_new()
        if credits := self._take_credits():
            if messages:
                # Joined encodings of one field are merged by the reader; what is kept to be sent again has no credit.
                messages[-1] += pb.WorkRequest(settle=pb.Settle(credits=credits)).SerializeToString()
            else:
                messages = [pb.WorkRequest(credit=credit).SerializeToString() for credit in credits]
        for message in messages:
            self._stream.send(message)
        if self._takes_new:
            return
        if not self.in_hand and self._settler.is_idle and (self._parted is None or self._parted.is_set()):
            # Stopping, or the server is going away: nothing is left to say on this stream.
            self._stream.close()

    def _take_credits(self) -> list[pb.Credit]:
        """What the server may send more. Before it has answered it knows no pool."""
        if not self._takes_new or self._is_credit_void or (self._pools and not self._was_open):
            return []
        credits = [account.credited(tasks) for account, tasks in self._credits.items() if tasks > 0]
        self._credits = Counter({account: tasks for account, tasks in self._credits.items() if tasks < 0})
        return credits

    def _watch_the_end(self) -> None:
        """All handlers have ended, only confirmations are missing: a server that is gone is not waited for."""
        if self._stopping and not self.in_hand and self._confirm_timer is None:
            self._confirm_timer = asyncio.get_running_loop().call_later(_CONFIRM_S, self._end_confirming)

    def _end_confirming(self) -> None:
        self._confirm_timed_out = True
        if self._stream is not None:
            self._stream.close()

    async def _extend_forever(self) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            if self._stream is None:
                continue
            self.extend()
            silent_s = asyncio.get_running_loop().time() - self._heard_s
            if self._settler.unconfirmed() and silent_s > self._lease_ms / 1000:
                # A connection that swallows settlements is dead, though nobody said so.
                self._stream.close()
