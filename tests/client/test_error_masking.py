"""The reason in an error response: common words, and nobody's data."""

import json

import pytest
from support import faults
from support.clients import many

import exposurekit as ek
from exposurekit.client import calls
from exposurekit.client.config import ClientConfig
from exposurekit.client.error_masking import reason_of
from exposurekit.client.retry import Response

CONFIG = ClientConfig("https://service.example", "acme", "k-1", "s&cret=1")
GET = calls.get_user((12, "ab12"))


def reason(text):
    return reason_of(GET, CONFIG, Response(404, {}, json.dumps({"error": text}).encode()))


@pytest.mark.parametrize(
    "text",
    [
        "the user's id or secret is not accepted",
        "the integration name or the api_key is not accepted",
        "too many failed authentications",
        "first_name is given two different values",
        "addresses[0][city] is missing, emails[3][id] is invalid",
        "aliases has more than 100 items",
        "limit is invalid: an integer from 1 to 1000",
        "first_name is invalid: at most 255 characters",
        "aliases[0][alias_type] is invalid: nickname or maiden",
        "birth_date is invalid: it is in the future",
        "id is invalid: the user has no such record",
        "the body must be an object",
        "not a complete multipart form of plain fields in UTF-8",
        "not XML that can be read: it declares a document type",
        "Invalid API key",
        "User not found",
    ],
)
def test_common_words_of_a_reason_are_unchanged(text):
    assert reason(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (
            "user zelda@marrow.example, phone 555-010-1111, Zelda Marrow, 9 Thorn Way is deactivated",
            "user *** phone ***, *** ***, *** *** *** is deactivated",
        ),
        ("user Jane Long (born 1980-02-29) not found", "user *** *** (*** ***) not found"),
        ("no such user: Шарлотта O'Neil", "no such user: *** ***"),
        ("Zelda Marrow", ""),
        ("Zelda", ""),
    ],
)
def test_personal_values_are_masked(text, masked):
    assert reason(text) == masked


def test_failure_contains_no_personal_value():
    def meddle(request, number):
        body = b'{"error": "Zelda Marrow, 9 Thorn Way is deactivated"}'
        return faults.refused(404, body) if number else None

    settings = {"integration_name": "acme", "api_key": "key", "api_secret": "secret", "progress": False}
    with faults.running(many([1], meddle)) as server:
        [row] = ek.connect(server.base_url, **settings).failures()["reason"]
    assert "(404: *** ***, *** *** *** is deactivated)" in row
