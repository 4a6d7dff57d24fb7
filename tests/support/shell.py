"""A shell for tests: the command in a directory, a configuration and a database of its own. Judges nothing."""

import asyncio
import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exposurekit import cli
from exposurekit.service.clock import Clock
from exposurekit.service.storage.database import Database, Session
from exposurekit.service.storage.encryption import Vault, load_key

COMMAND = Path(sys.executable).parent / "exposurekit"
Run = subprocess.CompletedProcess[str]


class Shell:
    """Runs the command as a process, or, much faster, here."""

    def __init__(self, directory: Path, **environment: str) -> None:
        self.directory = directory
        self.environment = {**os.environ, "XDG_CONFIG_HOME": str(directory / "config"), **environment}

    def __call__(self, *words: str) -> Run:
        return subprocess.run(
            [COMMAND, *words],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )

    def here(self, *words: str, stdin: str = "") -> Run:
        """The same in this process, without a terminal."""
        out, err = io.StringIO(), io.StringIO()
        code: Any = None
        before, sys.stdin = (dict(os.environ), sys.stdin), io.StringIO(stdin)
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
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """The command in the background; killed, if it still runs at the end."""
        process = subprocess.Popen(
            [COMMAND, *words],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def on_a_terminal(self, *words: str, answers: str) -> Run:
        """As a process whose questions are answered on a terminal."""
        import pty

        ours, theirs = pty.openpty()
        try:
            with subprocess.Popen(
                [COMMAND, *words],
                cwd=self.directory,
                env=self.environment,
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                os.write(ours, answers.encode())
                out, err = process.communicate(timeout=60)
        finally:
            os.close(ours)
            os.close(theirs)
        return subprocess.CompletedProcess(words, process.returncode, out, err)


class Operator(Shell):
    """A shell whose commands all mean one database."""

    def __init__(self, directory: Path, url: str) -> None:
        self.key_file = directory / "service.key"
        self.url = url
        super().__init__(directory, EXPOSUREKIT_DATABASE=url, EXPOSUREKIT_SERVICE_KEY_FILE=str(self.key_file))

    def work(self, do: Callable[[Session], Awaitable[Any]], *, clock: Clock | None = None) -> Any:
        """One transaction, as the service would make it."""
        database = Database(self.url, vault=Vault(load_key(self.key_file)), clock=clock or Clock())

        async def work() -> Any:
            await database.open()
            try:
                async with database.writing() as work:
                    return await do(work)
            finally:
                await database.close()

        return asyncio.run(work())


def error_of(run: Run) -> str:
    """The one line on stderr."""
    [line] = run.stderr.strip().splitlines()
    return line


def said_until(process: subprocess.Popen[str], words: str) -> str:
    """The first line on stderr with these words in it."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        if words in line:
            return line
        lines.append(line)
    raise AssertionError(f"it ended without a word of {words}: {lines}")
