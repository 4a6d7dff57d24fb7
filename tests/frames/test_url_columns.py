"""Columns of URLs are parsed as single URLs are."""

import pandas as pd
from hypothesis import example, given
from hypothesis import strategies as st

from exposurekit.frames.url_columns import hosts, page_keys
from exposurekit.text.urls import host, page_key

PARTS = (
    *(
        "http://",
        "https://",
        "HTTP://",
        "//",
        "ftp://",
        "www.",
        "WWW.",
        "a.example",
        "A.example",
        "[::1]",
        "/",
        "/p",
    ),
    *(
        ":80",
        ":443",
        ":",
        "?q=1",
        "?utm_source=x",
        "#f",
        "@",
        "é",
        "%20",
        ";",
        "..",
        "\\",
        '"',
        "^",
        " ",
        "\t",
        "\n",
    ),
)


@example(["http:// "])
@example(["// "])  # no host, but a space
@given(st.lists(st.lists(st.sampled_from(PARTS), min_size=1).map("".join).filter(str.strip), min_size=1))
def test_urls_together_are_parsed_as_one_by_one(urls):
    addresses = [url.strip() for url in urls]
    assert page_keys(pd.Index(addresses)).tolist() == [*map(page_key, addresses)]
    assert [*hosts(pd.Series(urls, dtype="str"))] == [*map(host, urls)]
