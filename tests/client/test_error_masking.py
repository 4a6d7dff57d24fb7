"""The reason in an error response: common words, and nobody's data."""

import ast
import importlib
import json
from pathlib import Path

import pytest
from support import faults
from support.clients import many

import exposurekit as ek
from exposurekit.client import calls, error_masking
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
        *(f"birth_date is invalid: it {reason}, limit is missing" for reason in error_masking._OWN_REASONS),
        "limit is invalid: it must be an integer from 1 to 1000",
        "first_name is invalid: it must have at most 255 characters",
        "aliases[0][alias_type] is invalid: it must be nickname or maiden",
        "birth_date is invalid: it must be epoch seconds or a date such as 1980-02-29",
        "birth_date is invalid: it must not be in the future",
        "id is invalid: the user has no such record",
        "the quota of 25 people is reached: ask the operator to raise it",
        "the quota of 1,500 people is reached: ask the operator to raise it",
        "the body must be an object",
        "not a complete multipart form of plain fields in UTF-8",
        "not XML that can be read: it declares a document type",
        "Invalid API key",
        "User not found",
    ],
)
def test_common_words_of_a_reason_are_unchanged(text):
    assert reason(text) == text


def service_reasons():
    """The texts that the service's code passes to an error response; an unknown value is `first_name`."""
    folder = Path(ek.__file__).with_name("service")
    for path in sorted(folder.rglob("*.py")):
        calls_of_errors = [
            node
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"ApiError", "responses.error"}
        ]
        if calls_of_errors:
            names = ".".join(("exposurekit.service", *path.relative_to(folder).with_suffix("").parts))
            scope = vars(importlib.import_module(names))
            yield from (
                text for call in calls_of_errors for one in call.args if (text := written(one, scope))
            )


def written(node, scope):
    """An argument's text; empty if it is no text."""
    match node:
        case ast.JoinedStr():
            return "".join(written(part, scope) for part in node.values)
        case ast.FormattedValue():
            return str(known(node.value, scope, "first_name"))
        case _:
            value = known(node, scope, "")
            return value if isinstance(value, str) else ""


def known(node, scope, default):
    """The value of an expression that needs no variables of its function."""
    try:
        return eval(ast.unparse(node), scope)  # noqa: S307  our own code
    except (NameError, SyntaxError):
        return default


def test_no_word_of_the_service_is_masked():
    reasons = {*service_reasons()}
    assert len(reasons) > 15
    assert {text: reason(text) for text in reasons} == {text: text for text in reasons}


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
        ("Subscription of Zelda expired, contact billing", "Subscription of *** expired, contact billing"),
        ("Zelda", ""),
        ("address 1204 to 1208", "address *** to ***"),
        ("birth_date is invalid: 1980 to 1985", "birth_date is invalid: *** to ***"),
        ("it must be an integer from 1204 to 1208", "it must be an integer from *** to ***"),
        ("user Maiden or nickname Zed", "user *** or *** ***"),
    ],
)
def test_personal_values_are_masked(text, masked):
    assert reason(text) == masked


@pytest.mark.parametrize("name", ["Maiden", "Nickname", "nickname"])
def test_a_sent_name_of_an_alias_type_is_masked(name):
    call = calls.update_user((12, "ab12"), last_name=name)
    body = json.dumps({"error": f"{name} is invalid, alias_type must be nickname or maiden"}).encode()
    text = reason_of(call, CONFIG, Response(400, {}, body))
    assert text == "*** is invalid, alias_type must be nickname or maiden"


def test_failure_contains_no_personal_value():
    def meddle(request, number):
        body = b'{"error": "Zelda Marrow, 9 Thorn Way is deactivated"}'
        return faults.refused(404, body) if number else None

    settings = {"integration_name": "acme", "api_key": "key", "api_secret": "secret", "progress": False}
    with faults.running(many([1], meddle)) as server:
        [row] = ek.connect(server.base_url, **settings).failures()["reason"]
    assert "(404: *** ***, *** *** *** is deactivated)" in row
