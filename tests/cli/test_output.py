"""Columns in the terminal."""

from exposurekit.cli import output


def test_columns_line_up_after_wide_characters(capsys):
    """A Chinese or Korean character is two columns wide, an emoji too, and an accent has no width."""
    names = ["Ann Quill", "山田 太郎", "Zoe\u0301 Otterwick", "👩 Wren", "한글\x1b[2J"]
    output.print_columns([{"name": name, "records": 7} for name in names])
    assert capsys.readouterr().out.splitlines() == [
        "name           records",
        "Ann Quill      7",
        "山田 太郎      7",
        "Zoe\u0301 Otterwick  7",
        "👩 Wren        7",
        "한글[2J        7",
    ]
