"""Ctrl-C during a collection: the next one resumes it, and no user is counted twice or lost."""

import shutil
from collections import Counter

import pyarrow.fs
import pytest
from crash.collector_scenes import SCENES, create_base, opened

from exposurekit.history.storage.delta import Store

pytestmark = pytest.mark.long  # each write is interrupted once
TABLES = ("changes", "people", "records", "links", "alerts")
SCENE = SCENES[0]


class Interrupted(pyarrow.fs.LocalFileSystem):
    """Files whose writer is interrupted by Ctrl-C just before the nth one is in place."""

    remaining = 0

    def move(self, src, dest):
        self.remaining -= 1
        if not self.remaining:
            raise KeyboardInterrupt
        super().move(src, dest)


def rows(path):
    with opened(path, 4) as history:
        assert not history.verify()
    store = Store(path)
    return {name: Counter(map(str, store.rows(name).to_pylist())) for name in TABLES}


def rows_of_next_run(path):
    SCENE.act(path)
    return rows(path)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    path = tmp_path_factory.mktemp("base") / "history"
    create_base(path)
    return path


@pytest.fixture(scope="module")
def expected(base, tmp_path_factory):
    return rows_of_next_run(shutil.copytree(base, tmp_path_factory.mktemp("whole") / "history"))


@pytest.mark.parametrize("nth", [3, 5])
def test_ctrl_c_in_a_staged_write_leaves_whole_parts(base, expected, tmp_path, nth):
    path = shutil.copytree(base, tmp_path / "history")
    store = Store(path)
    store.files = Interrupted()
    store.files.remaining = nth
    with pytest.raises(KeyboardInterrupt):
        SCENE.act(path, store)
    assert rows_of_next_run(path) == expected


def test_maintenance_after_a_run_changes_no_rows(base, tmp_path):
    scene = next(scene for scene in SCENES if "schedule" in scene.settings)
    plain, maintained = (shutil.copytree(base, tmp_path / name) for name in ("plain", "maintained"))
    scene.act(plain)
    scene.act(maintained, Store(maintained))  # a store of one's own has the settings of the scene
    assert rows(plain) == rows(maintained)
    assert Store(maintained).version("checkpoint", "checkpoint") == 3
