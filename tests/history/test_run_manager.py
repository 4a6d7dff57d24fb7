"""A collection that Ctrl-C stops says whether anything was kept, without the frames of the request."""

import itertools
import traceback
from dataclasses import dataclass

import pytest
from crash.collector_scenes import BEFORE, Canned

from exposurekit.errors import LoadStopped
from exposurekit.history import History


@dataclass(frozen=True)
class Stopped(Canned):
    """A load that Ctrl-C stops after some batches of two people."""

    batches: int = 0

    def iter_batches(self, **words):
        yield from itertools.islice(super().iter_batches(**words), self.batches)
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("batches", "told"), [(0, "nobody was loaded"), (1, "next collect continues from there")]
)
def test_ctrl_c_in_a_collection_says_what_was_kept(tmp_path, batches, told):
    with History(tmp_path / "history") as history:
        with pytest.raises(LoadStopped, match=told) as stopped:
            history.collect(Stopped(BEFORE, batches=batches), progress=False)
        assert "iter_batches" not in "".join(traceback.format_exception(stopped.value))
        assert stopped.value._render_traceback_() == [f"Stopped: {stopped.value}"]
        assert history.collect(Canned(BEFORE), progress=False).people["whole"] == len(BEFORE)
