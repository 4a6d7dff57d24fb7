import pytest
from support.services import stored_in, url_of
from support.shell import Operator, Shell


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.fixture
def operator(tmp_path, store):
    return Operator(tmp_path, url_of(tmp_path))


@pytest.fixture
def file_operator(tmp_path):
    """For tests of the SQLite file, or independent of the database."""
    return Operator(tmp_path, f"sqlite:///{tmp_path / 'service.db'}")


@pytest.fixture
def postgresql_operator(tmp_path):
    """For tests of what only PostgreSQL does."""
    with stored_in("postgresql"):
        yield Operator(tmp_path, url_of(tmp_path))
