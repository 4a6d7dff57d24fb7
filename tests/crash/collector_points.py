"""Collectors that die at their own hand, each one writing step further: deaths that a kill would seldom hit.

    PYTHONPATH=tests python -m crash.collector_points SCENE BASE DIRECTORY

For n = 1, 2, ... DIRECTORY/n becomes a copy of the history BASE, whose next collector dies before it writes for the
nth time; the last of them ends in peace. Prints what each of them was about to do.
"""

import itertools
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs
from crash.collector_scenes import SCENES, Scene

from exposurekit.history import collector, maintenance
from exposurekit.history.storage.delta import Store

DIED = 9
Step = Callable[..., None]


class Crumbling(pyarrow.fs.LocalFileSystem):  # type: ignore[misc]
    """The files beside the tables: put into place, or taken away one by one in any order."""

    step: Step
    tidies: bool  # whether it dies in the middle of that, too

    def move(self, src: str, dest: str) -> None:
        """Where it dies, the draft is written and not in its place."""
        self.step(f"put {_named(dest)}")
        super().move(src, dest)

    def delete_dir(self, path: str) -> None:
        """Where it dies, one of the files is gone: which one is first is the system's own."""
        files = sorted(Path(path).iterdir())
        self.step("tidy")
        for file in files if self.tidies else ():
            self.step(f"tidy: {_named(str(file))} is gone", file.unlink)
        super().delete_dir(path)


class Dying(Store):
    """A store whose process ends before it writes for the nth time."""

    def __init__(self, path: Path, scene: Scene, dies_at: int) -> None:
        super().__init__(path)
        self._steps, self._dies_at, self._first_step = 0, dies_at, scene.first_step
        self.files = Crumbling()
        self.files.step, self.files.tidies = self.step, scene.tidies

    def step(self, what: str, last_act: Callable[[], object] = lambda: None) -> None:
        """The next one; ends the process if it is the one to die at."""
        if self._steps or what.startswith(self._first_step):
            self._steps += 1
        if self._steps == self._dies_at:
            last_act()
            os.write(1, f"{self._steps} {what}\n".encode())
            os._exit(DIED)

    def append(self, name: str, rows: Any, **how: Any) -> None:
        """As a store does."""
        self.step(f"append to {name}")
        super().append(name, rows, **how)

    def merge_small_files(self, name: str, target_size: int) -> int:
        """As a store does."""
        self.step(f"merge {name}")
        return super().merge_small_files(name, target_size)


def main(words: list[str]) -> int:
    """Run it; 0 if the last collector ended in peace."""
    scene, base, directory = SCENES[words[0]], Path(words[1]), Path(words[2])
    collector.USERS_PER_PART = scene.people_a_part
    for name, value in scene.lowered.items():
        setattr(maintenance, name, value)
    for number in itertools.count(1):
        path = directory / str(number)
        shutil.copytree(base, path)
        # Forked, as nothing of pyarrow, DuckDB or deltalake has begun here: what they need is loaded once.
        if (child := os.fork()) == 0:
            _act(scene, path, number)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != DIED:
            os.write(1, f"{number} the end\n".encode())
            break
    return code


def _act(scene: Scene, path: Path, number: int) -> None:
    code = 1
    try:
        scene.act(path, Dying(path, scene, number))
        code = 0
    except Exception:  # noqa: BLE001  nothing of the parent may run in the child
        traceback.print_exc()
    finally:
        os._exit(code)


def _named(path: str) -> str:
    """The name of a file without what differs from run to run."""
    return "-".join(word for word in Path(path).name.split("-") if not word.isdecimal() or len(word) < 3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
