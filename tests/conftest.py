from collections.abc import Iterator

import pytest
from service_kit import STORES, Service, a_service, stored_in


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for a Spark cluster is a long one."""
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()) or "[spark" in item.name:
            item.add_marker("long")


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kind of database: the same tests on each."""
    with stored_in(request.param):
        yield request.param


@pytest.fixture(scope="module")
def service(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("service")) as service:
        yield service
