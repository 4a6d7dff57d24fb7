"""The keys of items: they are hashes that are stored, so they never change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposurekit.history import record_keys


def test_a_hash_never_changes():
    """Another value would make every link and alert of every history a new one."""
    assert record_keys.hash64("a", None, 1) == -4203991922443028169
    assert record_keys.link_key("https://page.example/a", "A") == -5207843220222167596
    tracked = "https://www.seekfolk.example/p/7/?fbclid=1&name=Ann%20Lee"
    assert record_keys.link_key(tracked, "A") == -6895397701955651694
    tracked = "https://seekfolk.example/p/7?utm_source=x&name=Ann%20Lee&mc_cid=2"
    assert record_keys.link_key(tracked, "A") == -352329380711924261
    assert record_keys.record_key(1, "Seekfolk", "0042", by="reference") == -4746489902531090495
    assert record_keys.alert_key(12, "Seekfolk", None, None, "Gone") == -1166296935995457201
    assert record_keys.alert_key(12, "Seekfolk", None, None, "Gone", by="reference") == 3672750211422652358


@pytest.mark.parametrize("blank", [None, "", " ", "\t\n"])
def test_a_blank_reference_identifies_nothing(blank):
    assert record_keys.record_key(12, "Seekfolk", blank, by="reference") == 12


@pytest.mark.parametrize(
    ("url", "is_same"),
    [
        ("HTTPS://PAGE.example/a", True),
        ("https://page.example:443/a", True),
        ("https://page.example/a/", True),
        ("https://page.example/a#top", True),
        (" https://page.example/a?utm_source=x&gclid=1 ", True),
        ("http://page.example/a", False),
        ("https://page.example/A", False),
        ("https://page.example/a?id=1", False),
        ("https://page.example:8443/a", False),
        ("https://other.example/a", False),
    ],
)
def test_equivalent_urls_have_one_key(url, is_same):
    assert (record_keys.link_key(url, "A") == record_keys.link_key("https://page.example/a", "B")) is is_same


def test_a_link_without_a_url_is_identified_by_title():
    assert record_keys.link_key(None, "A") == record_keys.link_key("", "A") != record_keys.link_key(None, "B")


def test_an_alert_is_identified_by_its_source_and_text():
    about = (12, "Seekfolk", "https://seekfolk.example/12", None)
    assert record_keys.alert_key(*about, "Gone") != record_keys.alert_key(*about, "Found")
    assert record_keys.alert_key(*about, "Gone") != record_keys.alert_key(13, *about[1:], "Gone")
    renumbered = record_keys.alert_key(13, *about[1:], "Gone", by="reference")
    assert renumbered == record_keys.alert_key(*about, "Gone", by="reference")
    assert renumbered != record_keys.alert_key(13, "Nosy Heron", *about[2:], "Gone", by="reference")


@given(st.text())
def test_any_text_has_a_key(text):
    """Also hosts in brackets, ports that are words, lone surrogates."""
    assert -(2**63) <= record_keys.link_key(text, text) < 2**63
