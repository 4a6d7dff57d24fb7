"""The runs of the collector's crash test: who collects when and who is killed; and the command's output."""

import argparse
import contextlib
import json
import multiprocessing
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crash import collector_processes
from crash.collector_population import Population
from crash.collector_verdict import judge
from support import faults

from exposurekit.history import ingest
from exposurekit.history.storage.delta import Store

# Processes are forked from one that has imported the package and has used nothing of it.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["exposurekit.history", "exposurekit.exposure"])
TIMEOUT_S, POLL_S = 120, 0.002
PARTS_A_RUN = 5
TAKES_S = {"loading": 0.1, "ingesting": 0.5}  # the first estimate
SPARED, TWO_AT_ONCE, LEFT_TO_THE_NEXT = 0.25, 0.3, 0.4
# How far an ingest came, by the table with the newest commit of the run.
PROGRESS = {
    "people": "ingested, in maintenance",
    "runs": "ingesting: runs are written, people are not",
    "cube": "ingesting: sums are written, runs are not",
    "changes": "ingesting: changes are written",
    "": "ingesting: nothing is written",
}
CHANGE_STEPS = ("record:0.0", "link:0.0", "alert:0.0")


class Process:
    """A collector or the reader, and what it reports."""

    def __init__(self, log: Path, act: Callable[..., object], *arguments: object) -> None:
        self.log = log
        self.process = FORKS.Process(target=collector_processes.main, args=(log, act, arguments))
        self.process.start()

    def is_running(self, wait_s: float = 0) -> bool:
        self.process.join(wait_s)
        return self.process.exitcode is None

    def end(self) -> int:
        """Wait for its end; returns the exit code."""
        if self.is_running(TIMEOUT_S):
            raise TimeoutError(f"{self.log.name} did not end")
        return self.process.exitcode

    def kill(self) -> bool:
        """Kill it; returns whether it was still running."""
        self.process.kill()
        return self.end() == -signal.SIGKILL

    def output_lines(self) -> list[dict[str, object]]:
        """What it reported; the last line may be cut off."""
        lines = self.log.read_bytes().split(b"\n") if self.log.exists() else [b""]
        return [json.loads(line) for line in lines[:-1]]

    def error(self) -> str | None:
        """How it ended, unless at its end or by a kill."""
        if self.process.exitcode in {0, -signal.SIGKILL}:
            return None
        errors = self.log.with_suffix(".err").read_text(errors="replace")
        return f"ended with {self.process.exitcode}: {errors[-3000:]}"


@dataclass
class Game:
    """The runs, and the kills.

    Attributes:
        kills: The number of collectors killed, by what they were doing.
        acknowledged: The reports of all collectors that ended in peace.
        pairs: How often two collectors had the same run at once.
    """

    directory: Path
    base_url: str
    population: Population
    wanted: int
    drawn: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    acknowledged: list[dict[str, object]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    pairs: int = 0
    started: int = 0

    def __post_init__(self) -> None:
        self.history = self.directory / "history"
        self._takes_s = dict(TAKES_S)

    def play(self) -> None:
        """Collect run after run until there are as many kills as wanted, and one more run without a kill."""
        while self.kills.total() < self.wanted:
            self._run(self.population.advance())
        self._run(self.population.advance())

    def _run(self, name: str) -> None:
        """Collect one run until it is acknowledged, or is left to the next run to complete."""
        while True:
            if any(one.output_lines() for one in self._turn(name)):
                return
            is_numbered = "seq.json" in self._staged(name)
            if is_numbered and self.kills.total() < self.wanted and self.drawn.random() < LEFT_TO_THE_NEXT:
                return

    def _turn(self, name: str) -> list[Process]:
        both = self.drawn.random() < TWO_AT_ONCE
        self.pairs += both
        collectors = [self._start(name) for _ in range(1 + both)]
        try:
            if self.kills.total() < self.wanted and self.drawn.random() > SPARED:
                self._kill(self.drawn.choice(collectors), name)
            for one in collectors:
                one.end()
        finally:
            for one in collectors:
                one.process.kill()
        self.acknowledged += [line for one in collectors for line in one.output_lines()]
        self.errors += [error for one in collectors if (error := one.error())]
        return collectors

    def _start(self, name: str) -> Process:
        self.started += 1
        log = self.directory / f"collector-{self.started}.log"
        users_per_part = self.population.people // PARTS_A_RUN
        return Process(
            log, collector_processes.collect, str(self.history), self.base_url, name, users_per_part
        )

    def _kill(self, process: Process, name: str) -> None:
        """Kill a collector at a random moment of a random phase."""
        phase = self.drawn.choice(["loading", "ingesting", "ingesting"])
        awaited = {"loading": "began-1.json", "ingesting": "seq.json"}[phase]
        while awaited not in self._staged(name) and process.is_running(POLL_S):
            pass
        began = time.monotonic()
        if not process.is_running(self.drawn.uniform(0, self._takes_s[phase])):
            self._takes_s[phase] = max(POLL_S, time.monotonic() - began)  # too late
        if process.kill():
            self.kills[self._progress(name)] += 1

    def _staged(self, name: str) -> set[str]:
        folders = (self.history / "staging").glob(f"{name}-*")  # a name and its hash
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            return {file.name for folder in folders for file in folder.iterdir()}
        return set()

    def _progress(self, name: str) -> str:
        """What a collector was doing when it was killed; if it was one of two, the other one goes on."""
        staged, store = self._staged(name), Store(self.history)
        is_ingested = ingest.row_of(store, name) is not None
        if "seq.json" in staged:
            seq = ingest.last_seq(store) + (not is_ingested)
            for table, state in PROGRESS.items():
                words = CHANGE_STEPS if table == "changes" else ("ingest",)
                if not table or any(store.version(table, word) >= seq for word in words):
                    return state
        if "ended-1.json" in staged:
            return "loaded, not numbered"
        if "began-1.json" in staged:
            return "loading"
        return "ingested, not acknowledged" if is_ingested else "not begun"


@contextlib.contextmanager
def _reading(directory: Path) -> Iterator[Process]:
    stop = directory / "stop"
    reader = Process(
        directory / "reader.log", collector_processes.read, str(directory / "history"), str(stop)
    )
    try:
        yield reader
        stop.touch()
        reader.end()
    finally:
        reader.kill()


def main(words: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left behind
    parser = argparse.ArgumentParser(description="Kill the collector; every run is stored once and whole.")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--people", type=int, default=200)
    options = parser.parse_args(words)
    began = time.monotonic()
    population = Population(options.seed, options.people)
    drawn = random.Random(f"kills {options.seed}")  # noqa: S311  a draw that can be repeated
    with tempfile.TemporaryDirectory() as directory, faults.running(population.service) as server:
        game = Game(Path(directory), server.base_url, population, options.kills, drawn)
        with _reading(game.directory) as reader:
            game.play()
        errors = [*game.errors, *filter(None, [reader.error()])]
        figures, rules = judge(
            game.history, population.snapshots, game.acknowledged, reader.output_lines(), errors
        )
    rules["kills and reads that were wanted"] = [
        *([] if game.kills.total() == game.wanted else [f"{game.kills.total()} of {game.wanted} kills"]),
        *([] if figures["reads"] else ["no read"]),
    ]
    _print(game, figures | {"seconds": round(time.monotonic() - began)}, rules)
    return 1 if any(rules.values()) else 0


def _print(game: Game, figures: dict[str, object], rules: dict[str, list[object]]) -> None:
    counts = {"kills": game.kills.total()}
    counts |= {f"  {progress}": n for progress, n in game.kills.most_common()}
    counts |= {"collectors": game.started, "two at once": game.pairs, "acknowledged": len(game.acknowledged)}
    for name, value in (counts | figures).items():
        print(f"{name:46} {value}")  # noqa: T201  a command's output
    for name, broken in rules.items():
        print(f"{'BROKEN' if broken else 'ok':7} {len(broken):5}  {name}  {broken[:3] or ''}")  # noqa: T201
