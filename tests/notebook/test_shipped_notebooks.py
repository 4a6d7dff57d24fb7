"""Every notebook runs from top to bottom in a real kernel, and is committed with its outputs."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from exposurekit import frames

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
CHART = "application/vnd.plotly.v1+json"
# Absolute paths except that of a demo's directory, ports that were free by chance, and credentials.
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
def test_widgets_receive_the_exposure_beside_the_history(path):
    """A history has no names and no values to enter."""
    calls = [node for cell in code_of(path) for node in ast.walk(ast.parse(cell.source)) if is_widget(node)]
    without = [
        ast.unparse(call)
        for call in calls
        if "exposure" not in {one.id for one in ast.walk(call) if isinstance(one, ast.Name)}
    ]
    assert without == []
    assert len(calls) == (2 if path.stem == "03_manual_removal" else 0)


def is_widget(node):
    names = ("RecordLabels", "OptOutChecklist")
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names


@each
def test_names_in_the_text_occur_in_code_or_output(path):
    """A name in its text is in its code, its output, or a column of a table."""
    cells = nbformat.read(path, as_version=4).cells
    code = "".join(cell.source for cell in cells if cell.cell_type == "code")
    outputs = "".join(
        output.get("text", "") + output.get("data", {}).get("text/plain", "")
        for cell in code_of(path)
        for output in cell.outputs
    )
    columns = {column.name for table in frames.TABLES.values() for column in table}
    chart_outputs = {*re.findall(r"\w+", code + outputs), *columns, *(one.stem for one in NOTEBOOKS)}
    text = "".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert [name for name in re.findall(r"`(\w+)`", text) if name not in chart_outputs] == []


@each
def test_each_committed_chart_has_a_picture_with_its_description(path):
    chart_outputs = [
        output.data for cell in code_of(path) for output in cell.outputs if CHART in output.get("data", {})
    ]
    assert chart_outputs
    for data in chart_outputs:
        assert data["image/svg+xml"].startswith("<svg")
        assert re.match(r'<img alt="\w[^"<>]+\." src="data:image/svg\+xml;base64,', data["text/html"])


@each
def test_a_committed_notebook_is_small_and_machine_independent(path):
    text = path.read_text("utf-8")
    assert len(text.encode()) < 1_000_000
    assert MACHINE.findall(text) == []
    assert nbformat.read(path, as_version=4).metadata.kernelspec.name == "python3"
