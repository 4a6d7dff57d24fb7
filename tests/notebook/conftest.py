import pytest
from support.demos import small_demo
from support.ipython import Notebook, bare


@pytest.fixture(scope="session")
def demo():
    return small_demo()


@pytest.fixture
def working_directory(tmp_path, monkeypatch):
    return bare(tmp_path, monkeypatch)


@pytest.fixture
def notebook(demo, working_directory):
    return Notebook(demo=demo)
