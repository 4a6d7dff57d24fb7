"""Nothing personal and nothing secret stands in the files of the database, or in any log, even at DEBUG."""

import asyncio
import logging

import pytest
from sqlalchemy import update
from support.services import JANE, Service, a_database, a_service, at_work, json_body

from exposurekit.contract.inputs import EmailItem
from exposurekit.contract.operations import OPERATIONS
from exposurekit.service.accounts import integrators, user_items
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
    """A person with everything; and every value that must not be seen again."""
    user = service.create(**PERSON)

    async def find(work):
        user["record_id"] = await discover_record(work, user["id"], LISTING, Site(name="Site"))
        await discover_link(work, user["id"], PAGE)
        await submit_removal(work, user["record_id"], Site(name="Site"))

    service.work(find)
    listed = {
        LISTING.name,
        LISTING.reference_id,
        LISTING.href,
        "Canary Relation",
        "Canary Otherwise",
        "Canary Location",
    }
    secrets = {service.credentials.api_key, service.credentials.api_secret, user["secret"]}
    values = leaves(PERSON) - {"maiden"} | listed | {PAGE.url, PAGE.title} | secrets
    return user, {value.encode() for value in values}


def test_the_files_of_the_database_hold_none_of_it(tmp_path):
    """The files are read while they are in use, write-ahead log and all."""
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
    """Every line, as it would be written, with the traceback that goes with it."""

    def __init__(self):
        super().__init__(0)
        self.lines = []

    def emit(self, record):
        self.lines.append(
            logging.Formatter("%(name)s %(message)s %(args)s").format(record) + repr(vars(record))
        )


@pytest.fixture
def log():
    handler = LogRecorder()
    named = [
        None,
        "sqlalchemy",
        "sqlalchemy.engine",
        "sqlalchemy.pool",
        "asyncio",
        "uvicorn.error",
        "uvicorn.access",
    ]
    named += ["python_multipart", "exposurekit"]
    before = {name: (logging.getLogger(name).level, logging.getLogger(name).propagate) for name in named}
    for name in named:
        logging.getLogger(name).setLevel(logging.DEBUG)
        logging.getLogger(name).propagate = (
            name != "uvicorn.access"
        )  # a service that ran here may have cut it off
    heard = [logging.getLogger(), logging.getLogger("uvicorn.access")]  # uvicorn cuts the second one off
    for logger in heard:
        logger.addHandler(handler)
    yield handler
    for logger in heard:
        logger.removeHandler(handler)
    for name, (level, propagates) in before.items():
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).propagate = propagates


# The client of these tests logs whole URLs itself: what the service logs is what is looked at here.
CLIENT = ("httpx", "httpcore")


def test_no_log_holds_any_of_it_whatever_happens(tmp_path, log):
    with a_service(tmp_path) as service:
        user, values = planted(service)
        canary = b"canary-in-a-wrong-place"
        for operation in OPERATIONS:
            ids = {
                "user_id": user["id"],
                "id": user["record_id"] if "user_id" in operation.names else user["id"],
            }
            path = operation.path.format(**ids)
            for suffix in ("", ".xml", ".csv"):
                for secret in (user, {"secret": canary.decode()}, None):
                    service.call(operation.method, path + suffix, secret, json=PERSON)
            for body in (
                PERSON | {"emails": canary.decode() + "\0"},
                PERSON | {"birth_date": canary.decode()},
                [],
            ):
                service.call(operation.method, path, user, json=body)
            for media_type in (
                "application/json",
                "application/xml",
                "multipart/form-data; boundary=x",
                "text/plain",
            ):
                service.call(
                    operation.method, path, user, content=canary, headers={"content-type": media_type}
                )
            service.call(operation.method, path, user, data=JANE | {"middle_name": canary.decode()})
            service.call(operation.method, path, user, files={"middle_name": (None, canary)})
            service.call("DELETE", path, user)

        async def spoil(work):
            for table in (tables.users, tables.records, tables.links, tables.alerts):
                await work.run(update(table), {"ciphertext": b"spoiled"})

        service.work(spoil)
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


def test_a_fault_is_told_by_its_type_and_its_place(tmp_path, log):
    with a_service(tmp_path) as service:
        user = service.create()
        service.work(lambda work: work.run(update(tables.users), {"ciphertext": b"spoiled"}))
        assert service.call("GET", f"/users/{user['id']}", user).status_code == 500
    [line] = [line for line in log.lines if "fault=" in line]
    assert "fault=DecryptionError at=exposurekit.service.storage.encryption.decrypt_all:" in line
    assert "Traceback" not in line


def test_the_access_log_would_hold_neither_key_nor_query(log):
    middleware.mask_access_log()
    path = "/api/acme/k3y/v2/users/7.json?api_secret=s3cret&secret=123"
    logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', "127.0.0.1", "GET", path, "1.1", 200)
    line = next(line for line in log.lines if line.startswith("uvicorn.access"))
    assert '"GET /api/acme/***/v2/users/7.json?*** HTTP/1.1" 200' in line
    assert not any(secret in line for secret in ("k3y", "s3cret", "123&", "secret="))


def test_a_database_error_does_not_show_what_was_stored(tmp_path):
    async def clash():
        database = await a_database(tmp_path).open()
        try:
            async with database.writing() as work:
                await user_items.update_items(work, 10**9, {"emails": [EmailItem(**PERSON["emails"][0])]})
        finally:
            await database.close()

    with pytest.raises(Exception, match="FOREIGN KEY") as error:
        asyncio.run(clash())
    assert "parameters hidden" in str(error.value)


def test_a_rotated_key_and_secret_are_refused_at_once(tmp_path):
    with a_service(tmp_path) as service:
        assert service.call("GET", "/users").status_code == 200
        new = at_work(service.database, lambda work: integrators.rotate(work, "acme"))
        assert service.call("GET", "/users").status_code == 401
        root = f"{service.base_url}/api/acme/{new.api_key}/v2"
        json_body(service.http.get(f"{root}/users", params={"api_secret": new.api_secret}))


@pytest.mark.parametrize(
    "path", ["/API/acme/{}/v2/users", "/api//acme/{}/v2/users", "/acme/{}/v2/users", "/api/x/y/{}/z"]
)
def test_a_mistyped_address_does_not_show_the_key_either(path):
    key = "k3y" * 15
    assert key not in middleware.masked(path.format(key))
