"""The command in a directory, a configuration and a database of its own, as a process or in this one."""

import asyncio
import contextlib
import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exposurekit import cli
from exposurekit.service.clock import Clock
from exposurekit.service.storage.database import Database, Session
from exposurekit.service.storage.encryption import Vault, load_key

COMMAND = Path(sys.executable).parent / "exposurekit"
TIMEOUT_S = 60
WITHOUT = "-dac_override,-dac_read_search"  # the capabilities that ignore permissions of files
Run = subprocess.CompletedProcess[str]


def run_unprivileged(code: str, *arguments: str | Path) -> Run:
    """Run Python code in a process that obeys the permissions of files, even if root runs the tests."""
    without = ["setpriv", "--bounding-set", WITHOUT, "--inh-caps", WITHOUT] if not os.getuid() else []
    words = [*without, sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@contextmanager
def read_only(*paths: Path) -> Iterator[None]:
    """Take the permission to write away from files and directories; give it back at the end."""
    modes = {path: path.stat().st_mode for path in paths}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


class Shell:
    """Runs the command as a process, or, much faster, in this process."""

    def __init__(self, directory: Path, **environment: str) -> None:
        self.directory = directory
        self.environment = {**os.environ, "XDG_CONFIG_HOME": str(directory / "config"), **environment}

    def __call__(self, *words: str) -> Run:
        with self.started(*words) as process:
            return _finished(process, 300)

    def here(self, *words: str, stdin: str | bytes = "") -> Run:
        """Run it in this process, without a terminal."""
        out, err = io.StringIO(), io.StringIO()
        code: Any = None
        typed = stdin if isinstance(stdin, bytes) else stdin.encode()
        before, sys.stdin = (dict(os.environ), sys.stdin), io.TextIOWrapper(io.BytesIO(typed))
        os.environ.update(self.environment)
        try:
            with (
                contextlib.chdir(self.directory),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
            ):
                cli.run(words)
        except SystemExit as ended:
            code = ended.code
        finally:
            sys.stdin = before[1]
            os.environ.clear()
            os.environ.update(before[0])
        return subprocess.CompletedProcess(words, code or 0, out.getvalue(), err.getvalue())

    @contextmanager
    def started(self, *words: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
        """Run it in the background; killed if it still runs at the end."""
        streams = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        } | options
        with killed_at_end([COMMAND, *words], cwd=self.directory, env=self.environment, **streams) as process:
            yield process

    def on_a_terminal(self, *words: str, answers: str) -> Run:
        """Run it as a process that reads answers from a terminal."""
        ours, theirs = pty.openpty()
        try:
            with self.started(*words, stdin=theirs) as process:
                os.write(ours, answers.encode())
                return _finished(process, TIMEOUT_S)
        finally:
            os.close(ours)
            os.close(theirs)


@contextmanager
def killed_at_end(words: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a process in the background; killed if it still runs at the end."""
    process = subprocess.Popen(words, text=True, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _finished(process: subprocess.Popen[str], timeout: float) -> Run:
    out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class Operator(Shell):
    """A shell whose commands all use one database."""

    def __init__(self, directory: Path, url: str) -> None:
        self.key_file = directory / "service.key"
        self.url = url
        super().__init__(directory, EXPOSUREKIT_DATABASE=url, EXPOSUREKIT_SERVICE_KEY_FILE=str(self.key_file))

    def work(self, do: Callable[[Session], Awaitable[Any]], *, clock: Clock | None = None) -> Any:
        """Run one transaction, as the service would."""
        database = Database(self.url, vault=Vault(load_key(self.key_file)), clock=clock or Clock())

        async def run() -> Any:
            await database.open()
            try:
                async with database.writing() as work:
                    return await do(work)
            finally:
                await database.close()

        return asyncio.run(run())


def connection(base_url: str, integration_name: str, api_key: str, api_secret: str) -> dict[str, str]:
    """Return the environment variables of a connection."""
    settings = {"BASE_URL": base_url, "INTEGRATION_NAME": integration_name}
    settings |= {"API_KEY": api_key, "API_SECRET": api_secret}
    return {f"EXPOSUREKIT_{name}": value for name, value in settings.items()}


def error_of(run: Run) -> str:
    """Return the one line on stderr."""
    [line] = run.stderr.strip().splitlines()
    return line


def read_until(process: subprocess.Popen[str], words: str, stream: str = "stderr") -> list[str]:
    """Read a stream up to the first line that contains the words, which is the last one returned."""
    lines = []
    for line in getattr(process, stream):
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"it ended without a line with {words!r}: {lines}")


def line_with(process: subprocess.Popen[str], words: str) -> str:
    """Return the first line on stderr that contains the words."""
    return read_until(process, words)[-1]


def listening(process: subprocess.Popen[str]) -> str:
    """Return the address at which a process says that it listens."""
    return re.findall(r"http://\S+", line_with(process, "listening="))[0]


def ended(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
    """Stop a process by a signal and return what is left on stderr."""
    process.send_signal(number)
    assert process.wait(timeout=TIMEOUT_S) == 0
    assert process.stderr is not None
    return process.stderr.read()


def eventually(condition: Callable[[], Any]) -> Any:
    """Wait until a condition is true and return its value."""
    until = time.monotonic() + TIMEOUT_S
    while not (result := condition()):
        assert time.monotonic() < until, "the condition was not met"
        time.sleep(0.05)
    return result
