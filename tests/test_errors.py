"""Errors are copied and pickled completely, and a notebook displays them in one line."""

import code
import copy
import pickle
import warnings

import pandas as pd
import polars as pl
import pytest
from support.clients import stopping
from support.ipython import Notebook

import exposurekit as ek
from exposurekit import analysis, errors

ERRORS = [
    errors.ConfigurationError("set it"),
    errors.InvalidArgument("0 to 1"),
    errors.Unauthorized("no", status=401, operation="Get user"),
    errors.APIStatusError("later", status=429, operation="Get user", retry_after_s=2.0),
    errors.ConnectionFailed("cut", operation="Create user", maybe_received=True),
    errors.MissingColumns("by_site", ["site"]),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301
def test_copied_or_pickled_error_is_equal(error, again):
    other = again(error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)


def test_missing_columns_are_named():
    errors.MissingColumns.check("by_site", ["site", "status"], ["site"])
    with pytest.raises(errors.MissingColumns, match="by_site needs the columns status, age"):
        errors.MissingColumns.check("by_site", ["site"], ["site", "status", "age"])
    with pytest.raises(errors.MissingColumns, match=r"needs the column site, .* lacks it \(it has 'Site'\)$"):
        errors.MissingColumns.check("by_site", ["Site", "Jane Quill"], ["site"])


@pytest.mark.parametrize(
    ("ids", "advice"),
    [
        ([1.0, 2.0], r"table.astype({'user_id': 'int64'})"),
        ([1.0, None], r"table.dropna(subset='user_id').astype({'user_id': 'int64'})"),
        (pd.array([1, None], dtype="Int64"), r"table.dropna(subset='user_id')"),
    ],
)
def test_advice_about_ids_of_users_makes_them_integers(ids, advice):
    """A merge that leaves people without a match makes such ids."""
    table = pd.DataFrame({"user_id": ids, "site": "Seek", "status": "discovered"})
    with pytest.raises(errors.InvalidArgument) as error:
        analysis.by_user(table)
    assert str(error.value) == f"by_user: user_id must be an integer in each row: {advice}"
    assert len(analysis.by_user(eval(advice, {"table": table}))) == table["user_id"].count()  # noqa: S307  of the test


def test_tables_of_other_libraries_name_the_conversion():
    counts = pl.DataFrame({"site": ["A"], "status": ["discovered"], "user_id": [1]})
    with pytest.raises(errors.InvalidArgument, match=r"by_site needs a pandas DataFrame: pass .*from_arrow"):
        ek.analysis.by_site(counts)
    assert ek.analysis.by_site(ek.frames.from_arrow(counts))["total"].tolist() == [1]


UNREACHABLE = """import exposurekit as ek
exposure = ek.connect("http://127.0.0.1:9", integration_name="acme", api_key="key", api_secret="s3cr3t", progress=False)
def load():
    return exposure.records()

load()"""
CELLS = {
    UNREACHABLE: "ConnectionFailed (line 4): List users failed: connection refused. Is the service running?",
    "import exposurekit as ek\n\nek.report(7)": "InvalidArgument (line 3): ",
    "from exposurekit import errors\nraise errors.NotFound('No such run')": "NotFound (line 2): No such run",
}


@pytest.mark.parametrize("cell", CELLS)
def test_a_notebook_displays_an_error_in_one_line(cell, capsys):
    notebook = Notebook()
    with pytest.raises(errors.ExposureError) as error:
        notebook(cell)
    out, _ = capsys.readouterr()
    [line] = out.strip().splitlines()
    assert line.startswith(CELLS[cell])
    assert line.endswith(str(error.value))
    assert "s3cr3t" not in out
    notebook("import traceback\ntraceback.print_last()")
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_stopped_load_is_one_line_and_one_warning(capsys):
    """Ctrl-C stays a `KeyboardInterrupt`; each cell warns once, at its line."""
    with stopping(1, 25) as exposure:
        notebook = Notebook(ek=ek, exposure=exposure)
        with pytest.raises(KeyboardInterrupt):
            notebook("exposure.records()")
    message = "Stopped: 1 of 25 people were loaded and kept; exposure.refresh() loads everyone"
    assert capsys.readouterr().out.splitlines() == [message]
    for cell in ("exposure.users()\nlen(exposure.steps()), exposure.provenance", "\n%exposure records"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            notebook(cell)
        [warning] = caught
        assert str(warning.message).startswith("1 of 25 people: stopped before the end")
        assert "ipython-input" in warning.filename


@pytest.mark.parametrize("file", ["<stdin>", "<console>"])
def test_each_statement_at_a_prompt_warns_once(file, capsys):
    prompt = code.InteractiveConsole({"warn": errors.warn, "warned": set()}, file)
    asks = "warn('incomplete', warned=warned)"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for statement in (asks, asks, f"[{asks} for _ in range(3)]"):
            prompt.push(statement)
    assert capsys.readouterr().err == ""
    assert [(warning.filename, warning.lineno) for warning in caught] == [(file, 1)] * 3


def test_a_notebook_displays_the_notes_of_an_error(capsys):
    with pytest.raises(errors.NotFound):
        Notebook()(
            "from exposurekit import errors\n"
            "error = errors.NotFound('No such run')\n"
            "error.add_note('of the first history')\n"
            "raise error"
        )
    assert capsys.readouterr().out.splitlines() == ["NotFound (line 4): No such run", "of the first history"]


def test_other_errors_have_their_traceback_in_a_notebook(capsys):
    with pytest.raises(ZeroDivisionError):
        Notebook()("1 / 0")
    assert "Traceback" in capsys.readouterr().out


def test_the_line_of_an_imported_file_is_named(tmp_path, capsys, monkeypatch):
    (tmp_path / "own_queries.py").write_text(
        "from exposurekit.history import History\ndef load():\n    History(7)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(errors.ConfigurationError):
        Notebook()("import own_queries\nown_queries.load()")
    assert capsys.readouterr().out.startswith("ConfigurationError (own_queries, line 3): ")
