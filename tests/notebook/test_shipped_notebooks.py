"""Every notebook runs from top to bottom in a real kernel, and is committed with what it shows."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
CHART = "application/vnd.plotly.v1+json"
# Any absolute path but the one that stands for a demo's directory, a port that was free by chance, and credentials.
MACHINE = re.compile(
    r"""(?:(?<=[\s"'(=>`,:])|(?<=\\n))/(?!api/|tmp/exposurekit-demo/)(?:[\w.-]+/)+[\w.-]*"""
    r"""|127\.0\.0\.1:(?!8000)\d|api_key=|secret="""
)
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the kernel's libraries, not ours
@each
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any(CHART in output.get("data", {}) for output in outputs)
    assert not any(output.output_type == "error" for output in outputs)


def code_of(path):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@each
def test_a_committed_notebook_has_been_run_without_an_error(path):
    code = code_of(path)
    assert [cell.execution_count for cell in code] == [*range(1, len(code) + 1)]
    outputs = [output for cell in code for output in cell.outputs]
    assert not any(output.output_type == "error" or output.get("name") == "stderr" for output in outputs)


@each
def test_each_committed_chart_has_a_picture_with_its_description(path):
    shown = [
        output.data for cell in code_of(path) for output in cell.outputs if CHART in output.get("data", {})
    ]
    assert shown
    for data in shown:
        assert data["image/svg+xml"].startswith("<svg")
        assert re.match(r'<img alt="\w[^"<>]+\." src="data:image/svg\+xml;base64,', data["text/html"])


@each
def test_a_committed_notebook_is_small_and_machine_independent(path):
    text = path.read_text("utf-8")
    assert len(text.encode()) < 1_000_000
    assert MACHINE.findall(text) == []


@each
def test_a_notebook_names_its_kernel(path):
    assert nbformat.read(path, as_version=4).metadata.kernelspec.name == "python3"
