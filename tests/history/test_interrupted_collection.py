"""Ctrl-C during a collection: the next one resumes it, and no user is counted twice or lost."""

from collections import Counter

import pyarrow.fs
import pytest
from crash.collector_scenes import SCENES, based, opened

from exposurekit.history import collector
from exposurekit.history.storage.delta import Store

TABLES = ("changes", "people", "records", "links", "alerts")


class Interrupted(pyarrow.fs.LocalFileSystem):
    """Files whose writer presses Ctrl-C just before the nth one is in place."""

    remaining = 0

    def move(self, src, dest):
        self.remaining -= 1
        if not self.remaining:
            raise KeyboardInterrupt
        super().move(src, dest)


def rows(path):
    store = Store(path)
    return {name: Counter(map(str, store.rows(name).to_pylist())) for name in TABLES}


@pytest.mark.parametrize("nth", [3, 5])
def test_ctrl_c_in_a_staged_write_leaves_whole_parts(tmp_path, monkeypatch, nth):
    monkeypatch.setattr(collector, "USERS_PER_PART", 2)
    scene = SCENES["much happens"]
    for name in ("undisturbed", "interrupted"):
        based(tmp_path / name)
    store = Store(tmp_path / "interrupted")
    store.files = Interrupted()
    store.files.remaining = nth
    with pytest.raises(KeyboardInterrupt):
        scene.act(tmp_path / "interrupted", store)
    for name in ("undisturbed", "interrupted"):
        scene.act(tmp_path / name)
        with opened(tmp_path / name, 4) as history:
            assert not history.verify()
    assert rows(tmp_path / "interrupted") == rows(tmp_path / "undisturbed")
