from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mail import Drop
from support.small_web import House, Town, a_house, running_town
from support.smtp_server import SmtpServer, an_smtp_server


@pytest.fixture(scope="module")
def streets() -> Iterator[Town]:
    with running_town() as town:
        yield town


@pytest.fixture
def town(streets: Town) -> Town:
    streets.clear()
    return streets


@pytest.fixture(scope="module")
def home(store: str, tmp_path_factory: pytest.TempPathFactory, streets: Town) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("service"), streets.resolve) as house:
        yield house


@pytest.fixture
def house(home: House, town: Town) -> House:
    home.clear()
    return home


@pytest.fixture
def drop(store: str, tmp_path: Path) -> Drop:
    (tmp_path / "mail").mkdir()
    return Drop(tmp_path / "mail")


@pytest.fixture(scope="module")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmtpServer]:
    with an_smtp_server(tmp_path_factory.mktemp("smtp")) as server:
        yield server


@pytest.fixture
def server(running_server: SmtpServer) -> SmtpServer:
    running_server.envelopes.clear()
    running_server.deliver = None
    running_server.answer_to_recipient = running_server.answer_to_message = "250 OK"
    return running_server
