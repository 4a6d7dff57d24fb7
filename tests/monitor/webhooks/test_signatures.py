"""Authentication of deliveries by Standard Webhooks signatures, with the reference implementation as sender."""

import time
from datetime import timedelta
from email import message_from_string

import pytest
from support.inbox import BODY, NOW, PATH, SECRET, listening, signed_headers

import exposurekit as ek
from exposurekit.errors import ConfigurationError, InvalidArgument, InvalidResponse, InvalidSignature
from exposurekit.monitor.webhooks.receiver import create_app
from exposurekit.service.webhooks.delivery import build_headers
from exposurekit.service.webhooks.endpoints import Callback, new_secret

OLD_SECRET = new_secret()


@pytest.fixture(scope="module")
def client(shared_inbox):
    secrets = [SECRET, OLD_SECRET.removeprefix("whsec_")]
    with listening(shared_inbox, signing_secrets=secrets, clock=lambda: NOW) as http:
        yield http


@pytest.fixture
def signed(client, inbox):
    return client


def status_of(http, headers, path="/"):
    return http.post(path, content=BODY, headers=headers).status_code


def test_standard_webhooks_signatures_are_accepted_at_the_root(signed, inbox):
    assert status_of(signed, signed_headers()) == 204
    assert status_of(signed, signed_headers(), f"/{PATH}") == 404
    assert [message.body for message in inbox.unprocessed()] == [BODY.encode()]


def test_signatures_of_our_service_are_accepted(signed):
    callback = Callback("https://acme.example/hook", SECRET)
    assert status_of(signed, build_headers(callback, "msg_1", NOW, BODY.encode())) == 204


@pytest.mark.parametrize("at", [NOW - timedelta(minutes=5), NOW + timedelta(minutes=5), NOW])
@pytest.mark.parametrize("secret", [SECRET, OLD_SECRET], ids=["new", "old"])
def test_each_secret_is_accepted_within_five_minutes(signed, secret, at):
    assert status_of(signed, signed_headers(secret, at)) == 204


def test_one_valid_signature_of_several_is_enough(signed):
    headers = signed_headers()
    other = signed_headers(new_secret())["webhook-signature"]
    headers["webhook-signature"] = f"v1a,AAAA v1, {other} {headers['webhook-signature']}"
    assert status_of(signed, headers) == 204


WRONG = {
    "another secret": signed_headers(new_secret()),
    "another body": signed_headers(body=BODY + " "),
    "too old": signed_headers(at=NOW - timedelta(minutes=5, seconds=1)),
    "too new": signed_headers(at=NOW + timedelta(minutes=5, seconds=1)),
    "another id": signed_headers() | {"webhook-id": "msg_2"},
    "another instant": signed_headers() | {"webhook-timestamp": str(int(NOW.timestamp()) + 1)},
    "no instant": signed_headers() | {"webhook-timestamp": "now"},
    "a huge instant": signed_headers() | {"webhook-timestamp": "9" * 5_000},
    "another version": {
        **signed_headers(),
        "webhook-signature": signed_headers()["webhook-signature"].replace("v1", "v2"),
    },
    "no signature": signed_headers() | {"webhook-signature": ""},
    "not base64": signed_headers() | {"webhook-signature": "v1,\u00e9".encode("latin-1")},
    **{
        f"without {name}": {other: value for other, value in signed_headers().items() if other != name}
        for name in signed_headers()
    },
}


@pytest.mark.parametrize("name", WRONG)
def test_a_delivery_without_a_valid_signature_is_rejected(signed, inbox, name):
    answer = signed.post("/", content=BODY, headers=WRONG[name])
    assert (answer.status_code, answer.content) == (401, b"")
    assert inbox.counts().waiting == 0


@pytest.mark.parametrize("name", WRONG)
def test_verify_webhook_refuses_what_the_inbox_refuses(name):
    headers = {
        name: value if isinstance(value, str) else value.decode("latin-1")
        for name, value in WRONG[name].items()
    }
    with pytest.raises(InvalidSignature, match=r"^the webhook "):
        ek.verify_webhook(BODY.encode(), headers, [OLD_SECRET, SECRET], now=NOW)


@pytest.mark.parametrize(
    "secret", [SECRET, SECRET.removeprefix("whsec_"), [OLD_SECRET, SECRET]], ids=["whole", "bare", "two"]
)
def test_verify_webhook_returns_the_delivery(secret):
    headers = {name.title(): value for name, value in signed_headers().items()}
    delivery = ek.verify_webhook(BODY.encode(), headers, secret, now=NOW)
    assert (delivery.user_id, delivery.events) == (12, [])


def test_verify_webhook_refuses_other_bodies():
    with pytest.raises(InvalidResponse, match=r"^not a delivery: user_id is missing"):
        ek.verify_webhook(b"{}", signed_headers(body="{}"), SECRET, now=NOW)
    with pytest.raises(InvalidArgument, match=r"^body must be the bytes"):
        ek.verify_webhook(BODY, signed_headers(), SECRET, now=NOW)
    with pytest.raises(ConfigurationError, match=r"^a signing secret must be base64"):
        ek.verify_webhook(BODY.encode(), signed_headers(), "whsec_s3cret", now=NOW)


FORMS_OF_HEADERS = {
    "bytes": lambda headers: {name.encode(): value.encode() for name, value in headers.items()},
    "pairs of bytes": lambda headers: [(name.encode(), value.encode()) for name, value in headers.items()],
    "message": lambda headers: message_from_string("".join(f"{name}: {headers[name]}\n" for name in headers)),
    "pairs": lambda headers: list(headers.items()),
}


@pytest.mark.parametrize("form", FORMS_OF_HEADERS)
def test_verify_webhook_reads_headers_in_every_form(form):
    headers = FORMS_OF_HEADERS[form](signed_headers())
    assert ek.verify_webhook(BODY.encode(), headers, SECRET, now=NOW).user_id == 12


@pytest.mark.parametrize("headers", [None, 7, "webhook-id", b"webhook-id", ["webhook-id"], {"webhook-id": 7}])
def test_verify_webhook_refuses_other_kinds_of_headers(headers):
    with pytest.raises(InvalidArgument, match=r"^headers must be a mapping or pairs, of strings or bytes$"):
        ek.verify_webhook(BODY.encode(), headers, SECRET, now=NOW)


def test_verify_webhook_requires_a_secret():
    with pytest.raises(ConfigurationError, match=r"^no signing secret$"):
        ek.verify_webhook(BODY.encode(), signed_headers(), [], now=NOW)


@pytest.mark.parametrize("secret", [None, SECRET.encode(), [None], [SECRET.encode()]], ids=range(4))
def test_verify_webhook_refuses_other_kinds_of_secrets(secret):
    with pytest.raises(InvalidArgument, match=r"^secret must be a string, or several$"):
        ek.verify_webhook(BODY.encode(), signed_headers(), secret, now=NOW)


def test_verify_webhook_takes_times_without_zone_as_utc(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        now = NOW.replace(tzinfo=None)
        assert ek.verify_webhook(BODY.encode(), signed_headers(), SECRET, now=now).user_id == 12
    finally:
        monkeypatch.undo()
        time.tzset()


def test_with_both_secrets_both_are_required(inbox):
    with listening(inbox, path_secret=PATH, signing_secrets=SECRET, clock=lambda: NOW) as http:
        statuses = [
            status_of(http, headers, path) for path in (f"/{PATH}", "/") for headers in (signed_headers(), {})
        ]
    assert statuses == [204, 401, 404, 404]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "set a path secret or a signing secret"),
        ({"path_secret": "short-s3cret"}, "a path secret must have 16 to 200"),
        ({"path_secret": "with/a/slash/in-s3cret"}, "a path secret must have 16 to 200"),
        ({"signing_secrets": "whsec_s3cret"}, "base64 of at least 16 bytes"),
        ({"signing_secrets": [SECRET, "s3cret!" * 9]}, "base64 of at least 16 bytes"),
    ],
)
def test_an_unprotected_inbox_is_not_created(inbox, options, message):
    with pytest.raises(ConfigurationError, match=message) as raised:
        create_app(inbox, **options)
    assert "s3cret" not in str(raised.value)
