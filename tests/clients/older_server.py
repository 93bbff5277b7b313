"""A server of the HTTP port that takes requests by the messages it is given: those of now, or of a release that knows
less."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from timerd.model.errors import Invalid
from timerd.web.json_form import read_json

RELEASED = Path(__file__).parents[2] / "proto/released.binpb"


def released(name: str) -> type[Message]:
    """A message of `timerd.v1` as the last release has it."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(RELEASED.read_bytes()).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"timerd.v1.{name}"))


class Taken:
    """Where it is, and what it has taken."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.requests: list[Message] = []


@contextmanager
def taking(kind: type[Message]) -> Iterator[Taken]:
    """Each request is one of this kind, or is refused."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                taken.requests.append(asyncio.run(read_json(body, kind())))
            except Invalid as wrong:
                debug = {"domain": "timerd", "reason": wrong.reason}
                return self._answer(
                    400, {"code": "invalid_argument", "message": str(wrong), "details": [{"debug": debug}]}
                )
            scheduled = {"taskId": "1", "fireTime": "2031-01-01T09:00:00Z", "outcome": "ITEM_OUTCOME_STORED"}
            return self._answer(200, scheduled)

        def _answer(self, status: int, said: object) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taken = Taken(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield taken
    finally:
        server.shutdown()
        server.server_close()
