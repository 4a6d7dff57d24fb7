"""What stands in a cell: the same text everywhere, and no formula in a spreadsheet."""

import io

import pandas as pd
import pytest

from exposurekit import cells


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "True"),
        (False, "False"),
        (1234567, "1,234,567"),
        (0.5, "0.5"),
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
def test_a_cell_says_its_value(value, shown):
    assert cells.told(value) == shown


FORMULAS = [
    "=1+1",
    "+1",
    "-2+3",
    "@SUM(A1)",
    " =1",
    "\t=1",
    "\r=1",
    "|cmd",
    "%0A=1",
    '=HYPERLINK("//x.example")',
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_is_a_formula_in_a_spreadsheet(text):
    table = pd.DataFrame(
        {"site": pd.Series([text], dtype="str"), "many": [[text, "b"]], "kind": pd.Categorical([text])}
    )
    [row] = pd.read_csv(io.StringIO(cells.as_csv(table))).itertuples(index=False)
    assert all(str(cell).startswith("'") for cell in row)
    assert all(text.strip("\t\r") in str(cell) for cell in row)


def test_what_is_no_formula_stays_as_it_is():
    table = pd.DataFrame(
        {
            "n": [-1, 2],
            "share": [float("nan"), -0.5],
            "zip": pd.Series(["01234", pd.NA], dtype="str"),
            "at": pd.to_datetime(["2026-03-01T20:05Z", None]),
        }
    )
    assert cells.as_csv(table) == ("n,share,zip,at\n-1,,01234,2026-03-01 20:05:00+00:00\n2,-0.5,,\n")


def test_columns_of_one_name_stay_each_their_own():
    table = pd.DataFrame([["a", 1, "=b", True]], columns=["site", "n", "site", "n"])
    assert cells.as_csv(table) == "site,n,site,n\na,1,'=b,True\n"
    assert cells.as_csv(table.iloc[:0]) == "site,n,site,n\n"
    assert cells.as_csv(pd.DataFrame(index=[0, 1])) == "\n\n\n"
