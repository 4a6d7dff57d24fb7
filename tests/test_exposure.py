"""The analyst's tables: the same people whatever the service's manner, and each failure one person's own."""

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

import httpx
import numpy as np
import pandas as pd
import pytest
from support import deviating_server, faults
from support.clients import AT_ONCE, answering, json_response, many, rows
from support.deviating_server import PEOPLE
from support.deviations import ALL_MANNERS, Meaning, format_of
from support.faults import Answer, Cut

import exposurekit as ek
from exposurekit import frames
from exposurekit.contract.models import UserKey
from exposurekit.errors import APIStatusError, ConnectionFailed, InvalidArgument, NotFound

TABLES = tuple(name for name in frames.TABLES if name not in {"failures", "deviations"})
ACCESS = {
    "integration_name": deviating_server.INTEGRATION_NAME,
    "api_key": deviating_server.API_KEY,
    "api_secret": deviating_server.API_SECRET,
}


def connect(base_url, **settings):
    return ek.connect(str(base_url), **ACCESS | {"retries": AT_ONCE, "progress": False} | settings)


# --- the same people in every manner ------------------------------------------------------------------


def expected(meaning):
    """The tables that these people make."""
    tables = {name: [] for name in TABLES}
    for person in PEOPLE:
        user = meaning.user(person, inside_get=True)
        key = {"user_id": person["id"]}
        names = (
            "first_name",
            "middle_name",
            "last_name",
            "birth_date",
            "is_scanning",
            "identification_on_file",
        )
        tables["users"].append(key | {name: user[name] for name in names})
        for name, named in (
            ("records", "record_id"),
            ("aliases", "alias_id"),
            ("emails", "email_id"),
            ("phone_numbers", "phone_number_id"),
            ("addresses", "address_id"),
        ):
            for item in user[name]:
                rest = dict(item)
                tables[name].append(key | {named: rest.pop("id")} | rest)
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


@pytest.mark.parametrize("manner", ALL_MANNERS.values(), ids=ALL_MANNERS)
def test_every_table_holds_the_same_people_in_every_manner(manner):
    meaning = Meaning(manner)
    deviates = meaning.leaves_empty_lists_unsaid or (manner.loose_numbers and format_of(manner) == "json")
    with deviating_server.running(manner) as service:
        exposure = connect(service, format=format_of(manner))
        with pytest.warns(UserWarning, match="deviate") if deviates else contextlib.nullcontext():
            exposure.refresh()
        # What stands beside alerts and steps of other tables has tests of its own, in test_analysis_tasks.
        columns = {name: [column.name for column in frames.TABLES[name]] for name in TABLES}
        tables = {name: rows(getattr(exposure, name)()[columns[name]]) for name in TABLES}
        assert len(exposure.failures()) == 0
        assert bool(len(exposure.deviations())) == deviates
    for name, table in expected(meaning).items():
        assert tables[name] == table, name


@pytest.mark.parametrize("secret", ["integer", "text"])
def test_no_table_holds_a_secret_and_key_gives_it_exactly(secret):
    with deviating_server.running(deviating_server.Manner(secret=secret)) as service:
        exposure = connect(service)
        tables = [getattr(exposure, name)() for name in (*TABLES, "failures")]
    assert not any("secret" in table.columns for table in tables)
    texts = " ".join(table.to_json(date_format="iso") for table in tables)
    for person in PEOPLE:
        assert person["secret"] not in texts
        assert exposure.key(person["id"]).secret == Meaning(service.manner).secret(person)


def test_one_load_serves_all_tables():
    with deviating_server.running() as service:
        exposure = connect(service)
        assert service.requests == []
        for name in (*TABLES, "failures"):
            getattr(exposure, name)()
        exposure.key(101)
        paths = [request.path.rpartition("/")[2] for request in service.requests]
        assert paths.count("alerts.json") == len(PEOPLE)
        assert len(paths) == 2 + 2 * len(PEOPLE)  # two looks at the list: its count may be the page's own
        assert exposure.provenance.endswith("5 people")


@pytest.mark.parametrize("change", [{"id": 99}, {"id": None}])
def test_an_alert_shows_a_record_that_its_user_lacks(change):
    own = faults.BODIES["get_record"]["record"] | {"name": "OWN NAME", "age": 44} | change
    alert = {**faults.BODIES["get_user_alerts"]["alerts"][0], "source": {"record": own}}
    alert |= {"source_type": "record", "opt_out_procedure": ["one"]}

    def meddle(request, _number):
        return json_response({"alerts": [alert]}) if request.operation == "get_user_alerts" else None

    with faults.running(many([1], meddle)) as server:
        exposure = connect(server.base_url)
        with pytest.warns(UserWarning, match="deviate") if change["id"] is None else contextlib.nullcontext():
            tables = [exposure.alerts(), exposure.steps()]
    for [row] in (table.to_dict("records") for table in tables):
        assert (row["name"], row["age"], [*row["locations"]]) == ("OWN NAME", 44, own["locations"])
        assert row["reference_id"] == own["reference_id"]


def test_a_table_is_the_callers_own():
    with deviating_server.running() as service:
        exposure = connect(service)
        # the service is gone: nothing was loaded yet
        first = exposure.users()
        first["first_name"] = "changed"
        first.loc[0, "last_name"] = "changed"
        assert exposure.users()["first_name"].tolist() == [person["first_name"] for person in PEOPLE]
        assert exposure.users()["last_name"].tolist() == [person["last_name"] for person in PEOPLE]


# --- some of the people -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exposure():
    with deviating_server.running() as service:
        yield connect(service).refresh()


@pytest.mark.parametrize(
    "user", [101, np.int64(101), [101], (101,), {101}, np.array([101]), pd.Series([101])], ids=repr
)
def test_one_person_is_asked_for_by_id(exposure, user):
    assert exposure.records(user=user)["record_id"].tolist() == [9001, 9002, 9003]
    assert exposure.users(user)["first_name"].tolist() == ["Mirabel"]


@pytest.mark.parametrize("user", ["Mirabel", "MIRABEL", ["101"], ("Mirabel", 101)], ids=repr)
def test_a_person_is_asked_for_by_name(exposure, user):
    assert exposure.users(user)["user_id"].tolist() == [101]
    assert exposure.records(user)["record_id"].tolist() == [9001, 9002, 9003]


NAMED = {
    1: ("Orson", "Larkin", "Mallowbrook", [("Ozzie", "Brook")]),
    2: ("Tess Mae", "\x1bQ\u202e", "de la  Vale", []),
    3: ("Ozzie", "", "Brooke", []),
    4: ("Orson", "", "Larkin", [("Tess", "de la Vale")]),
}


@pytest.fixture(scope="module")
def named():
    """People with middle names and aliases."""

    def names(request, number):
        if number is None:
            return None
        first, middle, last, aliases = NAMED[number]
        also = [
            {"id": number, "first_name": one, "last_name": other, "alias_type": "nickname"}
            for one, other in aliases
        ]
        user = faults.BODIES["get_user"]["user"] | {"id": number, "secret": f"secret-{number}"}
        user |= {"first_name": first, "middle_name": middle, "last_name": last, "aliases": also}
        return json_response({"user": user}) if request.operation == "get_user" else None

    with faults.running(many(NAMED, names)) as server:
        yield connect(server.base_url).refresh()


def test_every_name_that_a_table_shows_is_accepted(named):
    named_rows = named.with_people(named.records())[["user_id", "person"]].drop_duplicates()
    assert named_rows["person"].tolist()[0] == "Orson Larkin Mallowbrook"
    for user_id, person in named_rows.itertuples(index=False):
        assert named.records(user=person)["user_id"].unique().tolist() == [user_id]
        dashboard = ek.widgets.Dashboard(named)
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
def test_a_person_is_found_without_middle_name_or_by_alias(named, typed, user_id):
    assert named.users(user=typed)["user_id"].tolist() == [user_id]


def test_an_alias_that_is_anothers_name_is_ambiguous(named):
    with pytest.raises(InvalidArgument, match="2 people match this name"):
        named.users(user="Tess de la Vale")


def test_an_unknown_or_shared_name_is_refused_without_it(exposure):
    with pytest.raises(NotFound, match="No person here has this id or name"):
        exposure.records("Nobody Atall")
    with pytest.raises(InvalidArgument, match="people match this name: give the id"):
        exposure.records("e")


@pytest.mark.parametrize("table", TABLES)
def test_several_people_are_asked_for_by_ids_in_every_table(exposure, table):
    whole, some = getattr(exposure, table)(), getattr(exposure, table)([107, 101])
    assert rows(some) == [row for row in rows(whole) if row["user_id"] in {101, 107}]
    assert some.index.tolist() == list(range(len(some)))
    assert (some.dtypes == whole.dtypes).all()


def test_a_user_without_rows_is_empty_an_unknown_one_fails(exposure):
    assert len(exposure.records(user=103)) == 0
    assert len(exposure.records(user=[])) == 0
    for user in (105, [101, 105, 106]):
        with pytest.raises(NotFound, match=r"Not among the people loaded: .*105.*failures\(\) names those"):
            exposure.records(user=user)


def test_key_gives_the_id_and_secret_for_single_calls(exposure):
    assert exposure.client.get_user(exposure.key(np.int64(104))).first_name == "Żofia"
    with pytest.raises(NotFound, match=r"The service lists no user 105; refresh\(\) loads again\."):
        exposure.key(105)
    exposure.client.close()


# --- failures -----------------------------------------------------------------------------------------

ONE_PERSON = {
    "401": (faults.refused(401), "Unauthorized", 401),
    "500": (faults.server_error(), "APIStatusError", 500),
    "429": (faults.too_many(0), "APIStatusError", 429),
    "cut": (Cut(20), "ConnectionFailed", None),
    "reset": (faults.Reset("after"), "ConnectionFailed", None),
    "garbage": (faults.Garbage(), "ConnectionFailed", None),
    "malformed": (Answer(body=b'{"user": {'), "InvalidResponse", None),
    "not as described": (json_response([{"id": 2}]), "InvalidResponse", None),
    "a web page": (faults.html_page(), "InvalidResponse", None),
    "a body without end": (faults.GzipBomb(1 << 27), "ConnectionFailed", None),
}


@pytest.mark.parametrize("operation", ["get_user", "get_user_alerts"])
@pytest.mark.parametrize(("fault", "error", "status"), ONE_PERSON.values(), ids=ONE_PERSON)
def test_one_persons_fault_costs_that_person_only(operation, fault, error, status):
    def meddle(request, number):
        return fault if number == 2 and request.operation == operation else None

    with faults.running(many([1, 2, 3], meddle)) as server:
        exposure = connect(server.base_url)
        [failure] = rows(exposure.failures())
        assert exposure.provenance.endswith("2 people, 1 more not loaded")
    title = operation.replace("_", " ").capitalize()
    reason = failure.pop("reason")
    assert failure == {"user_id": 2, "operation": title, "error": error, "status": status}
    assert reason.startswith((f"{title} ", f"{title}:"))
    for name in TABLES:
        assert set(getattr(exposure, name)()["user_id"]) == {1, 3}
    assert exposure.key(2).secret == "secret-2"
    with pytest.raises(NotFound):
        exposure.users(user=2)


def test_everyone_may_fail_and_the_tables_keep_their_shape():
    with faults.running(many([1, 2], lambda _request, number: number and faults.server_error())) as server:
        exposure = connect(server.base_url)
        assert exposure.failures()["user_id"].tolist() == [1, 2]
    assert [len(getattr(exposure, name)()) for name in TABLES] == [0] * len(TABLES)
    assert exposure.failures().dtypes.astype(str).to_dict() == {
        "user_id": "int64",
        "operation": "str",
        "error": "category",
        "status": "Int16",
        "reason": "str",
    }


@pytest.mark.parametrize(
    ("script", "error"),
    [([faults.server_error()], APIStatusError), ([faults.LoseReply()] * 4, ConnectionFailed)],
)
def test_a_list_that_fails_raises_and_loads_nothing(script, error):
    with faults.running(faults.on("list_users", *script)) as server:
        exposure = connect(server.base_url)
        with pytest.raises(error):
            exposure.users()
        assert repr(exposure).endswith("not loaded yet)")
        assert exposure.users()["user_id"].tolist() == [12]  # the next look is a new one


def test_a_refresh_that_fails_keeps_the_tables_that_were_loaded():
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


def test_a_refresh_shows_what_has_changed():
    with deviating_server.running() as service:
        exposure = connect(service).refresh()
        service.people[101]["records"][0]["status"] = "removed"
        del service.people[107]
        assert exposure.records(user=101)["status"].tolist() == ["discovered", "pending removal", "removed"]
        exposure.refresh()
    assert exposure.records(user=101)["status"].tolist() == ["removed", "pending removal", "removed"]
    assert exposure.users()["user_id"].tolist() == [101, 102, 103, 104]


# --- connecting ---------------------------------------------------------------------------------------


def test_a_client_that_stands_already_is_used(exposure):
    assert ek.connect(client=exposure.client, progress=False).users()["user_id"].tolist() == [
        101,
        102,
        103,
        104,
        107,
    ]
    with pytest.raises(InvalidArgument, match="takes a client or connection settings, not both"):
        ek.connect(client=exposure.client, api_key="x")


@pytest.mark.parametrize("concurrency", [0, -1])
def test_concurrency_below_one_is_refused(concurrency):
    with pytest.raises(InvalidArgument, match="concurrency must be at least 1"):
        connect("https://service.example", concurrency=concurrency)


class OnlyBlocking(httpx.BaseTransport):
    handle_request = staticmethod(answering)


@pytest.mark.parametrize(
    "transport", [httpx.MockTransport(answering), OnlyBlocking()], ids=["both", "blocking"]
)
def test_a_transport_carries_the_load(transport):
    exposure = connect("https://service.example", transport=transport)
    assert exposure.users()["user_id"].tolist() == [101, 102]
    assert exposure.refresh().records()["record_id"].nunique() == 7


def test_it_works_inside_a_running_loop():
    """As in a notebook's cell, whose kernel runs one."""

    async def cell():
        with deviating_server.running() as service:
            return connect(service).users()

    assert len(asyncio.run(cell())) == len(PEOPLE)


def test_nothing_goes_on_after_a_load():
    with deviating_server.running() as service:
        connect(service).refresh()
        assert not [thread for thread in threading.enumerate() if thread.name == "exposurekit"]


# --- progress -----------------------------------------------------------------------------------------

SCRIPT = """
import sys
import exposurekit as ek
exposure = ek.connect(sys.argv[1], integration_name="acme", api_key="k", api_secret="s", progress={progress})
print(len(exposure.users()))
"""


def progress_seen(service, progress, *, terminal):
    """What a process that loads writes to its stderr."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    if terminal:
        termios.tcsetwinsize(theirs, (24, 80))
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT.format(progress=progress), service],
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        terminal_bytes = b""
        try:
            while piece := os.read(ours, 4096):
                terminal_bytes += piece
        except OSError:  # how a terminal tells its end
            pass
        os.close(ours)
        assert process.stdout.read().strip() == b"30"
    assert process.returncode == 0
    return terminal_bytes.decode()


@pytest.mark.parametrize(
    ("progress", "terminal", "is_shown"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False)],
)
def test_a_progress_bar_is_shown_where_somebody_looks(progress, terminal, is_shown):
    with faults.running(many(range(1, 31))) as server:
        output = progress_seen(server.base_url, progress, terminal=terminal)
    if is_shown:
        assert re.search(r"\d+/30 .* people/s", output)
    else:
        assert output == ""


# --- Ctrl-C -------------------------------------------------------------------------------------------

INTERRUPTED = """
import json, sys, threading, time, warnings
import exposurekit as ek
exposure = ek.connect(sys.argv[1], integration_name="acme", api_key="k", api_secret="s", progress=False, concurrency=4)
try:
    exposure.users()
except KeyboardInterrupt:
    stopped = time.monotonic()
time.sleep(0.4)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    people = len(exposure.users())
print(json.dumps({
    "stopped": stopped, "people": people, "told": sorted({str(warning.message) for warning in seen}),
    "files": sorted({warning.filename for warning in seen}),
    "threads": [thread.name for thread in threading.enumerate()], "shown": repr(exposure),
}))
"""


def test_ctrl_c_stops_at_once_and_no_further_call_begins():
    arrivals, waiting, enough, over = [], [], threading.Event(), threading.Event()

    def slow(request, number):
        arrivals.append(time.monotonic())
        if len(arrivals) > 250:
            waiting.append(number)
            if len(waiting) == 4:  # as many as are asked about at once: nobody else is on the way
                enough.set()
            over.wait(60)

    with faults.running(many(range(1, 400), slow)) as server:
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
            output, errors = process.communicate(timeout=60)  # while the four calls are still held
        finally:
            process.kill()
            process.wait()
            over.set()
    assert errors == ""
    result = json.loads(output)
    assert result["stopped"] > sent
    assert [when for when in arrivals if when > sent] == []
    assert 100 < result["people"] < 399
    assert result["told"] == [
        f"{result['people']:,} of 399 people: stopped before the end; refresh() loads everyone"
    ]
    assert result["files"] == ["<string>"]
    assert result["threads"] == ["MainThread"]
    assert result["shown"].endswith("stopped before the end)")


def test_ctrl_c_in_a_refresh_keeps_the_whole_tables(tmp_path):
    """Stopped by hand in this process: the waiting thread is interrupted as a cell is."""
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
        with pytest.raises(KeyboardInterrupt):
            exposure.refresh()
        interrupter.join()
        over.set()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(exposure.users()) == 4


# --- who is asked for ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "user",
    [b"12", True, 1.5, float("nan"), [None], UserKey(id=12, secret="s3cret")],
    ids=repr,
)
def test_what_is_no_id_is_refused_without_being_shown(user):
    with (
        faults.running(many([12])) as server,
        pytest.raises(InvalidArgument, match="id of a person") as refusal,
    ):
        connect(server.base_url).records(user)
    assert "s3cret" not in str(refusal.value)


def test_an_id_may_come_from_a_table():
    with faults.running(many([12])) as server:
        exposure = connect(server.base_url)
        for user in (np.int64(12), 12.0, np.float64(12), pd.Series([12]), {12}):
            assert exposure.users(user)["user_id"].tolist() == [12]


def test_two_threads_may_ask_for_one_table_at_once():
    with faults.running(many(range(1, 60))) as server:
        exposure = connect(server.base_url).refresh()
        with ThreadPoolExecutor(8) as pool:
            lengths = list(pool.map(lambda _: len(exposure.records()), range(32)))
    assert len(set(lengths)) == 1
