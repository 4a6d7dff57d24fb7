"""No key, secret or personal value is in any repr, log line, warning, exception or traceback of the package."""

import asyncio
import json
import logging
import re
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from support import faults
from support.clients import FACES, connected, json_response, many, with_fields
from support.fault_kinds import KINDS, SHORT_S
from support.faults import Answer, BlackHole, Drip, Garbage
from support.services import a_service

import exposurekit as ek
from exposurekit.client import AsyncClient, Client, RetryPolicy, bulk, calls, protocol
from exposurekit.client.retry import Response
from exposurekit.errors import ConfigurationError, ExposureError, InvalidArgument

# Each canary contains a word, or digits, that occur nowhere else.
KEY, SECRET, USER_SECRET = "zqkey-canary", "zqsecret canary", "zqusersecret canary"
PHONE, ZIP = "5559170042", "90817"
CANARY = re.compile(r"zq[a-z]*|5559170042|555.?917.?0042|90817|982374651", re.IGNORECASE)
BIRTH = 982_374_651
PERSON = {
    "first_name": "Zqfirst",
    "middle_name": "Zqmiddle",
    "last_name": "Zqlast",
    "birth_date": BIRTH,
    "aliases": [{"first_name": "Zqalias", "last_name": "Zqother"}],
    "emails": ["zqmail@zqhost.example"],
    "phone_numbers": [PHONE],
    "addresses": [{"address1": "17 Zqstreet Row", "city": "Zqcity", "state": "ZQ", "zip": ZIP}],
}
HERE = str(Path(ek.__file__).parent)
LOGGERS = ("httpx", "httpcore", "aiohttp", "asyncio", "uvicorn", "exposurekit")


def planted(name):
    """The right body of an operation, with a canary wherever personal data may be."""
    record = faults.BODIES["get_record"]["record"] | {
        "name": "Zqfirst Zqlast",
        "href": "https://site.example/zqhref",
        "relations": ["Zqrelation"],
        "aliases": ["Zqalias"],
        "locations": ["Zqcity, ZQ"],
        "reference_id": "zqreference",
    }
    link = {"url": "https://pages.example/zqpage", "title": "Zqtitle", "contains": ["email"]}
    numbered = {name: [{"id": 1} | item for item in PERSON[name]] for name in ("aliases", "addresses")}
    user = faults.BODIES["get_user"]["user"] | PERSON | numbered
    user |= {
        "secret": USER_SECRET,
        "emails": [{"id": 1, "address": PERSON["emails"][0]}],
        "phone_numbers": [{"id": 1, "number": PHONE}],
        "records": [record],
        "links": [link],
    }
    alert = {
        "text": "Zqfirst is listed",
        "html": "<p>Zqfirst</p>",
        "opt_out_procedure": ["Tell them Zqlast"],
        "source_type": "record",
        "source": {"record": record},
    }
    return {
        "list_users": {"count": 1, "users": [{"id": 12, "secret": USER_SECRET}]},
        "list_user_records": {"records": [{"record": record}]},
        "get_record": {"record": record},
        "list_user_links": {"links": [link]},
        "get_user_alerts": {"alerts": [alert]},
    }.get(name, {"user": user})


def well(request):
    return json_response(planted(request.operation))


def everything(request):
    """All that a server could repeat of a request, as one text."""
    sent = json.loads(request.body) if request.body else {}
    texts = [*_leaves(sent), *request.query.values(), KEY, PERSON["emails"][0], PHONE]
    return "; ".join(str(text) for text in texts)


def _leaves(value):
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return [leaf for item in items for leaf in _leaves(item)]
    return [value]


def address(request):
    query = "&".join(f"{name}={quote(value)}" for name, value in request.query.items())
    return f"https://elsewhere.invalid{request.path}?{query}"


def refused_with(body):
    return faults.refused(400, json.dumps(body).encode())


ECHOES = {
    "400 that repeats": lambda request: refused_with({"error": f"invalid: {everything(request)}"}),
    "400 that repeats in capitals": lambda request: refused_with({"errors": [everything(request).upper()]}),
    "401 that repeats in XML": lambda request: faults.refused(
        401, f"<error><message>{everything(request)}</message></error>".encode()
    ),
    "500 that repeats the address": lambda request: Answer(
        status=500, body=json.dumps({"error": f"in {address(request)}"}).encode()
    ),
    "a redirect that repeats the address": lambda request: faults.redirect(address(request)),
    "a page that repeats": lambda request: Answer(body=f"<html><p>{everything(request)}".encode()),
    "a body that repeats": lambda request: json_response({"user": everything(request)}),
    "a field of another type": lambda _: json_response(
        {"user": planted("get_user")["user"] | {"id": "Zqfirst"}}
    ),
    "garbage that repeats": lambda request: Garbage(f"HTTP/1.1 zq {everything(request)}\r\n\r\n".encode()),
    "garbage that is a header": lambda request: Garbage(
        f"HTTP/1.1 200 OK\r\n{everything(request)}\r\n\r\n".encode()
    ),
    "headers that repeat": lambda request: Answer(
        status=500, headers=(("X-Echo", everything(request)), ("Set-Cookie", "zq cookie=zq; =,;zq"))
    ),
    "a phrase that repeats": lambda _: Garbage(
        b"HTTP/1.1 500 Zqfirst Zqlast\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ),
}


def echoing(echo):
    return lambda request: echo(request) if request.operation else None


SCRIPTS = {"well": well} | {name: faults.always(kind.fault) for name, kind in KINDS.items()}
SCRIPTS |= {name: echoing(echo) for name, echo in ECHOES.items()}
OPERATIONS = {
    "create_user": lambda client: client.create_user(**PERSON),
    "list_users": lambda client: client.list_users(),
    "get_user": lambda client: client.get_user((12, USER_SECRET)),
    "update_user": lambda client: client.update_user((12, USER_SECRET), **PERSON),
    "list_user_records": lambda client: client.list_user_records((12, USER_SECRET)),
    "get_record": lambda client: client.get_record((12, USER_SECRET), 120),
    "list_user_links": lambda client: client.list_user_links((12, USER_SECRET)),
    "get_user_alerts": lambda client: client.get_user_alerts((12, USER_SECRET)),
}


class Recorder(logging.Handler):
    """Records every log record: its text, its arguments and its exception."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines = []

    def emit(self, record):
        self.lines.append(f"{record.name}: {self.format(record)} {record.args!r} {record.exc_info!r}")


@contextmanager
def logged():
    """Everything that is logged or warned of in the block, at DEBUG."""
    recorder, loggers = Recorder(), [logging.getLogger(name) for name in ("", *LOGGERS)]
    before = [logger.level for logger in loggers]
    logging.getLogger().addHandler(recorder)
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield recorder.lines
        recorder.lines += [f"{warning.message} {warning.source!r}" for warning in warned]
    finally:
        logging.getLogger().removeHandler(recorder)
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def of_error(error):
    """The texts of an exception: its attributes, its chain, and the package's frames with their locals."""
    texts = []
    while error is not None:
        texts += [str(error), repr(error), repr(error.args), repr(vars(error))]
        trace = traceback.TracebackException.from_exception(error, capture_locals=True)
        for frame in trace.stack:
            if frame.filename.startswith(HERE):
                texts.append(f"{frame.name} {frame.line} {frame.locals}")
        assert error.__cause__ is None or error.__cause__ is not error
        error = error.__cause__ or error.__context__
    return texts


def of_value(value):
    """The texts of a value."""
    items = value if isinstance(value, list) else [value]
    return [text for item in items for text in (repr(item), str(item), f"{item}")]


def assert_no_canary(texts):
    leaks = [
        text[max(0, match.start() - 300) : match.end() + 100]
        for text in texts
        if (match := CANARY.search(text))
    ]
    assert not leaks, leaks[0]


def settings(**more):
    defaults = {"integration_name": "acme", "api_key": KEY, "api_secret": SECRET}
    return defaults | {"retries": RetryPolicy(1, initial_delay=0)} | more


def test_canaries_are_sent_and_returned():
    """Otherwise the tests below could not fail."""
    with faults.running(well) as server, connected("blocking", server.base_url, **settings()) as client:
        user = client.create_user(**PERSON)
        client.get_user(user)
        [created, got] = server.requests
    assert KEY in created.path
    assert len(CANARY.findall(created.body.decode())) >= 12
    assert got.query == {"api_secret": SECRET, "secret": USER_SECRET}
    assert CANARY.search(user.model_dump_json())


def texts_of_all_calls(client):
    texts = [repr(client), str(client), repr(client.config), repr(client.retry_policy)]
    for send in OPERATIONS.values():
        try:
            texts += of_value(send(client))
        except ExposureError as error:
            texts += of_error(error)
    return texts


def timeout_of(script):
    return SHORT_S if script in {"black hole", "drip"} else 10


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("script", SCRIPTS)
def test_no_operation_reveals_a_canary(face, script):
    with (
        faults.running(SCRIPTS[script]) as server,
        logged() as log,
        connected(face, server.base_url, **settings(timeout=timeout_of(script))) as client,
    ):
        texts = texts_of_all_calls(client)
    assert {request.operation for request in server.requests} == set(OPERATIONS)
    assert any(line.startswith("httpcore") for line in log) == (face == "blocking")
    assert_no_canary(texts + log)


@pytest.mark.parametrize("location", ["query", "body", "header"])
@pytest.mark.parametrize("script", ["well", "400 that repeats", "a redirect that repeats the address"])
def test_no_request_style_reveals_a_canary(location, script):
    style = settings(credentials_in=location, transport=httpx.HTTPTransport())
    with (
        faults.running(SCRIPTS[script]) as server,
        logged() as log,
        connected("blocking", server.base_url, **style) as client,
    ):
        texts = texts_of_all_calls(client)
    assert_no_canary(texts + log)


@pytest.mark.parametrize("script", SCRIPTS)
def test_load_reveals_canaries_only_in_its_tables(script):
    def script_after_list(request):
        return well(request) if request.operation == "list_users" else SCRIPTS[script](request)

    with faults.running(script_after_list) as server, logged() as log:
        exposure = ek.connect(server.base_url, **settings(timeout=timeout_of(script)), progress=False)
        texts = [repr(exposure)]
        failures = exposure.failures()
        texts += [repr(exposure), str(exposure), exposure.provenance, repr(exposure.key(12))]
        texts += [repr(vars(exposure)["_snapshot"]), failures.to_csv(), repr(failures)]
        tables = exposure.users().to_csv() + exposure.records().to_csv()
        exposure.client.close()
    assert bool(CANARY.search(tables)) == (script == "well")
    assert_no_canary(texts + log)


def test_error_of_a_late_page_contains_no_loaded_user():
    """The frames that the error passes contain what was loaded so far."""
    person = with_fields(lambda number: planted("get_user")["user"] | {"id": number})

    def meddle(request, number):
        if request.operation == "list_users" and int(request.query["offset"]) >= 300:
            return SCRIPTS["400 that repeats"](request)
        return person(request, number)

    with faults.running(many(range(1, 350), meddle)) as server, logged() as log:
        exposure = ek.connect(server.base_url, **settings(), progress=False)
        with pytest.raises(ExposureError) as caught:
            exposure.refresh()
        assert CANARY.search(exposure.users().to_csv())
    assert_no_canary(of_error(caught.value) + log + [repr(exposure)])


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "change",
    [
        {"birth_date": "zq"},
        {"emails": "zqmail@zqhost.example"},
        {"emails": [{"adress": "zqmail"}]},
        {"aliases": [{"alias_type": "zq"}]},
        {"name": 1},
        {"user": USER_SECRET},
        {"user": (USER_SECRET, 12)},
        {"user": (12, {"secret": USER_SECRET})},
    ],
)
def test_arguments_are_refused_without_their_values(face, change):
    arguments = {"user": (12, USER_SECRET)} | PERSON | change
    error = TypeError if "name" in change else InvalidArgument
    with connected(face, "https://service.example", **settings()) as client, pytest.raises(error) as caught:
        client.update_user(arguments.pop("user"), **arguments)
    assert_no_canary(of_error(caught.value))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "yaml"},
        {"lists": "csv"},
        {"base_url": "https://zquser:zqpass@service.example"},
        {"base_url": f"https://service.example/api/acme/{KEY}/v2"},
        {"integration_name": ""},
    ],
)
def test_invalid_settings_are_refused_without_their_values(kind, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigurationError, InvalidArgument)) as caught:
        kind(**settings() | {"base_url": "https://service.example"} | wrong)
    error = caught.value
    assert_no_canary(
        [str(error), repr(error), repr(vars(error)), repr(error.__cause__), repr(error.__context__)]
    )


def test_no_internal_value_contains_a_canary_in_its_repr():
    with connected("blocking", "https://service.example", **settings()) as client:
        call = calls.update_user((12, USER_SECRET), **PERSON)
        key = calls.user_key((12, USER_SECRET))
        response = Response(200, {"x-zq": "zq"}, json.dumps(planted("get_user")).encode())
        user = protocol.model(calls.get_user(key), client.config, response)
        values = [client, client.config, call, protocol.request(call, client.config), response, key]
        values += [user, user.key]
        parts = [user.aliases, user.emails, user.phone_numbers, user.addresses, user.records, user.links]
        values += [item for part in parts for item in part]
        values += [bulk.Batch([key], [planted("get_user")["user"]], [], [])]
    texts = [text for value in values for text in of_value(value)]
    assert_no_canary([text for text in texts if text != repr(user.records[0])])
    assert "Zq" not in repr(user.records[0])


@pytest.mark.parametrize("fault", [BlackHole(), Drip(piece=b'{"user": {"first_name": "Zqfirst"')], ids=str)
@pytest.mark.parametrize("transport", [None, httpx.AsyncHTTPTransport], ids=str)
def test_cancelled_call_contains_no_canary(fault, transport):
    async def cancelled(server):
        carried = transport() if transport else None
        async with AsyncClient(server.base_url, **settings(transport=carried)) as client:
            task = asyncio.create_task(client.update_user((12, USER_SECRET), **PERSON))
            while not server.requests:  # noqa: ASYNC110  the server lives in other threads
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.03)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError as error:
                return of_error(error)

    with faults.running(faults.always(fault)) as server, logged() as log:
        texts = asyncio.run(cancelled(server))
    assert texts
    assert_no_canary(texts + log)


def test_interrupted_call_contains_no_canary():
    def interrupted(request):
        raise KeyboardInterrupt

    transport = httpx.MockTransport(interrupted)
    with (
        connected("blocking", "https://service.example", **settings(transport=transport)) as client,
        pytest.raises(KeyboardInterrupt) as caught,
    ):
        client.update_user((12, USER_SECRET), **PERSON)
    assert_no_canary(of_error(caught.value))


def test_our_service_logs_no_canary(tmp_path):
    with logged() as log, a_service(tmp_path) as service:
        names = ("integration_name", "api_key", "api_secret")
        mine = {name: getattr(service.credentials, name) for name in names}
        for face in FACES:
            with connected(face, service.base_url, **mine) as client:
                person = PERSON | {"addresses": PERSON["addresses"][:1]}
                user = client.create_user(**person)
                texts = of_value(user) + of_value(client.update_user(user, first_name="Zqchanged"))
                for name in ("get_user", "list_user_records", "list_user_links", "get_user_alerts"):
                    texts += of_value(getattr(client, name)(user))
                for name, arguments in (("get_user", [(user.id, "zq")]), ("get_record", [user, 999])):
                    with pytest.raises(ExposureError) as caught:
                        getattr(client, name)(*arguments)
                    texts += of_error(caught.value)
                assert_no_canary(texts)
                secrets = (mine["api_key"], mine["api_secret"], str(user.secret))
                assert not [text for text in texts + log if any(secret in text for secret in secrets)]
    assert_no_canary(log)
    assert any(line.startswith("httpx: ") and "/***/v2/users" in line for line in log)
