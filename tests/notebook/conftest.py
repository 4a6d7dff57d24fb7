import pytest
from support.ipython import Notebook, bare

import exposurekit as ek


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=3, days=1, progress=False) as demo:
        yield demo


@pytest.fixture
def working_directory(tmp_path, monkeypatch):
    return bare(tmp_path, monkeypatch)


@pytest.fixture
def notebook(demo, working_directory):
    return Notebook(demo=demo)
