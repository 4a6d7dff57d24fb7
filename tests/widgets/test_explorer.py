"""The explorer shows a table page by page; its code selects the same rows as its controls."""

import re
from datetime import date

import ipywidgets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import widget_controls as kit

import exposurekit as ek
from exposurekit.errors import InvalidArgument
from exposurekit.widgets import Explorer
from exposurekit.widgets.data_grid import PAGES
from exposurekit.widgets.explorer import COPY_MAX
from exposurekit.widgets.frame_rows import CHOICES_MAX
from exposurekit.widgets.multi_select import MultiSelect
from exposurekit.widgets.table_filter import Filter, TextIndex, unordered
from exposurekit.widgets.textbox import TextBox

LETTERS = "aAbSsſßσςΣİıéé.*[\\'\"% \n"  # noqa: RUF001  letters that fold to others
SORTED = ("site", "text", "n", "maybe", "share", "at", "flag", "lists", "mixed", 0)
CHOSEN = ("site", "text", "n", "maybe", "share", "at", "flag", "day", 0)


def mixed(size):
    """A table with a column of each kind, with missing values wherever they are possible."""
    draw = np.random.default_rng(size)
    texts = ["Ann", "ann", "Straße", "ΟΔΟΣ", 'it\'s "so"', None]
    table = pd.DataFrame(
        {
            "site": pd.Categorical(draw.choice(["PeepFinder", "Else\\where", "Third"], size)),
            "text": pd.array(draw.choice(np.array(texts, object), size), dtype="str"),
            "n": draw.integers(0, 5, size),
            "maybe": pd.array(draw.choice(np.array([1, 2, pd.NA], object), size), dtype="Int64"),
            "share": draw.choice([0.5, 1.5, np.nan], size),
            "at": pd.to_datetime(draw.choice(["2026-03-01", "2026-03-02"], size), utc=True),
            "flag": draw.choice([True, False], size),
            "day": draw.choice(np.array([date(2026, 3, 1), date(2026, 3, 2)]), size),
            "mixed": draw.choice(np.array(["a", 1, None], object), size),
            0: draw.integers(0, 3, size),
        }
    )
    lists = [[["b"], ["a", "c"], [], None][one] for one in draw.integers(0, 4, size)]
    dtype = kit.empty("records")["aliases"].dtype
    return (
        table.assign(lists=pd.Series(lists, dtype=dtype), index=draw.permutation(size))
        .set_index("index")
        .rename_axis(None)
    )


MIXED = mixed(60)


def test_the_code_names_the_variable_of_the_table():
    people = MIXED.copy()
    explorer = Explorer(people)
    assert explorer.code == "people"
    assert kit.the(explorer, ipywidgets.Textarea, "Code").value == "# no filter yet\npeople"
    explorer.choose("n", 1)
    assert kit.the(explorer, ipywidgets.Textarea, "Code").value == explorer.code == 'people[people["n"] == 1]'
    nameless = Explorer(MIXED.copy())
    nameless.choose("n", 1)
    assert [text in nameless.to_html() for text in ("<code># frame: your table</code>", "no filter")] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (MIXED.groupby("n").size().to_frame("rows"), ["n", "rows"]),
        (MIXED.groupby(["n", 0])[["share"]].max(), ["n", "0", "share"]),
        (pd.DataFrame({"a": [1, 2]}, index=["x", "y"]), ["index", "a"]),
        (pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, "x"), (2, "y")])), None),
        (pd.DataFrame({"a": [1, 2]}, index=[7, 3]), ["a"]),
        (pd.DataFrame({"a": [1, 2]}).set_index("a", drop=False), ["a"]),
        (pd.DataFrame({"level_1": [1]}, index=pd.MultiIndex.from_tuples([(1, "x")])), ["level_1"]),
    ],
)
def test_labels_of_an_index_are_columns(table, columns):
    """A table that `groupby` made would otherwise not say whose row is whose."""
    explorer = Explorer(table, name="table")
    assert [*map(str, explorer.frame.columns)] == (columns or ["level_0", "level_1", "a"])
    assert_same(explorer, table)
    last = explorer.frame.columns[-1]
    explorer.choose(last, explorer.frame[last].iloc[0])
    assert_same(explorer, table)
    explorer.show(table.iloc[::-1])
    assert_same(explorer, table.iloc[::-1])


def test_an_empty_table_is_not_said_to_be_filtered():
    explorer = Explorer(pd.DataFrame({"a": []}))
    assert kit.grid(explorer).nothing == "The table has no rows."
    explorer.show(pd.DataFrame({"a": ["x"]}))
    explorer.search("y")
    assert kit.grid(explorer).nothing.startswith("No rows match.")


def test_an_exposure_or_history_is_no_table(tmp_path):
    with pytest.raises(InvalidArgument, match=r"not the History itself: history\.records\(\)"):
        Explorer(ek.History(tmp_path / "history"))


def assert_same(explorer, table):
    """The code of an explorer gives the rows that it displays."""
    evaluated = eval(explorer.code, {"ek": ek, "pd": pd, "table": table})  # noqa: S307  what a notebook would run
    pd.testing.assert_frame_equal(evaluated.reset_index(drop=True), explorer.frame.reset_index(drop=True))


@st.composite
def filtered_explorers(draw):
    columns = draw(st.lists(st.sampled_from(CHOSEN), unique=True, max_size=3))
    chosen = {
        name: draw(st.lists(st.sampled_from(MIXED[name].dropna().unique().tolist()), min_size=1, max_size=3))
        for name in columns
    }
    sort = draw(st.none() | st.tuples(st.sampled_from(SORTED), st.booleans()))
    return draw(st.text(LETTERS, max_size=3)), chosen, sort


@settings(max_examples=30)
@given(filtered_explorers())
def test_code_selects_the_same_rows_as_the_filter(filtered):
    search, chosen, sort = filtered
    explorer = Explorer(MIXED, name="table")
    explorer.search(search)
    for column, values in chosen.items():
        explorer.choose(column, values)
    for _ in range(0 if sort is None else 2 - sort[1]):
        kit.tell(kit.grid(explorer), {"sort": str(sort[0])})
    assert explorer.error is None
    assert explorer.filter.sort == sort
    assert_same(explorer, MIXED)


@settings(max_examples=30)
@given(st.lists(st.text(LETTERS, max_size=5), max_size=5), st.text(LETTERS, max_size=4))
def test_search_ignores_case(texts, wanted):
    table = pd.DataFrame({"text": pd.Series(texts, dtype="str")})
    explorer = Explorer(table, name="table")
    explorer.search(wanted)
    matching = [text for text in texts if wanted.strip().casefold() in text.casefold()]
    assert explorer.frame["text"].tolist() == matching
    assert_same(explorer, table)


def test_check_of_the_code_can_fail():
    explorer = Explorer(MIXED, name="table")
    explorer.choose("n", [1])
    with pytest.raises(AssertionError):
        assert_same(explorer, MIXED[MIXED["n"] != 1])


@pytest.mark.parametrize("column", CHOSEN)
def test_each_offered_value_is_code_that_runs(column):
    explorer = Explorer(MIXED, name="table")
    kit.the(explorer, ipywidgets.Dropdown, "Filter by").value = column
    values = kit.the(explorer, MultiSelect, "Values")
    values.value = tuple(value for _, value in values.options[:1])
    assert len(values.value) == 1
    assert 0 < len(explorer.frame) < len(MIXED)
    assert_same(explorer, MIXED)


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("column", ["maybe", "share", "text", "lists", "mixed"])
def test_missing_values_are_last_and_ties_stay_in_order(column, ascending):
    table = MIXED.assign(position=np.arange(len(MIXED)))
    sorted_rows = table.iloc[Filter(sort=(column, ascending)).rows(table, TextIndex(table))]
    missing = sorted_rows[column].isna().to_numpy()
    assert 0 < missing.sum() < len(table)
    assert missing[-missing.sum() :].all()
    order = sorted_rows[column].astype("str").fillna("") if unordered(table[column]) else sorted_rows[column]
    ties = (order == order.shift()).fillna(value=False).to_numpy("bool")
    assert ties.any()
    assert (sorted_rows["position"].diff().to_numpy()[ties] > 0).all()


def test_header_sorts_in_both_directions():
    explorer = Explorer(MIXED)
    for ascending in (True, False, True):
        kit.tell(kit.grid(explorer), {"sort": "n"})
        assert explorer.frame["n"].tolist() == sorted(MIXED["n"], reverse=not ascending)
        assert kit.grid(explorer).sort == ["n", ascending]
    explorer = Explorer(pd.DataFrame({0: [2, 1], ("a", 1): [1, 2]}))  # whose columns are no texts
    kit.tell(kit.grid(explorer), {"sort": "0"})
    assert explorer.frame[0].tolist() == [1, 2]
    assert kit.grid(explorer).sort == ["0", True]


@pytest.mark.parametrize("size", PAGES)
def test_browser_has_one_page_at_most(size):
    explorer = Explorer(kit.records(1_050))
    sizes = kit.the(explorer, ipywidgets.Dropdown, "Rows")
    sizes.value = size
    ids = []
    for _ in range(-(-1_050 // size)):
        page_ids = [row[0] for row in kit.grid(explorer).rows]
        assert 0 < len(page_ids) <= size
        ids += page_ids
        kit.press(explorer, "Next page")
    assert ids == [*range(1_050)]
    assert [row[0] for row in kit.grid(explorer).rows] == ids[
        -len(kit.grid(explorer).rows) :
    ]  # of the last page
    state = repr(explorer.get_state()) + repr(kit.grid(explorer).get_state())
    assert state.count("peepfinder.example") <= size


def test_another_size_or_search_returns_to_the_first_page():
    explorer = Explorer(kit.records(100))
    for button, rows in (
        ("Next page", "21 to 40"),
        ("Previous page", "1 to 20"),
        ("Previous page", "1 to 20"),
    ):
        kit.press(explorer, button)
        assert kit.statuses(explorer) == [f"Rows {rows} of 100"]
    kit.press(explorer, "Next page")
    kit.the(explorer, ipywidgets.Dropdown, "Rows").value = 50
    assert kit.statuses(explorer) == ["Rows 1 to 50 of 100"]
    kit.press(explorer, "Next page")
    kit.the(explorer, TextBox, "Search").value = " PEEPfinder.example/p/9 "
    assert explorer.frame["record_id"].tolist() == [10, *range(91, 101)]
    assert kit.statuses(explorer) == ["Rows 1 to 11 of 11"]
    assert kit.the(explorer, ipywidgets.Textarea, "Code").value == f"# frame: your table\n{explorer.code}"


def test_selected_rows_survive_filters():
    table = kit.records(100)
    explorer = Explorer(table)
    for row in (3, 5, 3, 7):
        kit.tell(kit.grid(explorer), {"row": row, "selected": True})
    kit.tell(kit.grid(explorer), {"row": 5, "selected": False})
    explorer.choose("record_id", 99)
    assert kit.grid(explorer).selected == []
    pd.testing.assert_frame_equal(explorer.selection, table.iloc[[3, 7]])
    kit.press(explorer, "Clear")
    assert kit.grid(explorer).selected == []
    assert "0 selected" in repr(explorer)
    kit.tell(kit.grid(explorer), {"row": 1, "selected": True})
    explorer.show(table.head(2))
    assert len(explorer.selection) == 0


@pytest.mark.parametrize(
    "content",
    [{"row": 50}, {"row": True}, {"row": [1]}, {"row": 1.0}, {"sort": "none"}, {"sort": []}, "x", None],
)
def test_browser_messages_about_other_rows_have_no_effect(content):
    explorer = Explorer(kit.records(100))
    kit.tell(kit.grid(explorer), content | {"selected": True} if isinstance(content, dict) else content)
    assert explorer.selection.empty
    assert explorer.filter.sort is None
    assert explorer.error is None


def offered_columns(explorer):
    return [value for _, value in kit.the(explorer, ipywidgets.Dropdown, "Filter by").options]


def test_columns_with_a_range_or_few_ordered_values_are_offered():
    numbers = [*range(CHOICES_MAX + 1)] + [0] * (CHOICES_MAX - 1)
    few, many = [f"{one}" for one in range(CHOICES_MAX)] * 2, [f"{one}" for one in numbers]
    assert offered_columns(Explorer(pd.DataFrame({"n": numbers, "many": many}))) == [None, "n"]
    assert offered_columns(Explorer(pd.DataFrame({"few": few, "many": many}))) == [None, "few"]
    odd = {"odd": pd.Series(pd.Categorical(["a", 1])), "complex": [1j, 2j], "n": [1, 2]}
    explorer = Explorer(pd.DataFrame(odd))
    assert offered_columns(explorer) == [None, "n"]
    assert [row[1] for row in kit.grid(explorer).rows] == [["a", "1j", "1"], ["1", "2j", "2"]]
    explorer = Explorer(MIXED.assign(listed=[["a", "b"]] * len(MIXED)))
    assert not {"lists", "listed", "mixed"} & {*offered_columns(explorer)}
    assert kit.grid(explorer).rows[0][1][-1] == "a, b"
    with pytest.raises(InvalidArgument, match="the column contains lists"):
        explorer.choose("lists", [["a"]])


RANGES = {
    "n": [1, None, "3"],
    "maybe": [2, None, "1.5"],
    "share": [1, 0.5, None],
    "at": ["2026-03-01", date(2026, 3, 2), pd.Timestamp("2026-03-02", tz="Europe/Berlin"), None],
    0: [np.int64(1), None, "2"],
}


@given(st.lists(st.sampled_from([*RANGES]), unique=True, max_size=3), st.data())
@settings(max_examples=60, deadline=None)
def test_code_of_ranges_selects_the_same_rows(columns, data):
    explorer = Explorer(MIXED, name="table")
    for column in columns:
        ends = st.sampled_from(RANGES[column])
        explorer.choose_range(column, data.draw(ends), data.draw(ends))
    explorer.choose("site", "PeepFinder")
    assert_same(explorer, MIXED)


INSTANTS = pd.Series(
    pd.to_datetime(["2026-03-01", "2026-03-01T23:59:59", "2026-03-02", None], format="ISO8601")
)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_a_day_of_a_range_is_meant_until_its_end(zone):
    table = pd.DataFrame({"at": INSTANTS.dt.tz_localize(zone)})
    explorer = Explorer(table, name="table")
    for low, high, rows in (
        ("2026-03-01", "2026-03-01", [0, 1]),
        ("2026-03-02", None, [2]),
        (None, date(2026, 3, 1), [0, 1]),
        ("2026-03-01T00:01", "2026-03-02T00:00", [1, 2]),
        (None, None, [0, 1, 2, 3]),
    ):
        explorer.choose_range("at", low, high)
        assert [*explorer.frame.index] == rows
        assert_same(explorer, table)


def test_typed_ends_are_a_range_and_are_restored():
    explorer = Explorer(kit.records(100), name="table")
    column = kit.the(explorer, ipywidgets.Dropdown, "Filter by")
    low, high = kit.the(explorer, TextBox, "From"), kit.the(explorer, TextBox, "To")
    assert low.layout.display == high.layout.display == "none"
    column.value = "age"
    assert low.layout.display is None
    low.value, high.value = "40", " 60 "
    assert explorer.error is None
    assert explorer.code == 'table[(table["age"] >= 40) & (table["age"] <= 60)]'
    low.value = "forty"
    assert "is a number, such as 18" in kit.alerted(explorer)
    assert explorer.code.startswith('table[(table["age"] >= 40)')
    column.value = "site"
    assert low.layout.display == "none"
    column.value = "age"
    assert (low.value, high.value, explorer.error) == ("40", " 60 ", None)
    explorer.choose_range("age", 50)
    assert (low.value, high.value) == ("50", "")
    kit.press(explorer, "Clear")
    assert (explorer.code, low.value) == ("table", "")


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (("site", "A", "B"), "site has neither numbers nor dates: use choose or search"),
        (("flag", 0, 1), "flag has neither numbers nor dates"),
        (("sites", 1), "no such column: did you mean 'site'"),
        (("n", "1,5"), "is a number, such as 18"),
        (("n", "nan"), "is a number"),
        (("n", True), "is a number"),
        (("at", "yesterday"), "is a day or an instant, such as 2026-11-13"),
        (("at", pd.NaT), "is a day or an instant"),
        (("at", 3), "is a day or an instant"),
    ],
)
def test_wrong_ends_of_a_range_raise_error(ends, message):
    explorer = Explorer(MIXED)
    with pytest.raises(InvalidArgument, match=message):
        explorer.choose_range(*ends)
    assert explorer.filter == Filter()


def test_choices_in_two_columns_add_up_and_are_restored():
    explorer = Explorer(MIXED, name="table")
    column = kit.the(explorer, ipywidgets.Dropdown, "Filter by")
    values = kit.the(explorer, MultiSelect, "Values")
    column.value, values.value = "site", ("Third",)
    column.value = "n"
    assert values.value == ()
    values.value = (1, 2)
    column.value = "site"
    assert values.value == ("Third",)
    assert explorer.filter.chosen == {"site": ("Third",), "n": (1, 2)}
    assert_same(explorer, MIXED)
    values.value = ()
    assert explorer.filter.chosen == {"n": (1, 2)}
    kit.press(explorer, "Clear")
    assert len(explorer.frame) == len(MIXED)


def test_filter_applies_to_another_table():
    explorer = Explorer(kit.records(100))
    explorer.choose("status", ["removed"])
    explorer.show(kit.records(10))
    assert len(explorer.frame) == 3
    kit.the(explorer, ipywidgets.Dropdown, "Filter by").value = "status"  # removed is there, and picked
    assert explorer.error is None
    explorer.show(kit.empty("records"))
    kit.the(explorer, ipywidgets.Dropdown, "Filter by").value = "site"
    assert explorer.error is None
    assert explorer.filter.chosen == {"status": ("removed",)}


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        *(([1], "frame"), (None, "frame")),
        *((pd.DataFrame([[1, 2]], columns=columns), "frame") for columns in (["a", "a"], ["1", 1])),
        *((pd.DataFrame({"a": [1]}), name) for name in ("my table", "class", "")),
    ],
    ids=["a list", "none", "doubled", "alike", "two words", "a keyword", "no name"],
)
def test_wrong_table_or_name_raises_error(frame, name):
    with pytest.raises(InvalidArgument):
        Explorer(frame, name=name)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("none", ["a"], "no such column"),
        ("Site", ["Site 000"], "no such column: did you mean 'site'?"),
        ("site", ["Site 0001"], "no such value in site: did you mean"),
        ("site", "elsewhere", "no such value in site: use one of Site 000"),
        ("name", ["Odalys"], "no such value in name: the column has another value or type"),
    ],
)
def test_wrong_column_or_value_raises_error_with_the_nearest(column, values, message):
    explorer = Explorer(kit.records(300))
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        explorer.choose(column, values)
    assert len(explorer.frame) == 300


def test_static_html_states_its_rows():
    explorer = Explorer(kit.records(194))
    explorer.choose("status", "removed")
    words = kit.Read(explorer.to_html()).words
    assert "64 of 194 rows, 0 selected (rows 1 to 20 of 64)" in words


def test_explorer_does_not_change_its_table():
    before = MIXED.copy()
    explorer = Explorer(MIXED)
    explorer.search("a")
    for copy in (explorer.frame, explorer.selection):
        copy["n"] = 7
    pd.testing.assert_frame_equal(MIXED, before)


def test_code_is_readable():
    explorer = Explorer(MIXED, name="table")
    explorer.choose("site", "Third")
    explorer.choose("n", [1, 2])
    kit.tell(kit.grid(explorer), {"sort": "n"})
    explorer.choose_columns(["n", "site"])
    assert explorer.code == (
        'table[(table["site"] == "Third") & (table["n"].isin([1, 2]))].sort_values("n", kind="stable")[["site", "n"]]'
    )
    assert_same(explorer, MIXED)


def test_chosen_columns_are_displayed_and_returned():
    explorer = Explorer(MIXED)
    kit.the(explorer, MultiSelect, "Columns").value = ("0", "site")
    assert explorer.error is None
    assert explorer.columns == ("site", 0)
    assert kit.grid(explorer).columns == explorer.frame.columns.map(str).tolist() == ["site", "0"]
    assert "maybe" not in explorer.to_html()
    kit.the(explorer, MultiSelect, "Columns").value = ()
    assert kit.grid(explorer).columns == [*map(str, MIXED.columns)]
    with pytest.raises(InvalidArgument, match="did you mean 'site'"):
        explorer.choose_columns(["Site"])


def sent_csv(monkeypatch, explorer):
    """The CSV that is sent for the clipboard: a list that grows."""
    sent = []
    monkeypatch.setattr(type(kit.grid(explorer)), "send", lambda _, content: sent.append(content["csv"]))
    return sent


def test_browser_receives_the_filtered_rows_as_csv(monkeypatch):
    explorer = Explorer(pd.DataFrame({"site": ["=cmd()", "Seekfolk"], "n": [1, 2]}))
    sent = sent_csv(monkeypatch, explorer)
    kit.tell(kit.grid(explorer), {"csv": True})
    explorer.choose("n", 2)
    kit.tell(kit.grid(explorer), {"csv": True})
    kit.tell(kit.grid(explorer), {"csv": "yes"})
    assert sent == ["site,n\n'=cmd(),1\nSeekfolk,2\n", "site,n\nSeekfolk,2\n"]


def test_clipboard_receives_a_limited_number_of_rows(monkeypatch):
    explorer = Explorer(kit.records(COPY_MAX + 1))
    sent = sent_csv(monkeypatch, explorer)
    kit.tell(kit.grid(explorer), {"csv": True})
    assert sent == [None]
    assert kit.alerted(explorer).startswith("More than 50,000 rows")


def test_table_of_another_library_is_accepted():
    table = pa.table({"site": ["Seekfolk", "Third", "Third"], "n": [1, 9007199254790993, None]})
    explorer = Explorer(table, name="table")
    explorer.choose("site", "Third")
    assert explorer.frame.to_numpy().tolist() == [["Third", 9007199254790993], ["Third", pd.NA]]
    assert explorer.code == (
        'ek.frames.from_arrow(table).pipe(lambda table: table[table["site"] == "Third"])'
    )
    assert_same(explorer, table)


def test_frame_of_polars_is_accepted():
    table = pl.from_pandas(MIXED.drop(columns=["mixed", 0]), include_index=False)
    explorer = Explorer(table, name="table")
    for column in explorer._table.available():
        explorer.choose(column, [next(iter(explorer._table.values(column)))])
        assert len(explorer.frame)
        assert_same(explorer, table)
        explorer.clear()
    explorer.search("strasse")
    assert {*explorer.frame["text"]} == {"Straße"}
    assert_same(explorer, table)
    lists = [one for one in explorer.frame["lists"] if one is not None]
    assert lists
    with pytest.raises(InvalidArgument, match="not a single column"):
        Explorer(table["n"])


def test_each_header_has_a_summary_of_its_column():
    explorer = Explorer(MIXED)
    explorer.choose_columns(["n", "site"])
    site, n = kit.grid(explorer).summaries
    assert (site["is_number"], n["is_number"], len(n["bars"]) > 1) == (False, True, True)
    assert {value for value, *_ in site["top"]} == {*MIXED["site"]}
    kit.tell(kit.grid(explorer), {"sort": "n"})
    assert kit.grid(explorer).summaries == [site, n]
    explorer.choose("site", [MIXED["site"].iloc[0]])
    assert all(one["note"].endswith("of all rows") for one in kit.grid(explorer).summaries)
    explorer.clear()
    assert kit.grid(explorer).summaries == [site, n]
