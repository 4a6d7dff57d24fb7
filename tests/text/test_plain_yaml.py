"""YAML as plain data, with its lines; tests of rules and site definitions cover what is refused."""

import pytest

from exposurekit.text.plain_yaml import InvalidYaml, dump, read

TEXT = """\
name: Seekfolk
tries: 3
share: 0.5
since: 2026-11-13
empty:
sites:
  - a
  - {b: true}
"""


def test_values_are_plain_and_dates_are_text():
    assert read(TEXT).value == {
        "name": "Seekfolk",
        "tries": 3,
        "share": 0.5,
        "since": "2026-11-13",
        "empty": None,
        "sites": ["a", {"b": True}],
    }
    assert read("").value is None


@pytest.mark.parametrize(
    "text", ["no", "3", "1e3", "a: b", "# x", "- x", "&x", "*x", "!!x", "'", '"', "", "2026-11-13", "é\n"]
)
def test_a_text_that_is_written_is_read_as_it_was(text):
    value = {text: [text, {"a": text}]}
    assert read(dump(value)).value == value


@pytest.mark.parametrize(
    ("position", "line"),
    [((), 1), (("since",), 4), (("sites",), 6), (("sites", 1), 8), (("sites", 1, "b"), 8), (("sites", 7), 6)],
)
def test_keys_and_items_have_their_lines(position, line):
    assert read(TEXT).line(position) == line


def test_repeated_key_names_its_position():
    with pytest.raises(InvalidYaml, match="is repeated") as refused:
        read("a: {b: 1}\nc:\n  - d: 1\n    d: 2\n")
    assert (refused.value.line, refused.value.position) == (4, ("c", 0, "d"))
