"""Text of a cell: the same everywhere, and no formula in a spreadsheet."""

import csv
import io
import unicodedata

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exposurekit.text import formatting


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "True"),
        (False, "False"),
        (1234567, "1,234,567"),
        (2**53 + 1, "9,007,199,254,740,993"),
        (0.5, "0.5"),
        *((999.4, "999"), (999.6, "1,000"), (1234.0, "1,234"), (-12345.6, "-12,346"), (float("inf"), "inf")),
        (None, "—"),
        (pd.NaT, "—"),
        (float("nan"), "—"),
        (pd.Timestamp("2026-03-01T20:05Z"), "2026-03-01 20:05"),
        (["a", "<b>"], "a, <b>"),
        ((), ""),
        ("", ""),
    ],
    ids=repr,
)
def test_value_is_formatted(value, expected):
    assert formatting.format_value(value) == expected


FORMULAS = [
    *("=1+1", "+1", "-2+3", "@SUM(A1)", " =1", "\t=1", "\r=1", "|cmd", "%0A=1"),
    '=HYPERLINK("//x.example")',
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_is_a_formula_in_a_spreadsheet(text):
    table = pd.DataFrame(
        {"site": pd.Series([text], dtype="str"), "many": [[text, "b"]], "kind": pd.Categorical([text])}
    )
    [row] = pd.read_csv(io.StringIO(formatting.as_csv(table))).itertuples(index=False)
    assert all(str(cell).startswith("'") for cell in row)
    assert all(text.strip("\t\r") in str(cell) for cell in row)


def as_displayed(cell):
    """A cell as in a spreadsheet that drops invisible characters and reads full-width signs as others."""
    visible = "".join(one for one in cell if unicodedata.category(one) not in {"Cc", "Cf"})
    return unicodedata.normalize("NFKC", visible).lstrip()


PIECES = st.lists(
    st.sampled_from([*'=+-@|%;\t\n\r", ax\x00\x1f\u200b\uff1d\uff0d\ufe66\u2028', '""']), max_size=7
)


@settings(max_examples=50)
@given(PIECES.map("".join), PIECES.map("".join))
@example('a;"=1+1', "end")
@example('a\t"=1+1', "end")
@example('a\n"=1+1', "end")
@example("a;\uff0d1", "end")
@example("a;\x1f=1", "end")
def test_no_cell_is_a_formula_with_any_separator(text, other):
    table = pd.DataFrame({"site": [text, other], "n": [1, 2], "kind": [other, text], "z": ["end", "end"]})
    written = formatting.as_csv(table)
    for separator in (",", ";", "\t"):
        for row in csv.reader(io.StringIO(written), delimiter=separator):
            assert not [cell for cell in row if as_displayed(cell).startswith(("=", "+", "-", "@", "|", "%"))]


@pytest.mark.parametrize("text", ["a; b", 'he said "-1"', '"=1"', "a-b", "a\nb", "5 > 3"])
def test_text_without_a_formula_is_unchanged(text):
    assert formatting.escape_formula(text) == text


def test_a_list_in_a_cell_can_be_split_again():
    lists = [["1 Elm Row, Bend, OR", "=1+1", "+1 555 0100"], ["a"], []]
    table = pd.DataFrame({"locations": pd.Series(lists, dtype=pd.ArrowDtype(pa.list_(pa.string())))})
    cells = pd.read_csv(io.StringIO(formatting.as_csv(table)), keep_default_na=False)["locations"]
    assert cells[0].split("; ") == ["1 Elm Row, Bend, OR", "'=1+1", "'+1 555 0100"]
    assert cells[1:].tolist() == ["a", ""]


def test_values_without_formulas_are_unchanged():
    at = pd.to_datetime(["2026-03-01T20:05Z", None])
    table = pd.DataFrame({"n": [-1, 2], "share": [float("nan"), -0.5], "zip": ["01234", pd.NA], "at": at})
    assert formatting.as_csv(table) == ("n,share,zip,at\n-1,,01234,2026-03-01 20:05:00+00:00\n2,-0.5,,\n")


def test_columns_of_one_name_are_all_written():
    table = pd.DataFrame([["a", 1, "=b", True]], columns=["site", "n", "site", "n"])
    assert formatting.as_csv(table) == "site,n,site,n\na,1,'=b,True\n"
    assert formatting.as_csv(table.iloc[:0]) == "site,n,site,n\n"
    assert formatting.as_csv(pd.DataFrame(index=[0, 1])) == "\n\n\n"
