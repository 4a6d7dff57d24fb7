"""A real Spark cluster on loopback: a master and two workers, each a JVM of its own, and a session on them.

Java is the machine's, or Debian's, put in at first use. Nothing listens but on 127.0.0.1; all ends with the tests.
"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HOST = "127.0.0.1"
WORKERS = 2
DEADLINE_S = 120.0
JAVA = 17  # the oldest that Spark 4 runs on
# Quick to start: what is loaded is compiled once, and is not verified.
JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:+IgnoreUnrecognizedVMOptions -XX:-BytecodeVerificationRemote"
)
DAEMON = ["-Xmx192m", *JVM.split(), "-Dspark.master.rest.enabled=false"]
DEFAULTS = f"""
spark.driver.host {HOST}
spark.driver.bindAddress {HOST}
spark.driver.memory 768m
spark.executor.memory 512m
spark.driver.extraJavaOptions {JVM}
spark.executor.extraJavaOptions {JVM}
spark.ui.enabled false
spark.ui.showConsoleProgress false
spark.log.level ERROR
# The first question waits for both executors.
spark.scheduler.minRegisteredResourcesRatio 1.0
spark.sql.shuffle.partitions 2
"""


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs, and the one session of this process on it."""

    url: str
    session: Any
    directory: Path

    def tasks(self) -> dict[str, int]:
        """The number of tasks that each executor has done, as the scheduler counts."""
        context = self.session.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()  # the counts come a little later
        status = context.statusStore().executorList(True)
        executors = (status.apply(index) for index in range(status.size()))
        return {one.id(): one.completedTasks() for one in executors if one.id() != "driver"}

    def executors(self) -> list[int]:
        """The number of executors that each worker has started, by their directories."""
        return [len(list(work.glob("app-*/*"))) for work in sorted(self.directory.glob("work-*"))]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with a_cluster() as cluster:
        yield cluster


@contextmanager
def a_cluster() -> Iterator[Cluster]:
    """Started for the block, and gone with it, whatever happens in it."""
    with ExitStack() as ends:
        java = _java()
        directory = Path(tempfile.mkdtemp(prefix="exposurekit-spark-"))
        ends.callback(shutil.rmtree, directory, ignore_errors=True)
        master = directory / "master.log"
        ends.enter_context(_daemon(java, master, "master.Master"))
        _until(lambda: "New state: ALIVE" in master.read_text(), "the master is up", master)
        url = re.search(r"spark://[\d.]+:\d+", master.read_text())[0]
        for number in range(WORKERS):
            worker_arguments = [
                "--cores",
                "1",
                "--memory",
                "512m",
                "--work-dir",
                str(directory / f"work-{number}"),
                url,
            ]
            log = directory / f"worker-{number}.log"
            ends.enter_context(_daemon(java, log, "worker.Worker", *worker_arguments))
        # The driver's JVM starts while they do.
        session = ends.enter_context(_session(url, directory))
        _until(
            lambda: master.read_text().count("Registering worker") == WORKERS, "the workers are there", master
        )
        yield Cluster(url, session, directory)


@contextmanager
def _daemon(java: str, log: Path, name: str, *arguments: str) -> Iterator[None]:
    command = [java, *DAEMON, "-cp", f"{_home() / 'jars'}/*", f"org.apache.spark.deploy.{name}"]
    command += ["--host", HOST, "--port", "0", "--webui-port", "0", *arguments]
    scala = re.search(r"_([\d.]+)-", next((_home() / "jars").glob("spark-core_*.jar")).name)[1]
    settings = {"SPARK_LOCAL_IP": HOST, "SPARK_HOME": str(_home()), "SPARK_SCALA_VERSION": scala}
    with log.open("wb") as log_file:
        started = subprocess.Popen(
            command,
            stdout=log_file,
            stderr=log_file,
            stdin=subprocess.DEVNULL,
            env=os.environ | settings,
            start_new_session=True,
        )
    try:
        yield
    finally:
        _end(started)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to stop; a worker's executors are of its group, and go with it."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(ProcessLookupError):  # none of them is left
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _session(url: str, directory: Path) -> Iterator[Any]:
    """The session, and the driver's JVM behind it, which Spark alone would leave until Python ends."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    (directory / "spark-defaults.conf").write_text(f"{DEFAULTS}spark.local.dir {directory / 'local'}\n")
    session = None
    try:
        with _environment(SPARK_CONF_DIR=str(directory), SPARK_LOCAL_IP=HOST):
            session = SparkSession.builder.master(url).appName("tests").getOrCreate()
        yield session
    finally:
        if session is not None:
            session.stop()
        if (gateway := SparkContext._gateway) is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()  # at which it ends by itself
            _end(gateway.proc)
        SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _environment(**settings: str) -> Iterator[None]:
    before = os.environ.copy()
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in settings:
            os.environ.pop(name) if name not in before else os.environ.update({name: before[name]})


def _until(done: Callable[[], bool], what: str, log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Not so within {DEADLINE_S:.0f} s: {what}\n{log.read_text()[-4000:]}")
        time.sleep(0.05)


def _home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _java() -> str:
    """The path of a Java that Spark runs on; Debian's is installed if there is none, by one process at a time."""
    with (Path(tempfile.gettempdir()) / "exposurekit-java.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (java_path := _java_here()) is None:
            environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
            for words in ("update", "install -y --no-install-recommends openjdk-17-jre-headless"):
                subprocess.run(["apt-get", "-q", *words.split()], check=True, env=environment)
            java_path = _java_here()
    assert java_path is not None, f"no Java of version {JAVA} or newer, and none could be installed"
    return java_path


def _java_here() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java_path = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java_path is None:
        return None
    version_text = subprocess.run([java_path, "-version"], check=True, capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', version_text)
    return java_path if version and int(version[1]) >= JAVA else None
