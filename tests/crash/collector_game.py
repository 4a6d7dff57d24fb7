"""The runs of the collector's crash test: who collects when, and who is killed; and what the command prints."""

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crash.collector_population import Population
from crash.collector_verdict import judged
from support import faults

PROCESS = Path(__file__).with_name("collector.py")
PATIENCE_S, LOOK_S = 120, 0.002
TAKES_S = {"looking": 0.3, "taking in": 1.0}  # at first; then as it was seen to take
SPARED, TWO_AT_ONCE, LEFT_TO_THE_NEXT = 0.25, 0.3, 0.4
STARTING, LOOKING, ENDED, TAKEN_IN = "not begun", "looking", "looked, not numbered", "taken in, not told"
NUMBERED = {
    "people": "taken in, being tidied",
    "runs": "taking in: runs are written, people are not",
    "cube": "taking in: sums are written, runs are not",
    "changes": "taking in: changes are written",
    "": "taking in: nothing is written",
}


@dataclass
class Process:
    """A collector or the reader, and what it says."""

    log: Path
    words: tuple[str, ...]
    code: int | None = None

    def __post_init__(self) -> None:
        with self.log.open("wb") as out, self.log.with_suffix(".err").open("wb") as err:
            command = [sys.executable, str(PROCESS), *self.words]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def end(self, number: int | None = None) -> int:
        """Wait for its end, or bring it about."""
        if number is not None:
            self.process.send_signal(number)
        self.code = self.process.wait(PATIENCE_S)
        return self.code

    def output_lines(self) -> list[dict[str, object]]:
        """Its lines; one that was cut was not said."""
        return [json.loads(line) for line in self.log.read_bytes().split(b"\n")[:-1]]

    def death(self) -> str | None:
        """How it ended, where neither in peace nor by a kill."""
        if self.code in {0, -signal.SIGKILL}:
            return None
        return f"ended with {self.code}: {self.log.with_suffix('.err').read_text(errors='replace')[-3000:]}"


@dataclass
class Game:
    """The runs as they are played, and what was killed when.

    Attributes:
        kills: How many collectors were killed, by what they were at.
        acknowledged: What each collector said that ended in peace.
        pairs: How often two collectors had the same run at once.
    """

    directory: Path
    base_url: str
    population: Population
    wanted: int
    drawn: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    acknowledged: list[dict[str, object]] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    pairs: int = 0
    started: int = 0

    def __post_init__(self) -> None:
        self.history = self.directory / "history"
        self._takes = dict(TAKES_S)

    def play(self) -> None:
        """Run after run until so many were killed, and one last in peace."""
        while self.kills.total() < self.wanted:
            self._run(self.population.advance())
        self._run(self.population.advance())

    def _run(self, name: str) -> None:
        """One run: collected again and again until somebody is told, or the next one has to end it."""
        while True:
            ended = self._turn(name)
            if any(one.output_lines() for one in ended):
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
        self.deaths += [death for one in collectors if (death := one.death())]
        return collectors

    def _start(self, name: str) -> Process:
        self.started += 1
        log = self.directory / f"collector-{self.started}.log"
        return Process(log, ("collect", str(self.history), self.base_url, name))

    def _kill(self, collector: Process, name: str) -> None:
        """At a moment that is drawn, of a phase that is drawn."""
        phase = self.drawn.choice(["looking", "taking in", "taking in"])
        awaited = {"looking": "began-1.json", "taking in": "seq.json"}[phase]
        while awaited not in self._staged(name) and collector.process.poll() is None:
            time.sleep(LOOK_S)
        began, delay = time.monotonic(), self.drawn.uniform(0, self._takes[phase])
        while time.monotonic() - began < delay and collector.process.poll() is None:
            time.sleep(LOOK_S)
        if collector.process.poll() is not None:
            self._takes[phase] = max(LOOK_S, time.monotonic() - began)  # too late
        if collector.end(signal.SIGKILL) == -signal.SIGKILL:
            self.kills[self._where(name)] += 1

    def _staged(self, name: str) -> set[str]:
        folders = (self.history / "staging").glob(f"{name}-*")  # a name and its hash
        with contextlib.suppress(FileNotFoundError):  # it was tidied in between
            return {file.name for folder in folders for file in folder.iterdir()}
        return set()

    def _where(self, name: str) -> str:
        """What a collector was at that has just been killed; where it was one of two, the other goes on."""
        from exposurekit.history import ingest
        from exposurekit.history.storage.delta import Store

        staged, store = self._staged(name), Store(self.history)
        if "seq.json" in staged:
            seq = ingest.last_seq(store)
            words = {"changes": ("record:0", "link:0", "alert:0")}
            reached = (
                state
                for table, state in NUMBERED.items()
                if not table
                or any(store.version(table, word) >= seq + 1 for word in words.get(table, ("ingest",)))
            )
            return next(reached) if ingest.row_of(store, name) is None else _tidying(store, seq)
        if "ended-1.json" in staged:
            return ENDED
        if "began-1.json" in staged:
            return LOOKING
        return TAKEN_IN if ingest.row_of(store, name) is not None else STARTING


def _tidying(store: object, seq: int) -> str:
    return NUMBERED["people" if store.version("people", "ingest") >= seq else "runs"]


@contextmanager
def _reading(directory: Path) -> Iterator[Process]:
    """A reader, for as long as the block lasts."""
    stop = directory / "stop"
    reader = Process(directory / "reader.log", ("read", str(directory / "history"), str(stop)))
    try:
        yield reader
        stop.touch()
        reader.end()
    finally:
        reader.process.kill()
        reader.process.wait()


def main(words: Sequence[str]) -> int:
    """Run, print, and say by the exit code whether every rule held."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # in order: no process of the run is left behind
    parser = argparse.ArgumentParser(description="Kill the collector; every run is kept once and whole.")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--people", type=int, default=200)
    options = parser.parse_args(words)
    began = time.monotonic()
    population = Population(options.seed, options.people)
    drawn = random.Random(f"kills {options.seed}")  # noqa: S311  a draw that can be repeated
    with (
        tempfile.TemporaryDirectory() as directory,
        faults.running(population.service) as server,
    ):
        game = Game(Path(directory), server.base_url, population, options.kills, drawn)
        with _reading(game.directory) as reader:
            game.play()
        game.deaths += [death for death in [reader.death()] if death]
        figures, rules = judged(
            game.history, population.snapshots, game.acknowledged, reader.output_lines(), game.deaths
        )
    rules["what had to happen, and did not"] = list(_missing(game, figures))
    _print(game, figures | {"seconds": round(time.monotonic() - began)}, rules)
    return 1 if any(rules.values()) else 0


def _missing(game: Game, figures: dict[str, object]) -> Iterator[str]:
    if game.kills.total() != game.wanted:
        yield f"{game.kills.total()} of {game.wanted} kills"
    if not figures["looks of the reader"]:
        yield "a look of the reader"


def _print(game: Game, figures: dict[str, object], rules: dict[str, list[object]]) -> None:
    figures_shown = {"kills": game.kills.total()}
    figures_shown |= {f"  {where}": many for where, many in game.kills.most_common()}
    figures_shown |= {
        "collectors": game.started,
        "two at once": game.pairs,
        "acknowledged": len(game.acknowledged),
    }
    for name, value in (figures_shown | figures).items():
        print(f"{name:46} {value}")  # noqa: T201  a command prints its verdict
    for name, broken in rules.items():
        print(f"{'BROKEN' if broken else 'held':7} {len(broken):5}  {name}  {broken[:3] or ''}")  # noqa: T201
