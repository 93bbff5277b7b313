"""Values <-> messages between instances, and the token by which an instance knows another of its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple

from timerd.core.partition import Asked, Offered
from timerd.core.protocol import AskToEnd, AskToMove, HolderAnswer
from timerd.model.errors import NotUnderstood
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome
from timerd.peer.v1 import peer_service_pb2 as pb

TOKEN_HEADER = "timerd-peer-token"
KNOWN = {
    Asked.WAITING: pb.KNOWN_WAITING,
    Asked.OPEN: pb.KNOWN_OPEN,
    Asked.ENDED: pb.KNOWN_ENDED,
    Asked.UNKNOWN: pb.KNOWN_UNKNOWN,
}
ASKED = {known: asked for asked, known in KNOWN.items()}
OFFER_ANSWERS = {
    None: pb.OFFER_ANSWER_NOT_HELD,
    Offered.ADOPTED: pb.OFFER_ANSWER_ADOPTED,
    Offered.ALREADY_HAVE: pb.OFFER_ANSWER_ALREADY_HAVE,
    Offered.BELOW_FLOOR: pb.OFFER_ANSWER_BELOW_FLOOR,
    Offered.NOT_NOW: pb.OFFER_ANSWER_NOT_NOW,
}
OFFERED = {answer: offered for offered, answer in OFFER_ANSWERS.items()}


class Holder(NamedTuple):
    """Who holds a partition, as its control row says. Token 0: by whatever token."""

    name: str
    address: str
    token: int


class HintedRows(NamedTuple):
    partition: Partition
    rows: RowGroup
    source: int


def peer_token(secret: bytes) -> str:
    """Of all instances of one cluster."""
    return blake2b(b"instance to instance", digest_size=32, key=secret, person=b"timerd.peer").hexdigest()


def is_token(shown: object, token: str) -> bool:
    return isinstance(shown, str) and compare_digest(shown.encode(), token.encode())


def partition_message(partition: Partition) -> pb.Partition:
    return pb.Partition(scope=partition.scope, bucket_start_ms=partition.bucket_ms, shard=partition.shard)


def partition_of(message: pb.Partition) -> Partition:
    return Partition(message.scope, message.bucket_start_ms, message.shard)


def holding_message(partition: Partition, holder: Holder) -> pb.Holding:
    return pb.Holding(partition=partition_message(partition), holder=holder.name, fencing_token=holder.token)


def key_message(key: RowKey) -> pb.RowKey:
    return pb.RowKey(position_ms=key.position_ms, digest=key.digest, version=key.version)


def key_of(message: pb.RowKey) -> RowKey:
    return RowKey(message.position_ms, message.digest, message.version)


def rows_message(hinted: HintedRows) -> pb.Rows:
    """Only what the rows use of their message's arena."""
    rows = hinted.rows.compact()
    return pb.Rows(
        partition=partition_message(hinted.partition),
        keys=rows.pack_keys(),
        payloads=bytes(rows.payloads),
        source=hinted.source,
    )


def rows_of(message: pb.Rows) -> HintedRows:
    rows = RowGroup.unpack(message.keys, message.payloads)
    return HintedRows(partition_of(message.partition), rows, message.source)


def hints_of(request: pb.HintRequest) -> list[HintedRows]:
    """Without rows in a layout that only a later release knows: an instance of that release finds them in the store."""
    found = []
    for message in request.rows:
        with suppress(NotUnderstood):
            found.append(rows_of(message))
    return found


def ended_message(ask: AskToEnd) -> pb.EndedRow:
    return pb.EndedRow(
        key=key_message(ask.key),
        outcome=ask.outcome.value,
        request=ask.request,
        lease_until_ms=ask.lease_until_ms,
    )


def asks_to_end(request: pb.AskToEndRequest) -> list[AskToEnd]:
    partition = partition_of(request.holding.partition)
    return [
        AskToEnd(partition, key_of(row.key), Outcome(row.outcome), row.request, row.lease_until_ms)
        for row in request.rows
    ]


def asks_to_move(request: pb.AskToMoveRequest) -> list[AskToMove]:
    partition = partition_of(request.holding.partition)
    return [AskToMove(partition, key_of(key)) for key in request.keys]


def answer_message(answer: HolderAnswer) -> pb.Answer:
    known = KNOWN[answer.asked] if answer.asked is not None else pb.KNOWN_UNSPECIFIED
    return pb.Answer(known=known, outcome=answer.outcome or 0, request=answer.request)


def answers_of(messages: Sequence[pb.Answer]) -> list[HolderAnswer]:
    return list(map(_answer_of, messages))


def _answer_of(message: pb.Answer) -> HolderAnswer:
    """What only a later release can say counts as no answer."""
    outcome = Outcome(message.outcome) if message.outcome else None
    return HolderAnswer(ASKED.get(message.known, Asked.SILENT), outcome, message.request)
