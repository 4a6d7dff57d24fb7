"""Paths of a history: which are valid, when the directory is created, and the errors of the others."""

import json
import traceback
from pathlib import Path

import pytest
from support import faults
from support.histories import Person, Service, a_record, seen_through

from exposurekit.errors import ConfigurationError, ConnectionFailed, NotFound, Unauthorized
from exposurekit.exposure import connect
from exposurekit.history import History
from exposurekit.history.storage.delta import Store
from exposurekit.history.storage.location import FORMAT, Location

NOWHERE = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "sekret",
    "AWS_REGION": "us-east-1",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
}
QUERIES = (
    *("records", "links", "alerts", "runs", "people", "load_issues", "changes", "deliveries", "labels"),
    *("ticks", "notes", "status_over_time", "by_site", "time_to_removal", "survival", "relistings", "stale"),
    *("steps", "last_run", "verify", "compact"),
)


@pytest.fixture(scope="module")
def exposure():
    with seen_through(Service({1: Person([a_record(11)])})) as exposure:
        yield exposure


@pytest.mark.parametrize(
    "path",
    [
        *(None, "", "  ", 5, b"history", ["history"], "a\0b", "a\udcffb", "s3://bucket/\udcff", "s3://"),
        *("s3://bucket/my%20history", "~nobody-of-that-name/history"),
    ],
)
def test_an_invalid_path_is_refused(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EXPOSUREKIT_HISTORY", raising=False)
    with pytest.raises(ConfigurationError, match="path"):
        History(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failure", ["no service", "wrong secret"])
def test_a_failed_first_collection_leaves_nothing_behind(tmp_path, failure):
    """The next one, to the right service, creates the history."""
    service = Service({1: Person([a_record(11)])})
    with seen_through(service) as exposure:
        refused = faults.Answer(status=401, body=b'{"error": "wrong api_secret"}')
        with faults.running(lambda _: refused if failure == "wrong secret" else faults.Reset()) as broken:
            there = connect(broken.base_url, integration_name="acme", api_key="key", api_secret="secret")
            with pytest.raises((ConnectionFailed, Unauthorized)):
                History(tmp_path / "history").collect(there, progress=False)
        assert list(tmp_path.iterdir()) == []
        assert History(tmp_path / "history").collect(exposure).people["listed"] == 1


def test_the_first_collection_lists_the_users_once(tmp_path):
    service, requests = Service({1: Person([a_record(11)])}), []

    def respond(request):
        requests.append((request.operation, request.query.get("offset", "0")))
        return service(request)

    with seen_through(respond) as exposure, History(tmp_path / "history") as history:
        history.collect(exposure, progress=False)
    assert requests.count(("list_users", "0")) == 1


def test_without_a_path_the_environment_names_the_history(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPOSUREKIT_HISTORY", str(tmp_path / "named"))
    assert History().path == History(tmp_path / "named").path != History(tmp_path / "other").path
    monkeypatch.setenv("EXPOSUREKIT_HISTORY", "")
    with pytest.raises(ConfigurationError, match="or set EXPOSUREKIT_HISTORY"):
        History()


@pytest.mark.parametrize(
    "path",
    [
        *("http://user:sekret@host.example/x", "s3://AKIA:sekret@bucket/x", "gs://user:sekret@bucket/x"),
        *("s3://bucket/x?secret_key=sekret", "sekret://host.example/x", "s3://bucket/sekret"),
    ],
)
def test_an_unreachable_location_is_an_error_without_its_path(path):
    with pytest.raises(ConfigurationError) as error:
        History(path, storage_options=NOWHERE)
    assert len(str(error.value).splitlines()) == 1
    assert "sekret" not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("prefix", ["AWS_", "aws_", ""])
def test_a_session_token_goes_with_every_request_to_a_bucket(prefix):
    tokens = []

    def respond(request):
        tokens.append(request.headers.get("x-amz-security-token"))
        listing = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        is_list = "list-type" in request.query and request.method == "GET"
        return faults.Answer(body=listing) if is_list else faults.refused(404, b"")

    with faults.running(respond) as server:
        names = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "sekret", "SESSION_TOKEN": "temporary"}
        names |= {"REGION": "us-east-1", "ENDPOINT_URL": server.base_url.removesuffix("/")}
        options = {
            (prefix + name.lower() if prefix == "aws_" else prefix + name): names[name] for name in names
        }
        store = Store("s3://bucket/history", options | {"AWS_ALLOW_HTTP": "true"})
        assert not store.exists()
        by_arrow = len(tokens)
        assert store.table("runs") is None
    assert 0 < by_arrow < len(tokens)
    assert {*tokens} == {"temporary"}


@pytest.mark.parametrize("left_out", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_half_of_the_credentials_are_refused(left_out):
    options = {name: value for name, value in NOWHERE.items() if name != left_out}
    with pytest.raises(ConfigurationError, match="the access key and the secret key must be given together"):
        History("s3://bucket/history", storage_options=options | {"AWS_SESSION_TOKEN": "temporary"})


@pytest.mark.parametrize("path", ["file", "file/within", "/proc/nothing-is-made-here", "/"])
def test_an_impossible_directory_is_an_error_at_first_write(tmp_path, exposure, path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"written there: |choose an empty or new") as error:
        History(tmp_path / path).collect(exposure)
    assert str(tmp_path) not in str(error.value)


def test_a_directory_with_foreign_files_is_refused(tmp_path, exposure):
    for name in ("inbox.db", "inbox.db-wal", "inbox.path", "watch.json", ".watch.lock", ".watch.json.1.ab"):
        (tmp_path / name).touch()
    (tmp_path / "lost+found").mkdir()
    with History(tmp_path) as history:
        assert history.collect(exposure).seq == 1
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.odt").touch()
    with pytest.raises(ConfigurationError, match="choose an empty or new directory"):
        History(tmp_path / "other")
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["thesis.odt"]
    (tmp_path / "diary.txt").touch()
    assert len(History(tmp_path).runs()) == 1  # an existing history may have other files


def test_a_history_begun_by_another_process_meanwhile_is_opened(tmp_path):
    class Overtaken(Location):
        def infos(self, *names, **options):
            other = Location(tmp_path / "history")
            other.settings(records_by="reference", otherwise="id")
            other.begin()
            return super().infos(*names, **options)

    assert Overtaken(tmp_path / "history").settings(records_by=None, otherwise="id") == "reference"
    (tmp_path / "history" / "history.json").unlink()
    with pytest.raises(ConfigurationError, match="open it with that"):
        Overtaken(tmp_path / "history").settings(records_by="id", otherwise="id")


def test_a_missing_history_is_empty_and_not_created(tmp_path):
    history = History(tmp_path / "a" / "b")
    for query in QUERIES:
        with pytest.raises(NotFound, match="There is no history there yet, in "):
            getattr(history, query)()
    for query in (history.erase, history.personal_values, lambda _: history.finalize("x"), history.diff):
        with pytest.raises(NotFound):
            query(1)
    assert history.last_collected_at() is None
    assert history.pending_runs() == []
    assert repr(history).endswith("empty)")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "write",
    [
        lambda history, exposure: history.collect(exposure),
        lambda history, _: history.ingest_deliveries([], "mine"),
        lambda history, _: history.note({"user_id": 1, "record_id": 11}, "a note"),
    ],
    ids=["collect", "deliveries", "note"],
)
def test_a_history_is_created_on_the_first_write(tmp_path, exposure, write):
    history = History(tmp_path / "a" / "b", records_by="id")
    write(history, exposure)
    manifest = json.loads((tmp_path / "a" / "b" / "history.json").read_text())
    assert manifest == {"records_by": "id", "format": FORMAT}
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert len(history.runs()) in (0, 1)


def test_an_earlier_opening_does_not_write_another_identity(tmp_path, exposure):
    first = History(tmp_path / "history")
    History(tmp_path / "history", records_by="reference").collect(exposure)
    with pytest.raises(ConfigurationError, match="created with records_by='reference'"):
        first.collect(exposure)


def test_a_relative_path_becomes_absolute(tmp_path, exposure, monkeypatch):
    monkeypatch.chdir(tmp_path)
    History("here/").collect(exposure)
    assert History(Path("here")).path == str(tmp_path / "here") == History("here").path
    assert len(History(tmp_path / "here").runs()) == 1


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, OSError, ValueError])
def test_an_unfinished_file_leaves_nothing(tmp_path, stopped):
    location = Location(tmp_path)
    with pytest.raises(stopped), location.atomic_write(location.path("part")) as stream:  # noqa: PT012
        stream.write(b"Juniper")
        assert len([*tmp_path.iterdir()]) == 1
        raise stopped
    assert [*tmp_path.iterdir()] == []
