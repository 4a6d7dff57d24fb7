from collections.abc import Iterator

import pytest
from support.histories import FirstRuns, Service, seen_through

from exposurekit.exposure import Exposure


@pytest.fixture(scope="module")
def served_exposure() -> Iterator[tuple[Service, Exposure]]:
    """A service and an exposure of it."""
    service = Service()
    with seen_through(service) as exposure:
        yield service, exposure


@pytest.fixture(scope="module")
def first_runs(tmp_path_factory: pytest.TempPathFactory) -> FirstRuns:
    return FirstRuns(tmp_path_factory.mktemp("first_runs"))
