"""An exposure of three people, and a history of it: collected once, copied for each test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import widget_controls as kit
from support.histories import Clock

from exposurekit.exposure import Exposure
from exposurekit.history import History


@pytest.fixture(scope="session")
def exposure() -> Iterator[Exposure]:
    with kit.served_exposure() as exposure:
        yield exposure


@pytest.fixture(scope="session")
def collected(exposure: Exposure, tmp_path_factory: pytest.TempPathFactory) -> History:
    """A history that no test may change."""
    return kit.a_history(tmp_path_factory.mktemp("collected"), exposure, Clock())


@pytest.fixture
def history(collected: History, tmp_path: Path) -> History:
    return History(shutil.copytree(collected.path, tmp_path / "history"))
