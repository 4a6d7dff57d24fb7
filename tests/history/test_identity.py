"""What makes two things one thing: these hashes lie on disks, and stay what they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposurekit.history import identity


def test_a_hash_is_what_it_always_was():
    """Another value would make every link and alert of every history a new one."""
    assert identity.hash64("a", None, 1) == -4203991922443028169
    assert identity.link_key("https://page.example/a", "A") == -5207843220222167596
    assert identity.record_key(1, "Seekfolk", "0042", by="reference") == -4746489902531090495
    assert identity.alert_key(12, "Seekfolk", None, None, "Gone") == -1166296935995457201
    assert identity.alert_key(12, "Seekfolk", None, None, "Gone", by="reference") == 3672750211422652358


@pytest.mark.parametrize("blank", [None, "", " ", "\t\n"])
def test_a_blank_reference_identifies_nothing(blank):
    assert identity.record_key(12, "Seekfolk", blank, by="reference") == 12


@pytest.mark.parametrize(
    "same",
    [
        "HTTPS://PAGE.example/a",
        "https://page.example:443/a",
        "https://page.example/a/",
        "https://page.example/a#top",
        " https://page.example/a?utm_source=x&gclid=1 ",
    ],
)
def test_a_page_is_one_however_its_address_is_written(same):
    assert identity.link_key(same, "A") == identity.link_key("https://page.example/a", "B")


@pytest.mark.parametrize(
    "other",
    [
        "http://page.example/a",
        "https://page.example/A",
        "https://page.example/a?id=1",
        "https://page.example:8443/a",
        "https://other.example/a",
    ],
)
def test_another_page_is_another(other):
    assert identity.link_key(other, "A") != identity.link_key("https://page.example/a", "A")


def test_parameters_that_find_the_page_stay():
    assert (
        identity.normalize_url("https://page.example/a?utm_medium=x&id=1&b=")
        == "https://page.example/a?id=1&b="
    )


def test_a_link_without_an_address_is_told_by_its_title():
    assert identity.link_key(None, "A") == identity.link_key("", "A") != identity.link_key(None, "B")


def test_an_alert_is_identified_by_its_source_and_text():
    about = (12, "Seekfolk", "https://seekfolk.example/12", None)
    assert identity.alert_key(*about, "Gone") != identity.alert_key(*about, "Found")
    assert identity.alert_key(*about, "Gone") != identity.alert_key(13, *about[1:], "Gone")
    renumbered = identity.alert_key(13, *about[1:], "Gone", by="reference")
    assert renumbered == identity.alert_key(*about, "Gone", by="reference")
    assert renumbered != identity.alert_key(13, "Nosy Heron", *about[2:], "Gone", by="reference")


@given(st.text())
def test_any_text_has_a_key_and_a_host(text):
    """Sites write addresses as they like: hosts in brackets, ports that are words, lone surrogates."""
    assert -(2**63) <= identity.link_key(text, text) < 2**63
    assert isinstance(identity.host(text), str)
    assert identity.normalize_url(identity.normalize_url(text)) == identity.normalize_url(text)
