"""The analyst's tables: the same people however responses deviate, and each failure is of one person."""

import asyncio
import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import httpx
import numpy as np
import pandas as pd
import pytest
from support import deviating_server, faults
from support.clients import AT_ONCE, json_response, many, respond, rows, stopped, with_fields
from support.deviating_server import PEOPLE
from support.deviations import ALL_VARIANTS, Meaning, format_of
from support.faults import Answer, Cut

import exposurekit as ek
from exposurekit import frames
from exposurekit.client import bulk
from exposurekit.contract.models import UserKey
from exposurekit.errors import APIStatusError, ConnectionFailed, InvalidArgument, NotFound
from exposurekit.snapshot import Snapshot

TABLES = tuple(name for name in frames.TABLES if name not in {"failures", "deviations"})
ID_NAMES = {"records": "record_id", "aliases": "alias_id", "emails": "email_id"}
ID_NAMES |= {"phone_numbers": "phone_number_id", "addresses": "address_id"}
ACCESS = {
    "integration_name": deviating_server.INTEGRATION_NAME,
    "api_key": deviating_server.API_KEY,
    "api_secret": deviating_server.API_SECRET,
}


def connect(base_url, **settings):
    return ek.connect(str(base_url), **ACCESS | {"retries": AT_ONCE, "progress": False} | settings)


def expected(meaning):
    """The tables that these people make."""
    tables = {name: [] for name in TABLES}
    for person in PEOPLE:
        user = meaning.user(person, inside_get=True)
        key = {"user_id": person["id"]}
        names = [column.name for column in frames.TABLES["users"] if column.name != "user_id"]
        tables["users"].append(key | {name: user[name] for name in names})
        for name, id_name in ID_NAMES.items():
            for item in user[name]:
                rest = dict(item)
                tables[name].append(key | {id_name: rest.pop("id")} | rest)
        tables["links"] += [key | link for link in user["links"]]
        tables["service_history"] += [key | entry for entry in history(person)]
        for number, alert in enumerate(meaning.alerts(person)):
            record, link = alert.pop("record") or {}, alert.pop("link") or {}
            about = {"record_id": record.get("id")} | {
                name: record.get(name) for name in ("site", "status", "href")
            }
            row = key | {"alert_number": number} | alert | about
            tables["alerts"].append(row | {"link_url": link.get("url"), "link_title": link.get("title")})
            shared = {
                name: row[name]
                for name in ("user_id", "alert_number", "source_type", "record_id", "site", "status", "url")
            }
            for step_number, step in enumerate(alert["opt_out_procedure"], 1):
                tables["steps"].append(shared | {"step_number": step_number, "step": step})
    return tables


def history(person):
    entries = [
        {"event": frames.EVENTS[name], "occurred_at": int(pd.Timestamp(when).timestamp())}
        for entry in person["service_history"]
        for name, when in entry.items()
    ]
    return sorted(entries, key=lambda entry: entry["occurred_at"])


def warns_of_deviations(*, expected=True):
    return pytest.warns(UserWarning, match="deviate") if expected else contextlib.nullcontext()


@pytest.mark.parametrize("variant", ALL_VARIANTS.values(), ids=ALL_VARIANTS)
def test_tables_are_equal_however_responses_deviate(variant):
    meaning = Meaning(variant)
    deviates = meaning.omits_empty_lists or (variant.loose_numbers and format_of(variant) == "json")
    with deviating_server.running(variant) as service:
        exposure = connect(service, format=format_of(variant))
        with warns_of_deviations(expected=deviates):
            exposure.refresh()
        columns = {name: [column.name for column in frames.TABLES[name]] for name in TABLES}
        tables = {name: rows(getattr(exposure, name)()[columns[name]]) for name in TABLES}
        assert len(exposure.failures()) == 0
        assert bool(len(exposure.deviations())) == deviates
    for name, table in expected(meaning).items():
        assert tables[name] == table, name


@pytest.mark.parametrize("secret", ["integer", "text"])
def test_no_table_has_a_secret_and_key_returns_it(secret):
    with deviating_server.running(deviating_server.Variant(secret=secret)) as service:
        exposure = connect(service)
        tables = [getattr(exposure, name)() for name in (*TABLES, "failures")]
    assert not any("secret" in table.columns for table in tables)
    texts = " ".join(table.to_json(date_format="iso") for table in tables)
    for person in PEOPLE:
        assert person["secret"] not in texts
        assert exposure.key(person["id"]).secret == Meaning(service.variant).secret(person)


def test_one_load_serves_all_tables():
    with deviating_server.running() as service:
        exposure = connect(service)
        assert service.requests == []
        for name in (*TABLES, "failures"):
            getattr(exposure, name)()
        exposure.key(101)
        paths = [request.path.rpartition("/")[2] for request in service.requests]
        assert paths.count("alerts.json") == len(PEOPLE)
        assert len(paths) == 2 + 2 * len(PEOPLE)  # the list twice: its count may be of the page
        assert exposure.provenance.endswith("5 people")


@pytest.mark.parametrize(("name", "value"), [("is_stopped", False), ("listed", len(PEOPLE))])
def test_what_describes_a_load_loads_first(name, value):
    with deviating_server.running() as service:
        exposure = connect(service)
        assert getattr(exposure, name) == value
        assert exposure.is_loaded


@pytest.mark.parametrize("record_id", [99, None])
def test_alert_row_contains_a_record_that_its_user_lacks(record_id):
    own = faults.BODIES["get_record"]["record"] | {"name": "OWN NAME", "age": 44, "id": record_id}
    alert = {**faults.BODIES["get_user_alerts"]["alerts"][0], "source": {"record": own}}

    def meddle(request, _number):
        return json_response({"alerts": [alert]}) if request.operation == "get_user_alerts" else None

    with faults.running(many([1], meddle)) as server:
        exposure = connect(server.base_url)
        with warns_of_deviations(expected=record_id is None):
            [row], [step, _] = (table.to_dict("records") for table in (exposure.alerts(), exposure.steps()))
    for one in (row, step):
        assert (one["name"], one["age"], [*one["locations"]]) == ("OWN NAME", 44, own["locations"])
        assert one["reference_id"] == own["reference_id"]


@pytest.fixture(scope="module")
def exposure():
    with deviating_server.running() as service:
        loaded = connect(service).refresh()
        yield loaded
        loaded.client.close()


def test_returned_tables_are_independent_copies(exposure):
    first = exposure.users()
    first["first_name"] = "changed"
    first.loc[0, "last_name"] = "changed"
    for name in ("first_name", "last_name"):
        assert exposure.users()[name].tolist() == [person[name] for person in PEOPLE]


@pytest.mark.parametrize(
    "user",
    [
        *(101, np.int64(101), 101.0, np.float64(101), [101], (101,), {101}, np.array([101])),
        *(pd.Series([101]), "Mirabel", "MIRABEL", ["101"], ("Mirabel", 101)),
        *(pd.Series(["Mirabel"]), np.array(["Mirabel"]), {"Mirabel"}, pd.Series(["Mirabel", 101])),
    ],
    ids=repr,
)
def test_one_person_is_selected_by_id_or_name(exposure, user):
    assert exposure.users(user)["user_id"].tolist() == [101]
    assert exposure.records(user=user)["record_id"].tolist() == [9001, 9002, 9003]


NAMED = {
    1: ("Orson", "Larkin", "Mallowbrook", [("Ozzie", "Brook")]),
    2: ("Tess Mae", "\x1bQ\u202e", "de la  Vale", []),
    3: ("Ozzie", "", "Brooke", []),
    4: ("Orson", "", "Larkin", [("Tess", "de la Vale")]),
}


@pytest.fixture(scope="module")
def named():
    """People with middle names and aliases."""

    def fields(number):
        first, middle, last, aliases = NAMED[number]
        named = [{"id": number, "first_name": one, "last_name": other} for one, other in aliases]
        return {"first_name": first, "middle_name": middle, "last_name": last, "aliases": named}

    with faults.running(many(NAMED, with_fields(fields))) as server:
        yield connect(server.base_url).refresh()


def test_every_name_in_a_table_selects_its_person(named):
    named_rows = named.with_people(named.records())[["user_id", "person"]].drop_duplicates()
    assert named_rows["person"].tolist()[0] == "Orson Larkin Mallowbrook"
    dashboard = ek.widgets.Dashboard(named)
    for user_id, person in named_rows.itertuples(index=False):
        assert named.records(user=person)["user_id"].unique().tolist() == [user_id]
        dashboard.pick(user=person)
        assert dashboard.users == (user_id,)


@pytest.mark.parametrize(
    ("typed", "user_id"),
    [
        ("orson mallowbrook", 1),
        ("Orson Mallowb", 1),
        ("Tess Mae de la Vale", 2),
        ("Ozzie Brook", 1),  # an alias; the rest of the third person's name does not count
        ("Ozzie Brooke", 3),
        ("Orson Larkin", 4),  # a whole name, although the first person's name begins so
    ],
)
def test_person_is_selected_without_middle_name_or_by_alias(named, typed, user_id):
    assert named.users(user=typed)["user_id"].tolist() == [user_id]


def test_alias_equal_to_another_name_is_ambiguous(named):
    with pytest.raises(InvalidArgument, match="2 people match this name"):
        named.records(user="Tess de la Vale")


def test_users_lists_everyone_who_matches_a_name(named):
    matching = named.users("Tess de la Vale")
    assert matching["user_id"].tolist() == [2, 4]
    assert named.users(["Tess de la Vale", 1, "Ozzie Brook"])["user_id"].tolist() == [1, 2, 4]
    assert {*named.records(matching["user_id"])["user_id"]} <= {2, 4}
    with pytest.raises(NotFound, match="Nobody has this id or name"):
        named.users(["Tess de la Vale", "Nobody Atall"])
    with pytest.raises(InvalidArgument, match="2 people match this name"):
        ek.report(named, user="Tess de la Vale")


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("Orsn Mallowbrook", " (did you mean user 1?)"), ("Malowbrook", " (did you mean user 1?)"), ("Zq", "")],
)
def test_error_about_a_misspelt_name_has_the_nearest_id(named, typed, nearest):
    """An error may reach a log, so it has no name."""
    with pytest.raises(NotFound) as error:
        named.records(user=typed)
    assert str(error.value) == f"Nobody has this id or name{nearest}: exposure.users() lists everyone"


def test_unknown_or_ambiguous_name_is_refused(exposure):
    with pytest.raises(NotFound, match=r"Nobody has this id or name: exposure\.users\(\)"):
        exposure.records("Nobody Atall")
    with pytest.raises(
        InvalidArgument,
        match=r"people match this name: give the id, one of \d+, .*; exposure\.users\(name\) lists them",
    ) as error:
        exposure.records("e")
    assert set(map(int, re.findall(r"\d+", str(error.value).partition("one of")[2]))) <= {
        *exposure.users()["user_id"]
    }


@pytest.mark.parametrize("table", TABLES)
def test_every_table_selects_several_people_by_id(exposure, table):
    whole, some = getattr(exposure, table)(), getattr(exposure, table)([107, 101])
    assert rows(some) == [row for row in rows(whole) if row["user_id"] in {101, 107}]
    assert some.index.tolist() == list(range(len(some)))
    assert (some.dtypes == whole.dtypes).all()


def test_user_without_rows_is_empty_and_unknown_user_fails(exposure):
    assert len(exposure.records(user=103)) == 0
    assert len(exposure.records(user=[])) == 0
    for user in (105, [101, 105, 106]):
        with pytest.raises(NotFound, match=r"Not among the people loaded: .*105.*failures\(\) names those"):
            exposure.records(user=user)


def test_key_returns_id_and_secret_for_single_calls(exposure):
    assert exposure.client.get_user(exposure.key(np.int64(104))).first_name == "Żofia"
    with pytest.raises(NotFound, match=r"The service lists no user 105; refresh\(\) loads again\."):
        exposure.key(105)


FAULTS = {  # by user id: the fault, its error, and the status
    2: (faults.refused(401), "Unauthorized", 401),
    3: (faults.server_error(), "APIStatusError", 500),
    4: (faults.too_many(0), "APIStatusError", 429),
    5: (Cut(20), "ConnectionFailed", None),
    6: (faults.Reset("after"), "ConnectionFailed", None),
    7: (faults.Garbage(), "ConnectionFailed", None),
    8: (Answer(body=b'{"user": {'), "InvalidResponse", None),
    9: (json_response([{"id": 2}]), "InvalidResponse", None),
    10: (faults.html_page(), "InvalidResponse", None),
    11: (faults.GzipBomb(1 << 27), "ConnectionFailed", None),
}


@pytest.mark.parametrize("operation", ["get_user", "get_user_alerts"])
def test_faults_fail_only_their_own_person(operation):
    def meddle(request, number):
        return FAULTS[number][0] if number in FAULTS and request.operation == operation else None

    with faults.running(many(range(1, 13), meddle)) as server:
        exposure = connect(server.base_url)
        failures = rows(exposure.failures())
        assert exposure.provenance.endswith("2 people, 10 more not loaded")
    title = operation.replace("_", " ").capitalize()
    for failure, (user_id, (_, error, status)) in zip(failures, FAULTS.items(), strict=True):
        assert failure.pop("reason").startswith((f"{title} ", f"{title}:"))
        assert failure == {"user_id": user_id, "operation": title, "error": error, "status": status}
    for name in TABLES:
        assert set(getattr(exposure, name)()["user_id"]) == {1, 12}
    assert exposure.key(2).secret == "secret-2"
    with pytest.raises(NotFound):
        exposure.users(user=2)


def test_tables_have_their_columns_if_everyone_fails():
    with faults.running(many([1, 2], lambda _request, number: number and faults.server_error())) as server:
        exposure = connect(server.base_url)
        assert exposure.failures()["user_id"].tolist() == [1, 2]
    assert [len(getattr(exposure, name)()) for name in TABLES] == [0] * len(TABLES)
    assert exposure.failures().columns.tolist() == ["user_id", "operation", "error", "status", "reason"]


@pytest.mark.parametrize(
    ("script", "error"),
    [([faults.server_error()], APIStatusError), ([faults.LoseReply()] * 4, ConnectionFailed)],
)
def test_failing_user_list_raises_and_loads_nothing(script, error):
    with faults.running(faults.on("list_users", *script)) as server:
        exposure = connect(server.base_url)
        with pytest.raises(error):
            exposure.users()
        assert repr(exposure).endswith("not loaded yet)")
        assert exposure.users()["user_id"].tolist() == [12]  # which loads again


def test_failing_refresh_preserves_the_loaded_tables():
    sick = threading.Event()
    with faults.running(lambda _: faults.server_error() if sick.is_set() else None) as server:
        exposure = connect(server.base_url).refresh()
        before = repr(exposure)
        sick.set()
        with pytest.raises(APIStatusError):
            exposure.refresh()
        assert repr(exposure) == before
        assert exposure.users()["user_id"].tolist() == [12]
        sick.clear()
        assert exposure.refresh() is exposure


def test_refresh_loads_what_has_changed():
    with deviating_server.running() as service:
        exposure = connect(service).refresh()
        service.people[101]["records"][0]["status"] = "removed"
        del service.people[107]
        assert exposure.records(user=101)["status"].tolist() == ["discovered", "pending removal", "removed"]
        exposure.refresh()
    assert exposure.records(user=101)["status"].tolist() == ["removed", "pending removal", "removed"]
    assert exposure.users()["user_id"].tolist() == [101, 102, 103, 104]


def test_existing_client_is_used(exposure):
    users = ek.connect(client=exposure.client, progress=False).users()
    assert users["user_id"].tolist() == [101, 102, 103, 104, 107]
    with pytest.raises(InvalidArgument, match="takes a client or connection settings, not both"):
        ek.connect(client=exposure.client, api_key="x")


@pytest.mark.parametrize("concurrency", [0, -1])
def test_concurrency_below_one_is_refused(concurrency):
    with pytest.raises(InvalidArgument, match="concurrency must be at least 1"):
        connect("https://service.example", concurrency=concurrency)


class OnlyBlocking(httpx.BaseTransport):
    handle_request = staticmethod(respond)


@pytest.mark.parametrize(
    "transport", [httpx.MockTransport(respond), OnlyBlocking()], ids=["both", "blocking"]
)
def test_load_uses_the_custom_transport(transport):
    exposure = connect("https://service.example", transport=transport)
    assert exposure.users()["user_id"].tolist() == [101, 102]
    assert exposure.refresh().records()["record_id"].nunique() == 7


def test_load_works_inside_a_running_event_loop():
    """As in a notebook's cell, whose kernel runs one."""

    async def cell():
        with deviating_server.running() as service:
            return connect(service).users()

    assert len(asyncio.run(cell())) == len(PEOPLE)


def test_no_thread_remains_after_a_load(exposure):
    assert not [thread for thread in threading.enumerate() if thread.name == "exposurekit"]


@pytest.mark.parametrize(
    ("progress", "in_terminal", "is_displayed"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False)],
)
def test_progress_bar_is_displayed_in_a_terminal(monkeypatch, progress, in_terminal, is_displayed):
    reader, writer = pty.openpty() if in_terminal else os.pipe()
    if in_terminal:
        termios.tcsetwinsize(writer, (24, 80))
    with faults.running(many(range(1, 31))) as server, os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        assert len(connect(server.base_url, progress=progress).users()) == 30
        monkeypatch.undo()
        print(file=stream, flush=True)
        output = os.read(reader, 1 << 16).decode()
    os.close(reader)
    if is_displayed:
        assert re.search(r"\d+/30 .* people/s", output)
    else:
        assert output.strip() == ""


INTERRUPTED = """
import json, sys, threading, time, traceback, warnings
import exposurekit as ek
exposure = ek.connect(sys.argv[1], integration_name="acme", api_key="k", api_secret="s", progress=False, concurrency=4)
try:
    exposure.users()
except KeyboardInterrupt as error:
    stopped, interrupt = time.monotonic(), error
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    people = len(exposure.users())
    exposure.records(), exposure.provenance, exposure.users().exposure.redact()
print(json.dumps({
    "stopped": stopped, "people": people, "warnings": [str(warning.message) for warning in caught],
    "message": interrupt._render_traceback_(), "frames": len(traceback.extract_tb(interrupt.__traceback__)),
    "files": sorted({warning.filename for warning in caught}),
    "threads": [thread.name for thread in threading.enumerate()], "repr": repr(exposure),
}))
"""


def test_ctrl_c_stops_the_load_without_further_calls():
    arrivals, waiting, enough, over = [], [], threading.Event(), threading.Event()

    def slow(request, number):
        arrivals.append(time.monotonic())
        if len(arrivals) > 100:
            waiting.append(number)
            if len(waiting) == 4:  # the concurrency: no other call is on its way
                enough.set()
            over.wait(60)

    with faults.running(many(range(1, 120), slow)) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, server.base_url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert enough.wait(60)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=60)  # while the four calls still wait
        finally:
            process.kill()
            process.wait()
            over.set()
    assert errors == ""
    result = json.loads(output)
    assert result["stopped"] > sent
    assert [when for when in arrivals if when > sent] == []
    assert 20 < result["people"] < 119
    assert result["warnings"] == [
        f"{result['people']:,} of 119 people: stopped before the end; refresh() loads everyone"
    ]
    assert result["files"] == ["<string>"]
    assert result["message"] == [
        f"Stopped: {result['people']:,} of 119 people were loaded and kept; exposure.refresh() loads everyone"
    ]
    assert result["frames"] < 8
    assert result["threads"] == ["MainThread"]
    assert result["repr"].endswith("stopped before the end)")


@pytest.mark.filterwarnings("ignore:16 of 25 people")
def test_stopped_load_lists_the_people_still_to_load():
    with stopped(16, 25) as exposure:
        failures = exposure.failures()
        assert exposure.users()["user_id"].tolist() == [*range(1, 17)]
        assert failures["user_id"].tolist() == [*range(17, 26)]
        assert {*failures["reason"]} == {"stopped before the end"}
        assert {*failures["error"]} == {"KeyboardInterrupt"}
        assert (exposure.listed, exposure.is_stopped) == (25, True)
        assert exposure.provenance.endswith("16 of 25 people: stopped before the end")


def test_stopped_load_counts_each_person_once():
    snapshot = Snapshot(datetime.now(UTC))
    failures = [bulk.Failure(user_id, "Get user", "ConnectionFailed", None, "refused") for user_id in (1, 2)]
    snapshot.add(bulk.Batch(failures=failures, total=9))
    snapshot.finish()
    assert repr(snapshot) == "0 of 9 people, 2 failed, 7 still to load: stopped before the end"


def test_connect_suggests_the_right_argument():
    with pytest.raises(TypeError, match=r"'apikey'; did you mean api_key\?"):
        ek.connect("https://service.example", apikey="x")


def test_ctrl_c_in_a_refresh_preserves_the_tables():
    started, over = threading.Event(), threading.Event()
    slow = threading.Event()

    def meddle(request, number):
        if slow.is_set() and number is not None:
            started.set()
            over.wait(20)

    with faults.running(many(range(1, 5), meddle)) as server:
        exposure = connect(server.base_url).refresh()
        slow.set()
        interrupter = threading.Thread(target=lambda: (started.wait(20), os.kill(os.getpid(), signal.SIGINT)))
        interrupter.start()
        with pytest.raises(KeyboardInterrupt, match="the tables of the last load remain"):
            exposure.refresh()
        interrupter.join()
        over.set()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(exposure.users()) == 4


@pytest.mark.parametrize(
    "user", [b"12", True, 1.5, float("nan"), [None], UserKey(id=12, secret="s3cret")], ids=repr
)
def test_invalid_user_id_is_refused_without_its_value(exposure, user):
    with pytest.raises(InvalidArgument, match="id of a person") as refusal:
        exposure.records(user)
    assert "s3cret" not in str(refusal.value)


def test_threads_may_read_one_table_at_once(exposure):
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: len(exposure.records()), range(32))) == {11}
