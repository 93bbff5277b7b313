"""The home instance of its workers (protocol section 6): they talk to it alone, whichever instance has the tasks.

It forwards deliveries as they come and keeps one thing of each: which instance its token came from, so that what is
said of it goes back there. A delivery whose sender is gone is orphaned. Orphaned deliveries are made known to every
instance, so that the one that takes over holds their tasks back; the one that still had them, behind another stream,
takes them as its own again; and an ack of one looks for the row wherever it is now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from timerd.core.dispatch import Action
from timerd.core.taken import QueueKey
from timerd.model.identity import ACK_TOKEN_BYTES
from timerd.model.progress import ProgressReport
from timerd.model.pushback import Pushback
from timerd.peer.v1 import relay_pb2 as peer_pb
from timerd.services.dispatch.delivery import Delivery
from timerd.services.work.credit_allocation import CreditAllocation
from timerd.services.work.home_worker import HomeWorker, Whereabouts, each_token, pick
from timerd.services.work.joint import Joint, OwnPart
from timerd.services.work.link import Link
from timerd.services.work.said import Said
from timerd.services.work.work_stream import Flow, Forwarded, WorkStream
from timerd.v1 import work_service_pb2 as pb


class Home:
    """Implements services.work.worker_frontend and services.work.link.Listener."""

    def __init__(self, delivery: Delivery, allocation: CreditAllocation) -> None:
        self._delivery = delivery
        self._allocation = allocation
        self._workers = allocation.workers
        self._links = allocation.links

    @property
    def server(self) -> str:
        return self._delivery.server

    # -- what a worker asks ---------------------------------------------------------------------------------------

    @property
    def flow(self) -> Flow:
        return self._delivery

    def join(self, stream: WorkStream, namespace: str, lease_ms: int, name: bytes = b"", called: str = "") -> None:
        self._delivery.join(stream, namespace, lease_ms, name, called)
        self._workers[stream.number] = HomeWorker(stream, namespace, lease_ms, name, called)

    def credit(self, stream: WorkStream, queue: str, tasks: int) -> None:
        worker = self._workers[stream.number]
        self._delivery.credit(stream, queue, tasks)
        self._allocation.serve(worker, QueueKey(worker.namespace, queue))

    def declare_pool(self, stream: WorkStream, name: str, queues: Sequence[str], slots: int) -> None:
        self._delivery.declare_pool(stream, name, queues, slots)

    def free_slots(self, stream: WorkStream, pool: str, slots: int) -> None:
        self._delivery.free_slots(stream, pool, slots)

    def may_serve(self, stream: WorkStream, queue: str, most: int) -> bool:
        return self._delivery.may_serve(stream, queue, most)

    def settle(
        self,
        stream: WorkStream,
        sequence: int,
        action: Action,
        tokens: bytes,
        delay_ms: int | None,
        error: str,
        throttle: Pushback | None = None,
    ) -> None:
        worker = self._workers[stream.number]
        if not worker.remote and action is not Action.RELEASE:
            self._delivery.settle(stream, sequence, action, tokens, delay_ms, error, throttle)
            return
        said = Said(action, delay_ms, error, throttle)
        places = worker.places(tokens)
        if worker.asked and Whereabouts.ORPHANED in places:
            # It is not known yet who has them.
            stream.owe(len(tokens) // ACK_TOKEN_BYTES)
            worker.later.append(partial(self._settle_owed, worker, sequence, tokens, said))
            return
        if action is Action.RELEASE:
            self._allocation.void(worker.number)
            for link in self._knowing(worker):
                places.setdefault(link, [])
            places.setdefault(Whereabouts.HERE, [])
        if Whereabouts.ORPHANED in places:
            places.setdefault(Whereabouts.HERE, []).extend(places.pop(Whereabouts.ORPHANED))
        joint = Joint(stream, sequence, len(places) or 1, len(tokens) // ACK_TOKEN_BYTES)
        for place, rows in (places or {Whereabouts.HERE: []}).items():
            self._settle_part(worker, joint, place, rows, pick(tokens, rows), said)

    def extend(self, stream: WorkStream, tokens: bytes) -> list[bytes]:
        worker = self._workers[stream.number]
        if not worker.remote:
            return self._delivery.extend(stream, tokens)
        lost: list[bytes] = []
        for place, rows in worker.places(tokens).items():
            part = pick(tokens, rows)
            if isinstance(place, Link):
                place.extend(worker.number, part, partial(self._extended, worker))
            elif place is Whereabouts.ORPHANED:
                self._extend_orphans(worker, part)
            else:
                lost = self._delivery.extend(stream, part)
        return lost

    def report(self, stream: WorkStream, token: bytes, said: ProgressReport) -> None:
        """Of an orphaned delivery nobody keeps it before its worker says it again."""
        worker = self._workers[stream.number]
        place = worker.remote.get(token)
        if not isinstance(place, Link):
            self._delivery.report(stream, token, said)
        elif self._delivery.keeps_progress():
            place.report(worker.number, token, said)

    def resume(self, stream: WorkStream, tokens: bytes) -> list[bytes]:
        """What is not open here may be open elsewhere, or may be a row of an instance that is gone."""
        worker = self._workers[stream.number]
        known = self._delivery.machine.open_among(worker.namespace, tokens)
        is_open = dict(zip(each_token(tokens), known, strict=True))
        lost = self._delivery.resumed(stream, tokens, known_only=True).lost
        worker.remote.update((token, Whereabouts.ORPHANED) for token, is_known in is_open.items() if not is_known)
        self._find_orphans(worker)
        return [token for token in lost if is_open[token]]

    def replaced(self, namespace: str, names: Sequence[bytes]) -> list[int]:
        """Whatever home the streams led to, and whichever instance sent what did not arrive there."""
        said = peer_pb.StreamsReplaced(namespace=namespace, streams=names)
        for link in self._links.values():
            link.send(peer_pb.RelayRequest(replaced=said))
        return self._delivery.replaced(namespace, names)

    def take_back(self, stream: WorkStream, tokens: bytes) -> None:
        worker = self._workers.get(stream.number)
        if worker is None:
            return
        for place, rows in worker.places(tokens).items():
            part = pick(tokens, rows)
            if isinstance(place, Link):
                place.settle(stream.number, worker.namespace, part, Said(Action.RELEASE), lambda _: None)
            else:
                self._delivery.take_back(stream, part)

    def closing(self, stream: WorkStream) -> None:
        self._allocation.slow(stream.number)
        self._delivery.closing(stream)

    def left(self, stream: WorkStream) -> None:
        worker = self._workers.pop(stream.number, None)
        self._delivery.left(stream)
        if worker is not None:
            self._allocation.left(worker, self._delivery.clock_ms())
            for link in self._knowing(worker):
                link.left(worker.number)
            self._delivery.settled()

    # -- what the peers say ---------------------------------------------------------------------------------------

    def up(self, link: Link) -> None:
        self._allocation.up(link)
        for worker in self._workers.values():
            if orphans := worker.orphans():
                self._make_known(worker, [link], orphans)

    def down(self, link: Link) -> None:
        self._allocation.down(link)
        for worker in list(self._workers.values()):
            self._orphan(worker, [token for token, where in worker.remote.items() if where is link])
        link.broken()

    def heard(self, link: Link, response: peer_pb.RelayResponse) -> None:
        kind = response.WhichOneof("response")
        if kind == "deliver":
            self._deliver(link, response.deliver)
        elif kind == "wanted":
            self._allocation.wanted(link, response.wanted)
        elif kind == "returned":
            self._allocation.returned(link, response.returned, self._delivery.clock_ms())
        elif kind == "interrupted":
            self._interrupted(response.interrupted)
        elif kind == "moved":
            worker = self._workers.get(response.moved.worker)
            if worker is not None:
                self._orphan(worker, each_token(response.moved.ack_tokens))
        elif kind is not None:
            link.answered(getattr(response, kind).sequence, response)

    def orphaned(self, worker: int, tokens: bytes) -> None:
        """This instance has handed the rows of these deliveries to another one."""
        if (found := self._workers.get(worker)) is not None:
            self._orphan(found, each_token(tokens))

    # -- deliveries -----------------------------------------------------------------------------------------------

    def _deliver(self, link: Link, said: peer_pb.RelayDeliver) -> None:
        """For a worker that is gone: the peer knows by now, or will in a moment."""
        worker = self._workers.get(said.worker)
        if worker is None:
            return
        self._allocation.used(link, worker, said.queue, said.tasks)
        tokens = said.response[said.tokens_at : said.tokens_at + said.tasks * ACK_TOKEN_BYTES]
        worker.remote.update(dict.fromkeys(each_token(tokens), link))
        worker.stream.push(Forwarded(said.response, partial(link.written, worker.number)), said.size_bytes)
        if worker.stream.block_if_full():
            self._delivery.machine.block(worker.number)
            self._allocation.slow(worker.number)

    def _interrupted(self, said: peer_pb.RelayInterrupt) -> None:
        worker = self._workers.get(said.worker)
        if worker is None:
            return
        if said.reason == pb.INTERRUPT_REASON_LOST:
            self._forget(worker, each_token(said.ack_tokens))
        interrupt = pb.Interrupt(ack_tokens=said.ack_tokens, reason=said.reason)
        worker.stream.push(pb.WorkResponse(interrupt=interrupt), len(said.ack_tokens))

    def _forget(self, worker: HomeWorker, tokens: Iterable[bytes]) -> None:
        for token in tokens:
            worker.remote.pop(token, None)
        self._delivery.settled()

    def _lose(self, worker: HomeWorker, tokens: Sequence[bytes]) -> None:
        """The worker has them no more, and hears of it."""
        if tokens:
            self._forget(worker, tokens)
            extended = pb.Extended(lost=b"".join(tokens))
            worker.stream.push(pb.WorkResponse(extended=extended), len(tokens) * ACK_TOKEN_BYTES)

    # -- settling -------------------------------------------------------------------------------------------------

    def _settle_part(
        self, worker: HomeWorker, joint: Joint, place: Link | Whereabouts, rows: list[int], tokens: bytes, said: Said
    ) -> None:
        if not isinstance(place, Link):
            self._settle_here(worker, joint, rows, tokens, said)
            return

        def answered(response: peer_pb.RelayResponse | None) -> None:
            if response is None:
                # The peer is gone: the holder that has the rows now is found by them.
                self._when_known(worker, partial(self._settle_here, worker, joint, rows, tokens, said))
                return
            settled = response.settled
            self._settled(worker, tokens, settled.refused)
            problem = settled.problem if settled.HasField("problem") else None
            joint.answer(rows, settled.refused, settled.states, problem)

        place.settle(worker.number, worker.namespace, tokens, said, answered)

    def _settle_here(self, worker: HomeWorker, joint: Joint, rows: list[int], tokens: bytes, said: Said) -> None:
        self._forget(worker, each_token(tokens))
        part = OwnPart(joint, worker.number, worker.namespace, rows)
        self._delivery.settle(part, 0, said.action, tokens, *said[1:])

    def _settle_owed(self, worker: HomeWorker, sequence: int, tokens: bytes, said: Said) -> None:
        """Unless its stream has ended meanwhile: its worker has heard no answer, and says it on the next one."""
        if worker.number not in self._workers:
            return
        worker.stream.disown(len(tokens) // ACK_TOKEN_BYTES)
        self.settle(worker.stream, sequence, said.action, tokens, *said[1:])

    def _settled(self, worker: HomeWorker, tokens: bytes, refused: Iterable[int]) -> None:
        """What was refused may be said again."""
        again = set(refused)
        self._forget(worker, (token for row, token in enumerate(each_token(tokens)) if row not in again))

    # -- extending ------------------------------------------------------------------------------------------------

    def _extended(self, worker: HomeWorker, response: peer_pb.RelayResponse | None) -> None:
        if response is not None:
            self._lose(worker, each_token(response.extended.lost))

    def _extend_orphans(self, worker: HomeWorker, tokens: bytes) -> None:
        """Lost is what all instances say is lost."""
        lost = set(self._delivery.extend(worker.stream, tokens))
        links = self._knowing(worker)
        missing = len(links)

        def answered(response: peer_pb.RelayResponse | None) -> None:
            nonlocal missing
            missing -= 1
            if response is not None:
                lost.intersection_update(each_token(response.extended.lost))
            if not missing:
                self._lose(worker, [token for token in lost if worker.remote.get(token) is Whereabouts.ORPHANED])

        for link in links:
            link.extend(worker.number, tokens, answered)
        if not links:
            self._lose(worker, sorted(lost))

    # -- orphaned deliveries --------------------------------------------------------------------------------------

    def _find_orphans(self, worker: HomeWorker) -> None:
        """An instance that has one open takes it. The others hold it back from the first word on: the instance that has
        taken over the row waits for that word no longer than the grace."""
        orphans = worker.orphans()
        links = list(self._links.values()) if orphans else []
        worker.asked += len(links)
        for link in links:
            link.open(worker.number, worker.namespace, worker.lease_ms, worker.name, worker.called)
            link.resume(worker.number, orphans, partial(self._found, worker, link), holds_unknown=True)
        if not links and orphans:
            self._make_known(worker, [], orphans)

    def _found(self, worker: HomeWorker, link: Link, response: peer_pb.RelayResponse | None) -> None:
        self._held(worker, link, response)
        worker.asked -= 1
        if not worker.asked:
            if orphans := worker.orphans():
                self._make_known(worker, list(self._links.values()), orphans)
            later, worker.later = worker.later, []
            for each in later:
                each()

    def _orphan(self, worker: HomeWorker, tokens: Sequence[bytes]) -> None:
        if tokens:
            worker.remote.update(dict.fromkeys(tokens, Whereabouts.ORPHANED))
            self._make_known(worker, list(self._links.values()), b"".join(tokens))

    def _make_known(self, worker: HomeWorker, links: Iterable[Link], orphans: bytes) -> None:
        """Their tasks are held back by the next holder."""
        if worker.number not in self._workers:
            return
        self._delivery.resumed(worker.stream, orphans, known_only=False)
        for link in links:
            link.open(worker.number, worker.namespace, worker.lease_ms, worker.name, worker.called)
            answered = partial(self._held, worker, link)
            link.resume(worker.number, orphans, answered, holds_unknown=True)

    def _held(self, worker: HomeWorker, link: Link, response: peer_pb.RelayResponse | None) -> None:
        """An instance that had them behind a broken stream has them on this one: nobody else need hold them back."""
        adopted = self._adopted(worker, link, response)
        if adopted:
            self._delivery.release(worker.namespace, adopted)
            for other in self._links.values():
                if other is not link:
                    release = peer_pb.RelayRelease(worker=worker.number, ack_tokens=adopted)
                    other.send(peer_pb.RelayRequest(release=release))

    def _adopted(self, worker: HomeWorker, link: Link, response: peer_pb.RelayResponse | None) -> bytes:
        if response is None:
            return b""
        adopted = [t for t in each_token(response.resumed.adopted) if worker.remote.get(t) is Whereabouts.ORPHANED]
        worker.remote.update(dict.fromkeys(adopted, link))
        self._lose(worker, each_token(response.resumed.lost))
        return b"".join(adopted)

    def _when_known(self, worker: HomeWorker, work: Callable[[], None]) -> None:
        if worker.asked:
            worker.later.append(work)
        else:
            work()

    def _knowing(self, worker: HomeWorker) -> list[Link]:
        return [link for link in self._links.values() if link.knows(worker.number)]
