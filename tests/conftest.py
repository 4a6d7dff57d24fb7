from collections.abc import Iterator

import pytest
from service_kit import Service, a_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("service")) as service:
        yield service
