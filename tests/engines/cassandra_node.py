"""One Cassandra node as a plain JVM process on a loopback address, for machines without a container engine.

It needs JDK 17 and Maven; the jars of the published artifact are fetched once into a cache outside of the tree. The
flags open what Cassandra reaches into; without the attach flag and the agent it cannot measure its own objects.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

VERSION = "5.0.8"
PORT, STORAGE_PORT = 9042, 7000
DATACENTER = "datacenter1"
HEAP = "1g"
START_TIMEOUT_S = 300
_JAVA_HOMES = (
    "/usr/lib/jvm/java-17-openjdk-amd64",
    "/usr/lib/jvm/java-17-openjdk-arm64",
    "/usr/lib/jvm/java-17-openjdk",
)
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>timerd.tests</groupId><artifactId>cassandra-jars</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId><version>{VERSION}</version>
  </dependency></dependencies>
</project>
"""
# 8 MiB segments: a mutation may have 4 MiB, less than production's 16, so that what fits here fits there.
_YAML = """cluster_name: timerd-tests
num_tokens: 4
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: {address}
rpc_address: {address}
storage_port: {storage_port}
native_transport_port: {port}
start_native_transport: true
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "{seed}"
data_file_directories: ["{home}/data"]
commitlog_directory: {home}/commitlog
saved_caches_directory: {home}/saved_caches
hints_directory: {home}/hints
cdc_raw_directory: {home}/cdc_raw
commitlog_sync: periodic
commitlog_sync_period: 10s
commitlog_segment_size: 8MiB
auto_snapshot: false
memtable_allocation_type: heap_buffers
disk_access_mode: standard
concurrent_reads: 8
concurrent_writes: 8
"""
_LOGBACK = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="out"/></root>
</configuration>
"""
_EXPORTS = (
    "java.base/jdk.internal.misc",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.management/com.sun.jmx.remote.security",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
    "jdk.attach/sun.tools.attach",
    "jdk.compiler/com.sun.tools.javac.file",
)
_JAVA = ("lang", "lang.module", "lang.reflect", "io", "nio", "util")
_INTERNAL = ("loader", "ref", "reflect", "math", "module", "util.jar")
_OPENS_IN_BASE = (*(f"java.{name}" for name in _JAVA), *(f"jdk.internal.{name}" for name in _INTERNAL), "sun.nio.ch")
_OPENS = (
    *(f"java.base/{name}" for name in _OPENS_IN_BASE),
    "jdk.management/com.sun.management.internal",
    "jdk.compiler/com.sun.tools.javac",
)


class NodeFailed(Exception):
    """Says why there is no node, and where its log is."""


def java_home() -> Path | None:
    """Of a JDK 17: Cassandra 5 refuses newer ones."""
    named = [os.environ.get("TIMERD_TEST_JAVA_HOME", ""), *_JAVA_HOMES]
    return next((Path(home) for home in named if home and (Path(home) / "bin" / "java").exists()), None)


def missing_tools() -> str:
    """What a node from jars would need here; empty: nothing."""
    if java_home() is None:
        return "no JDK 17 (name one in TIMERD_TEST_JAVA_HOME)"
    return "" if has_jars(_cache()) or shutil.which("mvn") else "no Maven (mvn) on the path"


def has_jars(folder: Path) -> bool:
    return any(folder.glob("lib/jamm-*.jar"))


def _cache() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "timerd-tests" / f"cassandra-{VERSION}"


def fetch_jars() -> Path:
    """The folder with the jars; fetched at the first use."""
    cache = _cache()
    if has_jars(cache):
        return cache / "lib"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "pom.xml").write_text(_POM)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime"]
    environment = {**os.environ, "JAVA_HOME": str(java_home())}
    done = subprocess.run(
        command,
        cwd=cache,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NodeFailed(f"Maven could not fetch Cassandra's jars: {(done.stdout + done.stderr)[-2000:]}")
    return cache / "lib"


class CassandraNode:
    """`start` returns when a client was answered; `stop` ends the process and removes its files. `seed`: the first node
    of a ring that it joins."""

    def __init__(
        self, address: str = "127.0.0.1", *, heap: str = HEAP, quick_start: bool = True, seed: str = ""
    ) -> None:
        self.address = address
        self.port = PORT
        self._seed = seed or address
        self._heap = heap
        # Without the second compiler the node starts sooner and serves more slowly: for tests, not for figures.
        self._quick_start = quick_start
        self._home = Path(tempfile.mkdtemp(prefix="timerd-cassandra-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self._home / "out.log"

    def start(self) -> None:
        if is_taken(self.address):
            raise NodeFailed(f"At {self.address} a node runs already, which this one would join: name another address.")
        jars = fetch_jars()
        conf = self._home / "conf"
        write_conf(conf, self.address, self._seed, self._home)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(jars, conf), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._home
            )
        self._wait(self._process)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9: it may be started again with what it had."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """It would write everything to disk for five seconds, and the disk is removed."""
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def _command(self, jars: Path, conf: Path) -> list[str]:
        java = f"{java_home()}/bin/java"
        return java_command(java, self._heap, jars, agent_of(jars), conf, self._home, quick_start=self._quick_start)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        end_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end_s:
            if process.poll() is not None:
                raise NodeFailed(f"Cassandra ended with {process.returncode}:\n{self._last_words()}")
            if answers(self.address, self.port):
                return
            time.sleep(0.2)
        words = self._last_words()
        self.stop()
        raise NodeFailed(f"Cassandra did not answer within {START_TIMEOUT_S} s:\n{words}")

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


def agent_of(jars: Path) -> str:
    """The name of the jar that measures objects."""
    return next(jars.glob("jamm-*.jar")).name


def java_command(
    java: str, heap: str, jars: Path, agent: str, conf: Path, home: Path, *, quick_start: bool
) -> list[str]:
    """The paths are those where it will run."""
    command = [java, f"-Xms{heap}", f"-Xmx{heap}", "-Xss512k", "-XX:+UseSerialGC"]
    command += ["-XX:TieredStopAtLevel=1"] if quick_start else []
    command += [f"-javaagent:{jars}/{agent}", "-Djdk.attach.allowAttachSelf=true"]
    command += ["-Dio.netty.tryReflectionSetAccessible=true"]
    for name in _EXPORTS:
        command += ["--add-exports", f"{name}=ALL-UNNAMED"]
    for name in _OPENS:
        command += ["--add-opens", f"{name}=ALL-UNNAMED"]
    settings = {
        "cassandra.config": f"file:{conf}/cassandra.yaml",
        "cassandra.storagedir": home,
        "cassandra.logdir": home / "log",
        "cassandra-foreground": "yes",
        "cassandra.skip_wait_for_gossip_to_settle": 0,
        "cassandra.ring_delay_ms": 4000,
        "cassandra.superuser_setup_delay_ms": 0,
    }
    command += [f"-D{name}={value}" for name, value in settings.items()]
    return [*command, "-cp", f"{conf}:{jars}/*", "org.apache.cassandra.service.CassandraDaemon"]


def write_conf(conf: Path, address: str, seed: str, home: Path) -> None:
    """`conf` is where they are written, the rest is what they say."""
    conf.mkdir(parents=True, exist_ok=True)
    yaml = _YAML.format(address=address, port=PORT, storage_port=STORAGE_PORT, home=home, seed=seed)
    (conf / "cassandra.yaml").write_text(yaml)
    (conf / "logback.xml").write_text(_LOGBACK)


def is_taken(address: str) -> bool:
    """Whether anybody listens where nodes do, for clients or for each other."""
    for port in (PORT, STORAGE_PORT):
        with socket.socket() as probe:
            if probe.connect_ex((address, port)) == 0:
                return True
    return False


def answers(address: str, port: int) -> bool:
    """Whether a client gets an answer: the port opens a little earlier. Speaks one OPTIONS frame of the protocol."""
    try:
        with socket.create_connection((address, port), 1) as connection:
            connection.settimeout(5)
            connection.sendall(bytes((4, 0, 0, 0, 5, 0, 0, 0, 0)))
            return connection.recv(1) == b"\x84"
    except OSError:
        return False
