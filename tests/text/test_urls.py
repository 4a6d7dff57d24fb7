"""URLs: one spelling for one page, and a host for any text."""

from hypothesis import given
from hypothesis import strategies as st

from exposurekit.text.urls import host, normalize_url


def test_a_normalized_url_has_the_parameters_of_its_page():
    assert normalize_url("https://page.example/a?utm_medium=x&id=1&b=") == "https://page.example/a?id=1&b="


@given(st.text())
def test_any_text_has_a_host_and_is_normalized_once(text):
    """Also hosts in brackets, ports that are words, lone surrogates."""
    assert isinstance(host(text), str)
    assert normalize_url(normalize_url(text)) == normalize_url(text)
