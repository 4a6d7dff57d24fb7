"""The histories that a killed collector leaves, one for each step at which it writes.

    PYTHONPATH=tests python -m crash.collector_write_steps BASE DIRECTORY

Each scene runs on a copy of the history BASE. Before each writing step the history is copied to DIRECTORY/SCENE/n: the
files that a process leaves which is killed then. Prints a line of JSON for each step: scene, n, step.
"""

import json
import os
import shutil
import sys
import traceback
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.fs
from crash.collector_scenes import SCENES, Scene

from exposurekit.history.storage.delta import Store


class CopyingFiles(pyarrow.fs.LocalFileSystem):  # type: ignore[misc]
    """The files beside the tables: renamed into place, or deleted."""

    store: "CopyingStore"

    def move(self, src: str, dest: str) -> None:
        """Copy the history while the draft is written and not yet in place."""
        self.store.before(f"put {_stable_name(dest)}")
        super().move(src, dest)

    def delete_dir(self, path: str) -> None:
        """Copy the history also without each one of the files: the system may delete any of them first."""
        self.store.before("delete the directory")
        for file in sorted(Path(path).iterdir()) if self.store.scene.copies_deletions else ():
            self.store.before(f"delete the directory: {_stable_name(str(file))} is gone", gone=file)
        super().delete_dir(path)


class CopyingStore(Store):
    """A store that is copied before each step at which it writes."""

    def __init__(self, path: Path, scene: Scene, copies: Path) -> None:
        super().__init__(path)
        self.scene, self._copies = scene, copies
        self._numbers: dict[str, int] = {}
        self.files = CopyingFiles()
        self.files.store = self

    def before(self, step: str, gone: Path | None = None) -> None:
        """Copy the history, without one file; states that are equal to the last byte are copied once."""
        if not (self._numbers or step.startswith(self.scene.first_step)):
            return
        path = Path(self.root)
        names = sorted(file for file in path.rglob("*") if file.is_file() and file != gone)
        state = "".join(f"{file} {sha256(file.read_bytes()).hexdigest()}" for file in names)
        number = self._numbers.setdefault(state, len(self._numbers) + 1)
        copy = self._copies / str(number)
        if not copy.exists():
            shutil.copytree(path, copy)
            if gone is not None:
                (copy / gone.relative_to(path)).unlink()
        print(json.dumps([self.scene.name, number, step]), flush=True)  # noqa: T201  read by the test

    def append(self, name: str, rows: Any, **how: Any) -> None:
        self.before(f"append to {name}")
        super().append(name, rows, **how)

    def merge_small_files(self, name: str, *what: Any) -> int:
        self.before(f"merge {name}")
        return super().merge_small_files(name, *what)

    def trim_log(self, name: str) -> None:
        self.before(f"trim the log of {name}")
        super().trim_log(name)

    def vacuum(self, name: str, *, hours: int) -> int:
        self.before(f"vacuum {name}")
        return super().vacuum(name, hours=hours)


def main(base: Path, directory: Path) -> int:
    """Run each scene in a process of its own, whose drafts then belong to no running process."""
    codes = []
    for scene in SCENES:
        copies = directory / scene.name
        path = shutil.copytree(base, copies / "whole")
        # Nothing of pyarrow, DuckDB or deltalake has begun here, so it is safe to fork.
        if (child := os.fork()) == 0:
            _act(scene, path, copies)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return max(codes)


def _act(scene: Scene, path: Path, copies: Path) -> None:
    code = 1
    try:
        store = CopyingStore(path, scene, copies)
        scene.act(path, store)
        store.before("return")
        code = 0
    except Exception:  # noqa: BLE001  nothing of the parent may run in the child
        traceback.print_exc()
    finally:
        os._exit(code)


def _stable_name(path: str) -> str:
    """The name of a file without what differs from run to run."""
    return "-".join(word for word in Path(path).name.split("-") if not word.isdecimal() or len(word) < 3)


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
