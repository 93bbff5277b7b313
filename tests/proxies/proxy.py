"""nginx and haproxy as processes on a loopback port, with what docs/operate/proxies.md says that they need."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from tests.certificates import Pair
from timerd.demo.processes import free_port

PROGRAMS = ("nginx", "haproxy")
WORK_SERVICE = "/timerd.v1.WorkService/"
_START_S = 30.0
_NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} {kind}http2;
    {certificate}
    client_max_body_size {most};
    client_body_timeout {idle};
    location / {{
      grpc_pass grpc://{upstream};
      grpc_read_timeout {idle};
      grpc_send_timeout {idle};
    }}
    {refused}
  }}
}}
"""
_HAPROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client {idle}
  timeout server {idle}
frontend callers
  bind 127.0.0.1:{port} {kind}
  {refused}
  default_backend timerd
backend timerd
  server one {upstream} proto h2
"""


# What workers are answered: as by a web server, and in the words of gRPC.
FORBIDDEN = {
    "nginx": f"location {WORK_SERVICE} {{ return 403; }}",
    "haproxy": f"http-request deny if {{ path_beg {WORK_SERVICE} }}",
}
FORBIDDEN_BY_GRPC = (
    f"location {WORK_SERVICE} {{ default_type application/grpc; add_header grpc-status 7 always; "
    'add_header grpc-message "no workers here" always; return 204; }'
)


class Wanted(NamedTuple):
    """`idle`: how long it leaves a stream open on which nothing is said; `pair`: it speaks TLS; `refusal`: a
    line of its configuration; `most`: bytes of a stream of nginx, 0 for no bound."""

    program: str
    idle: str = "5m"
    pair: Pair | None = None
    refusal: str = ""
    most: str = "0"


class Proxy:
    """In front of the timerd at `upstream`. Its port is its own."""

    def __init__(self, folder: Path, upstream: str, wanted: Wanted) -> None:
        self.port = free_port()
        self._folder = folder
        self._upstream = upstream
        self._wanted = wanted
        self._log = folder / f"{wanted.program}.log"

    def __enter__(self) -> Proxy:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    @property
    def address(self) -> str:
        return f"{'localhost' if self._wanted.pair else '127.0.0.1'}:{self.port}"

    def start(self) -> None:
        """Returns when it listens."""
        command = self._nginx() if self._wanted.program == "nginx" else self._haproxy()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end_s = time.monotonic() + _START_S
        while not _listens(self.port):
            assert self._process.poll() is None, self._log.read_text(errors="replace")
            assert time.monotonic() < end_s, f"{self._wanted.program} does not listen"
            time.sleep(0.02)

    def _nginx(self) -> list[str]:
        pair, file = self._wanted.pair, self._folder / "nginx.conf"
        certificate = f"ssl_certificate {pair.certificate}; ssl_certificate_key {pair.key};" if pair else ""
        said = self._filled(_NGINX, "ssl " if pair else "", certificate=certificate)
        # As root it would give its files to nobody.
        file.write_text(("user root;" if os.getuid() == 0 else "") + said)
        return [_path("nginx"), "-e", "stderr", "-p", str(self._folder), "-c", str(file)]

    def _haproxy(self) -> list[str]:
        pair, file = self._wanted.pair, self._folder / "haproxy.cfg"
        kind = "proto h2"
        if pair is not None:
            joined = self._folder / "haproxy.pem"
            joined.write_bytes(pair.certificate.read_bytes() + pair.key.read_bytes())
            kind = f"ssl crt {joined} alpn h2"
        file.write_text(self._filled(_HAPROXY, kind))
        return [_path("haproxy"), "-db", "-f", str(file)]

    def _filled(self, text: str, kind: str, **more: str) -> str:
        idle, most = self._wanted.idle, self._wanted.most
        mine = {"folder": self._folder, "port": self.port, "upstream": self._upstream, "idle": idle, "most": most}
        return text.format(kind=kind, refused=self._wanted.refusal, **mine, **more)


def is_there(program: str) -> bool:
    return _path(program) != program


def _path(program: str) -> str:
    """Debian has them where only root looks."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or program


def _listens(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0
