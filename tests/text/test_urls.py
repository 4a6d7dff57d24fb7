"""URLs: one spelling for one page, and a host for any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposurekit.text.urls import host, normalize_url


def test_a_normalized_url_has_the_parameters_of_its_page():
    assert normalize_url("https://page.example/a?utm_medium=x&id=1&b=") == "https://page.example/a?id=1&b="
    assert normalize_url("https://page.example/a?q=a%20b&gclid=1") == "https://page.example/a?q=a%20b"


@pytest.mark.parametrize(
    "name", ["utm_id", "fbclid", "mc_cid", "MC_EID", "mc%5Feid", "__hsfp", "hsCtaTracking", "mtm_x"]
)
def test_a_tracking_parameter_does_not_make_another_page(name):
    assert normalize_url(f"https://page.example/a?{name}=1") == "https://page.example/a"
    assert normalize_url(f"https://page.example/a?id=1&{name}") == "https://page.example/a?id=1"


@pytest.mark.parametrize("name", ["mc", "cid", "fbclid2", "id", "utm", "s"])
def test_a_parameter_of_another_name_is_of_the_page(name):
    url = f"https://page.example/a?{name}=mc_cid"
    assert normalize_url(url) == url


@given(st.text())
def test_any_text_has_a_host_and_is_normalized_once(text):
    """Also hosts in brackets, ports that are words, lone surrogates."""
    assert isinstance(host(text), str)
    assert normalize_url(normalize_url(text)) == normalize_url(text)
