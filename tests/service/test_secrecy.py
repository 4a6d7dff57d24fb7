"""Database files and logs, even at DEBUG, contain no personal data and no secrets."""

import logging
import re
from functools import partial

import pytest
from sqlalchemy import delete, update
from support.services import JANE, Service, a_database, a_service, in_event_loop, opened

from exposurekit.contract.inputs import EmailItem
from exposurekit.contract.operations import OPERATIONS
from exposurekit.service.accounts import user_items
from exposurekit.service.api import middleware
from exposurekit.service.findings.findings import Listing, Page, Site, discover_link, discover_record
from exposurekit.service.findings.removals import submit_removal
from exposurekit.service.storage import tables

PERSON = {
    "first_name": "Canaria",
    "middle_name": "Canarina",
    "last_name": "Canarsson",
    "birth_date": 86_400_123,
    "aliases": [{"first_name": "Canary", "last_name": "Canarbird", "alias_type": "maiden"}],
    "emails": [{"address": "canary@mine.example"}],
    "phone_numbers": [{"number": "5550007654321"}],
    "addresses": [
        {
            "address1": "77 Canary Row",
            "address2": "Canary Floor",
            "city": "Canarytown",
            "state": "Canarystate",
            "zip": "98765-CANARY",
            "country": "Canaryland",
        }
    ],
}
LISTING = Listing(
    name="Canaria Listed",
    reference_id="canary-000123",
    href="https://canary.example/listed",
    relations=("Canary Relation",),
    aliases=("Canary Otherwise",),
    locations=("Canary Location",),
)
PAGE = Page(url="https://canary.example/page", title="Canary Title", contains=("email",))


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return {leaf for inner in value for leaf in leaves(inner)}
    return {str(value)}


def planted(service: Service):
    """A user with every field; and every value that must not leak."""
    user = service.create(**PERSON)

    async def find(work):
        user["record_id"] = await discover_record(work, user["id"], LISTING, Site(name="Site"))
        await discover_link(work, user["id"], PAGE)
        await submit_removal(work, user["record_id"], Site(name="Site"))

    service.work(find)
    listed = {LISTING.name, LISTING.reference_id, LISTING.href}
    listed |= {"Canary Relation", "Canary Otherwise", "Canary Location"}
    secrets = {service.credentials.api_key, service.credentials.api_secret, user["secret"]}
    values = leaves(PERSON) - {"maiden"} | listed | {PAGE.url, PAGE.title} | secrets
    return user, {value.encode() for value in values}


def test_database_files_contain_no_personal_data(tmp_path):
    """Also the write-ahead log, while the service runs."""
    with a_service(tmp_path) as service:
        user, values = planted(service)
        service.update(user, first_name="Canarlotta", emails="canarlotta@mine.example")
        values |= {b"Canarlotta", b"canarlotta@mine.example"}
        files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert files.keys() >= {"service.db", "service.db-wal"}
    files |= {"after": (tmp_path / "service.db").read_bytes()}
    assert b"pending removal" in b"".join(files.values())
    for value in values:
        assert not any(value.lower() in content.lower() for content in files.values()), value


class LogRecorder(logging.Handler):
    """Every line with its traceback."""

    def __init__(self):
        super().__init__(0)
        self.lines = []

    def emit(self, record):
        line = logging.Formatter("%(name)s %(message)s %(args)s").format(record)
        self.lines.append(line + repr(vars(record)))


@pytest.fixture
def log():
    handler = LogRecorder()
    named = [None, "sqlalchemy", "sqlalchemy.engine", "sqlalchemy.pool", "asyncio", "uvicorn.error"]
    named += ["uvicorn.access", "python_multipart", "exposurekit"]
    before = {name: (logging.getLogger(name).level, logging.getLogger(name).propagate) for name in named}
    for name in named:
        logging.getLogger(name).setLevel(logging.DEBUG)
        # Access logs do not propagate, whatever a service that ran earlier has set.
        logging.getLogger(name).propagate = name != "uvicorn.access"
    loggers = [logging.getLogger(), logging.getLogger("uvicorn.access")]
    for logger in loggers:
        logger.addHandler(handler)
    yield handler
    for logger in loggers:
        logger.removeHandler(handler)
    for name, (level, propagates) in before.items():
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).propagate = propagates


# The client of these tests logs whole URLs itself.
CLIENT = ("httpx", "httpcore")


def test_logs_contain_no_personal_data_whatever_happens(tmp_path, log):
    with a_service(tmp_path) as service:
        user, values = planted(service)
        canary = b"canary-in-a-wrong-field"
        invalid = (PERSON | {"emails": canary.decode() + "\0"}, PERSON | {"birth_date": canary.decode()}, [])
        media_types = ("application/json", "application/xml", "multipart/form-data; boundary=x", "text/plain")
        for operation in OPERATIONS:
            item_id = user["record_id"] if "user_id" in operation.names else user["id"]
            path = operation.path.format(user_id=user["id"], id=item_id)
            call = partial(service.call, operation.method, path, user)
            for suffix in ("", ".xml", ".csv"):
                for secret in (user, {"secret": canary.decode()}, None):
                    service.call(operation.method, path + suffix, secret, json=PERSON)
            for body in invalid:
                call(json=body)
            for media_type in media_types:
                call(content=canary, headers={"content-type": media_type})
            call(data=JANE | {"middle_name": canary.decode()})
            call(files={"middle_name": (None, canary)})
            service.call("DELETE", path, user)

        async def corrupt(work):
            for table in (tables.users, tables.records, tables.links, tables.alerts):
                await work.run(update(table), {"ciphertext": b"corrupt"})

        service.work(corrupt)
        for operation in OPERATIONS[2:]:
            path = operation.path.format(user_id=user["id"], id=user["id"])
            service.call(operation.method, path, user, json=PERSON)
    lines = [line for line in log.lines if not line.startswith(CLIENT)]
    assert any("operation=get_user status=200" in line for line in lines)
    assert any("status=500" in line for line in lines)
    assert any("fault=DecryptionError at=" in line for line in lines)
    assert any(line.startswith("sqlalchemy.engine") for line in lines)
    for value in values | {canary}:
        assert not [line for line in lines if value.decode() in line], value


def test_a_fault_is_logged_with_its_type_and_location(tmp_path, log):
    with a_service(tmp_path) as service:
        user = service.create()
        service.work(lambda work: work.run(delete(tables.user_documents)))
        service.work(lambda work: work.run(update(tables.users), {"ciphertext": b"corrupt"}))
        assert service.call("GET", f"/users/{user['id']}", user).status_code == 500
    [line] = [line for line in log.lines if "fault=" in line]
    assert "fault=DecryptionError at=exposurekit.service.storage.encryption.decrypt_to_json:" in line
    assert "Traceback" not in line


def test_a_request_is_logged_with_its_integrator(tmp_path, log):
    """By its id, if name and key are valid; the secret may be wrong."""
    with a_service(tmp_path) as service:
        service.call("GET", "/users")
        service.call("GET", "/users", params={"api_secret": "wrong"})
        service.http.get(service.root.replace(service.credentials.api_key, "wrong") + "/users")
    pattern = re.compile(
        r"exposurekit.service operation=list_users status=(\d+) ms=[\d.]+(?: integrator=(\d+))? \("
    )
    logged = [match.groups() for line in log.lines if (match := pattern.match(line))]
    assert logged == [("200", "1"), ("401", "1"), ("401", None)]


def test_the_access_log_masks_key_and_query(log):
    middleware.mask_access_log()
    path = "/api/acme/k3y/v2/users/7.json?api_secret=s3cret&secret=123"
    logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', "127.0.0.1", "GET", path, "1.1", 200)
    line = next(line for line in log.lines if line.startswith("uvicorn.access"))
    assert '"GET /api/acme/***/v2/users/7.json?*** HTTP/1.1" 200' in line
    assert not any(secret in line for secret in ("k3y", "s3cret", "123&", "secret="))


@in_event_loop
async def test_a_database_error_hides_its_parameters(tmp_path):
    items = {"emails": [EmailItem(**PERSON["emails"][0])]}
    async with opened(a_database(tmp_path)) as database:
        with pytest.raises(Exception, match="FOREIGN KEY") as error:
            async with database.writing() as work:
                await user_items.update_items(work, 10**9, items)
    assert "parameters hidden" in str(error.value)


@pytest.mark.parametrize(
    "path", ["/API/acme/{}/v2/users", "/api//acme/{}/v2/users", "/acme/{}/v2/users", "/api/x/y/{}/z"]
)
def test_a_mistyped_url_is_logged_without_its_key(path):
    key = "k3y" * 15
    assert key not in middleware.masked(path.format(key))
