"""Opt-outs that a message confirms: honest ones are followed once, forged ones never."""

import asyncio
import multiprocessing
import re
import signal
from datetime import timedelta

import pytest
from sqlalchemy import update
from support import mail_worker
from support.forged_mail import forgeries, kinds
from support.imap_server import an_imap_server
from support.mail import Zone, key_of, message_states, request_states, signed, unsigned
from support.small_web import KEY, Card, Folk, a_house, by_form, definition

from exposurekit.errors import InvalidArgument
from exposurekit.sandbox.world.asgi import HTML, Response, html, redirect
from exposurekit.service.accounts import consent
from exposurekit.service.mail import message_store
from exposurekit.service.scanning import incoming_mail_job
from exposurekit.service.storage import leases, tables

LINK = "http://seekfolk.example/confirm?t=8f1e"
FORM = {"reference": "{reference_id}", "email": "{request_email}"}
DONE, DENIED = "Your removal is confirmed", "This link is not valid"


def confirming(name="Seekfolk", **changed):
    """The removal of a site that sends a message."""
    host = f"{name.lower()}.example"
    confirm = {
        "from": f"no-reply@{host}",
        "subject": "confirm your opt-out",
        "link_host": host,
        "link_path": "/confirm",
        "accepted": DONE,
        "refused": DENIED,
    }
    return by_form(name, fields=FORM, confirm=confirm | changed)


@pytest.fixture
def zone():
    return Zone()


@pytest.fixture
def site(town):
    folk = town.opens("Seekfolk", Folk([Card("r1")]))
    folk.others["/confirm"] = lambda _: html(f"<p>{DONE}.</p>")
    return folk


@pytest.fixture
def house(town, tmp_path, drop, zone, site):
    defined = definition(removal=confirming())
    with a_house(tmp_path, town.resolve, defined, mail=drop.settings, resolve_txt=zone) as house:
        yield house


@pytest.fixture
def juniper(house):
    """A user whose opt-out waits for a message."""
    return house.scanned_juniper()


def addresses(town, name="Seekfolk"):
    return [request.form["email"] for request in town.of(name, "/opt-out")]


def followed(town, name="Seekfolk"):
    return [request.parameters() for request in town.of(name, "/confirm")]


def due(house):
    house.work(lambda work: work.run(update(tables.mailboxes).values(due_at=house.clock.now())))


def poll(house):
    """Check the mailbox, and process what is in it."""
    due(house)
    house.idle()


def test_a_confirmed_opt_out_is_verified_and_removed(house, town, site, drop, juniper):
    [address] = addresses(town)
    assert re.fullmatch(r"optout\+[0-9a-f]{32}@privacy\.example", address)
    assert house.statuses(juniper) == {"r1": "pending removal"}
    drop.deliver(signed(unsigned(address, LINK)))
    poll(house)
    assert followed(town) == [{"t": "8f1e"}]
    assert (message_states(house), request_states(house), drop.left()) == (
        [("confirmed", None)],
        ["confirmed"],
        [],
    )
    site.cards.clear()
    house.advance(days=2.1)  # the site's processing time
    assert house.rows()[0].absences == 1
    house.advance(days=1)
    assert house.statuses(juniper) == {"r1": "removed"}
    assert house.alert_titles(juniper) == ["New record", "Opt-out submitted", "Removal verified"]
    assert (len(addresses(town)), len(followed(town))) == (1, 1)


def test_without_a_message_a_person_has_to_act(house, town, juniper):
    house.advance(days=6.9)
    assert house.statuses(juniper) == {"r1": "pending removal"}
    house.advance(days=0.2)
    assert house.statuses(juniper) == {"r1": "discovered"}
    assert house.alert_titles(juniper)[-1] == "Opt-out unconfirmed"
    assert house.alerts(juniper)[-1]["opt_out_procedure"] == ["Open the form.", "Press Remove."]
    assert request_states(house) == ["expired"]
    house.advance(days=30)
    assert len(addresses(town)) == 1


def test_a_message_that_comes_too_late_is_not_followed(house, town, drop, juniper):
    house.advance(days=7.1)
    drop.deliver(signed(unsigned(addresses(town)[0], LINK)))
    poll(house)
    assert followed(town) == []
    assert message_states(house) == [("rejected", "its request is no longer waiting: it is expired")]


def test_a_second_message_is_not_followed(house, town, drop, juniper):
    [address] = addresses(town)
    drop.deliver(*(signed(unsigned(address, f"{LINK}{number}")) for number in range(3)))
    poll(house)
    drop.deliver(signed(unsigned(address, LINK)))
    poll(house)
    assert len(followed(town)) == 1
    assert [state for state, _ in sorted(message_states(house))] == [
        "confirmed",
        "rejected",
        "rejected",
        "rejected",
    ]
    assert message_states(house)[3][1] == "its request is no longer waiting: it is confirmed"


def test_the_same_message_twice_is_stored_once(house, town, drop, juniper):
    message = signed(unsigned(addresses(town)[0], LINK))
    drop.deliver(message, message)
    poll(house)
    drop.deliver(message)
    poll(house)
    assert (len(followed(town)), message_states(house), drop.left()) == (1, [("confirmed", None)], [])


def test_a_refused_confirmation_needs_a_person(house, town, site, drop, juniper):
    site.others["/confirm"] = lambda _: html(f"<p>{DENIED}.</p>")
    drop.deliver(signed(unsigned(addresses(town)[0], LINK)))
    poll(house)
    assert house.statuses(juniper) == {"r1": "discovered"}
    assert house.alert_titles(juniper)[-1] == "Opt-out refused"
    assert message_states(house) == [("rejected", "its link was followed: the site refused")]


@pytest.mark.parametrize(
    "answer",
    [html("", 500), Response(delay_s=5), html("Welcome"), redirect("/confirm")],
    ids=["an error", "none in time", "none of the marks", "round and round"],
)
def test_an_unclear_answer_is_not_asked_for_again(house, town, site, drop, answer):
    house.has(definition(removal=confirming(), search={"timeout_s": 0.3}))
    juniper = house.scanned_juniper()
    site.others["/confirm"] = lambda _: answer
    drop.deliver(signed(unsigned(addresses(town)[0], LINK)))
    poll(house)
    first = len(followed(town))
    house.advance(days=1)
    assert first == len(followed(town)) >= 1
    [(state, reason)] = message_states(house)
    assert (state, request_states(house)) == ("rejected", ["unclear"])
    assert reason.startswith("its link was followed: ")
    assert house.statuses(juniper) == {"r1": "pending removal"}


def test_a_person_confirms_what_the_service_rejected(house, town, site, drop, juniper):
    """The service requests nothing; scans then verify the removal. A request that waits no more is not confirmed."""
    [address] = addresses(town)
    drop.deliver(*(unsigned(to, LINK).as_bytes() for to in (address, address, "x@other.example")))
    poll(house)
    first, second, unaddressed = (row.id for row in house.rows(tables.mail_messages))

    def confirm(message_id, definitions=house.definitions):
        return house.work(lambda work: incoming_mail_job.confirm(work, message_id, definitions))

    with pytest.raises(InvalidArgument, match="not a rejected message to the address of a request"):
        confirm(unaddressed)
    with pytest.raises(InvalidArgument, match="its site has no definition"):
        confirm(first, {})
    [record] = house.rows()
    assert (confirm(first), request_states(house), message_states(house)[0]) == (
        record.id,
        ["confirmed"],
        ("confirmed", None),
    )
    for message_id, reason in ((first, "is not a rejected message"), (second, "it is confirmed")):
        with pytest.raises(InvalidArgument, match=reason):
            confirm(message_id)
    assert (followed(town), house.statuses(juniper)) == ([], {"r1": "pending removal"})
    site.cards.clear()
    house.advance(days=3.1)
    assert (followed(town), house.statuses(juniper)) == ([], {"r1": "removed"})


def test_a_redirect_is_part_of_following(house, town, site, drop, juniper):
    site.others |= {"/confirm": lambda _: redirect("/done"), "/done": lambda _: html(DONE)}
    drop.deliver(signed(unsigned(addresses(town)[0], LINK)))
    poll(house)
    assert request_states(house) == ["confirmed"]
    assert len(town.of("Seekfolk", "/done")) == 1


def test_a_message_may_be_quicker_than_the_forms_answer(house, town, site, drop):
    """An unclear answer: the form may have arrived, and the message shows that it did."""
    site.opt_out = lambda _: html("Thank you.")
    juniper = house.scanned_juniper()
    assert house.statuses(juniper) == {"r1": "discovered"}
    drop.deliver(signed(unsigned(addresses(town)[0], LINK)))
    poll(house)
    assert house.statuses(juniper) == {"r1": "pending removal"}
    house.advance(hours=12)
    assert len(addresses(town)) == 1


def test_a_repeated_form_has_the_same_address(house, town, site):
    site.opt_out = lambda _: html("Thank you.")
    house.scanned_juniper()
    house.advance(hours=2)
    assert len(addresses(town)) == 2
    assert len({*addresses(town)}) == 1


def test_each_request_has_an_address_of_its_own(house, town, site):
    site.cards.append(Card("r2"))
    house.scanned_juniper()
    assert len({*addresses(town)}) == 2


def test_sister_sites_count_as_submitted_once_confirmed(house, town, drop, site):
    removal = confirming() | {"also_removes": ["Sister"]}
    house.has(definition(removal=removal), definition("Sister"))
    town.opens("Sister", Folk([Card("s1")]))
    juniper = house.scanned_juniper()
    assert house.statuses(juniper) == {"r1": "pending removal", "s1": "discovered"}
    drop.deliver(signed(unsigned(addresses(town)[0], LINK)))
    poll(house)
    assert house.statuses(juniper) == {"r1": "pending removal", "s1": "pending removal"}


# --- who may be scanned ---------------------------------------------------------------------------------


def test_nothing_is_followed_after_consent_was_withdrawn(house, town, drop, juniper):
    house.work(lambda work: consent.withdraw(work, juniper["id"], withdrawn_by="her"))
    drop.deliver(signed(unsigned(addresses(town)[0], LINK)))
    poll(house)
    assert followed(town) == []
    assert (
        message_states(house)[0][1]
        == "the person's consent was withdrawn, or the service is not active for them"
    )


def test_a_purge_deletes_messages_and_requests(house, town, drop, juniper):
    drop.deliver(unsigned(addresses(town)[0], LINK).as_bytes())
    poll(house)
    assert len(message_states(house)) == len(request_states(house)) == 1
    house.work(lambda work: consent.purge(work, juniper["id"]))
    assert message_states(house) == request_states(house) == []


@pytest.mark.usefixtures("juniper")
def test_neither_database_nor_log_contains_a_message(house, town, tmp_path, drop, caplog):
    caplog.set_level("DEBUG")
    [address] = addresses(town)
    drop.deliver(unsigned(address, "planted-1").as_bytes(), signed(unsigned(address, f"{LINK}-planted-2")))
    drop.deliver(signed(unsigned(address, "planted-3"), "planted.example"))
    poll(house)
    assert len(followed(town)) == 1
    files = b"".join(file.read_bytes() for file in tmp_path.glob("service.db*"))
    token = address.partition("+")[2].partition("@")[0]
    assert b"rejected" in files
    for text in (token, "planted", "8f1e"):
        assert text.encode() not in files, text
        assert not [record for record in caplog.records if text in f"{record.getMessage()} {record.args}"], (
            text
        )


# --- failures, and kills --------------------------------------------------------------------------------


def test_a_message_waits_while_dns_does_not_answer(house, town, drop, zone, juniper):
    zone.is_down = True
    drop.deliver(signed(unsigned(addresses(town)[0], LINK)))
    poll(house)
    assert (message_states(house), followed(town)) == ([("received", None)], [])
    zone.is_down = False
    house.advance(minutes=16)
    assert request_states(house) == ["confirmed"]


def test_a_message_waits_while_its_site_asks_to_retry_later(house, town, site, drop):
    """Its link was not requested: the other message's was, and its answer is unclear."""
    one_at_a_time = {"delay_s": 0, "concurrency": 1}
    house.has(definition(removal=confirming(), politeness=one_at_a_time))
    site.cards.append(Card("r2"))
    busy = [Response(b"", 429, headers=(("Retry-After", "1800"),))]
    site.others["/confirm"] = lambda _: busy.pop() if busy else html(DONE)
    house.scanned_juniper()
    drop.deliver(*(signed(unsigned(address, LINK)) for address in addresses(town)))
    poll(house)
    assert sorted(request_states(house)) == ["unclear", "waiting"]
    assert sorted(state for state, _ in message_states(house)) == ["received", "rejected"]
    house.advance(hours=1)
    assert sorted(request_states(house)) == ["confirmed", "unclear"]
    assert len(followed(town)) == 2


def test_a_mailbox_that_fails_is_checked_again(house, town, drop, juniper):
    drop.directory.rmdir()
    poll(house)
    [row] = house.rows(tables.mailboxes)
    assert row.problem == f"No such file or directory ({drop.directory})"[:80]
    drop.directory.mkdir()
    drop.deliver(signed(unsigned(addresses(town)[0], LINK)))
    poll(house)
    assert request_states(house) == ["confirmed"]
    assert house.rows(tables.mailboxes)[0].problem is None


@pytest.mark.parametrize(("seconds", "is_due"), [(120, False), (63 * 60, True)])
def test_a_check_waits_no_longer_than_the_settings_say(house, drop, juniper, seconds, is_due):
    now = house.clock.now()
    due_at = now + timedelta(seconds=seconds)
    house.work(lambda work: work.run(update(tables.mailboxes).values(due_at=due_at)))
    settings = drop.settings.model_copy(update={"check_every_s": 120})
    house.behind(lambda database: incoming_mail_job.register_mailbox(database, settings))
    assert [row.due_at for row in house.rows(tables.mailboxes)] == [now if is_due else due_at]


def test_a_flood_is_stored_in_several_jobs(house, town, drop, juniper, monkeypatch):
    monkeypatch.setattr(incoming_mail_job, "BATCH", 2)
    monkeypatch.setattr(incoming_mail_job, "BATCHES_MAX", 1)
    drop.deliver(*(f"Subject: {number}\r\n\r\n".encode() for number in range(9)))
    drop.deliver(signed(unsigned(addresses(town)[0], LINK)))
    poll(house)
    assert (drop.left(), len(message_states(house)), request_states(house)) == ([], 10, ["confirmed"])


async def _lost(*_args):
    """A killed worker releases no lease."""


def poll_and_kill(house, monkeypatch, owner, name, *, after):
    """Let the worker end just before or after it calls a function for the first time."""
    original, reached = getattr(owner, name), asyncio.Event()

    async def ends(*args, **options):
        if after:
            await original(*args, **options)
        reached.set()
        await asyncio.Event().wait()

    async def run(database):
        working = asyncio.create_task(house.worker(database).run_until_idle())
        await asyncio.wait_for(reached.wait(), 60)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, ends)
        patch.setattr(leases, "abandon", _lost)
        due(house)
        house.behind(run)


KILLS = {
    "before it is stored": (message_store, "store", False, 1),
    "after it is stored, before the commit": (message_store, "store", True, 1),
    "before it is processed": (incoming_mail_job, "_load", False, 1),
    "before the link is claimed": (incoming_mail_job, "_claim", False, 1),
    "before the answer is saved": (incoming_mail_job, "_save", False, 1),
    "after the answer is saved": (incoming_mail_job, "_save", True, 1),
    "after the link is claimed": (incoming_mail_job, "_claim", True, 0),
}


@pytest.mark.parametrize("kill", KILLS)
@pytest.mark.usefixtures("juniper")
def test_a_kill_neither_loses_a_message_nor_follows_twice(house, town, drop, monkeypatch, kill):
    """A request that was announced, and perhaps sent, is not sent again: a person sees its message."""
    owner, name, after, times = KILLS[kill]
    drop.deliver(signed(unsigned(addresses(town)[0], LINK)))
    poll_and_kill(house, monkeypatch, owner, name, after=after)
    house.advance(minutes=30)
    assert len(followed(town)) == times
    [message] = message_states(house)
    is_interrupted = kill in {"after the link is claimed", "before the answer is saved"}
    assert message == (("rejected", incoming_mail_job.INTERRUPTED) if is_interrupted else ("confirmed", None))
    assert request_states(house) == ["unclear" if is_interrupted else "confirmed"]
    assert drop.left() == []
    house.advance(days=2.1)
    assert house.rows()[0].status == "pending removal"  # scanned, and still listed
    assert len(followed(town)) == times


@pytest.mark.long
def test_a_message_in_a_real_mailbox_confirms_an_opt_out(town, tmp_path, site, zone):
    with an_imap_server() as server:
        settings = server.settings("optout")
        defined = definition(removal=confirming())
        with a_house(tmp_path, town.resolve, defined, mail=settings, resolve_txt=zone) as house:
            house.scanned_juniper()
            server.deliver("optout", signed(unsigned(addresses(town)[0], LINK)), b"Subject: spam\r\n\r\nspam")
            poll(house)
            poll(house)
            assert (len(followed(town)), request_states(house), server.left("optout")) == (
                1,
                ["confirmed"],
                0,
            )
            assert sorted(message_states(house))[1] == ("rejected", message_store.NO_REQUEST)


# Processes are forked from one that has imported the package and has used nothing of it.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["support.mail_worker"])


@pytest.mark.long
def test_killed_processes_follow_each_link_at_most_once(town, site, drop, tmp_path):
    """SIGKILL at any moment: no message is lost, and none is followed twice."""
    n = 12
    site.cards[:] = [Card(f"r{number}") for number in range(n)]
    site.others["/confirm"] = lambda _: Response(html(DONE).body, kind=HTML, delay_s=0.05)
    with a_house(tmp_path, town.resolve, definition(removal=confirming()), mail=drop.settings) as house:
        house.scanned_juniper()
    # From here on only the processes that are killed have the database open.
    *early, late = enumerate(addresses(town))
    for number, address in early:
        drop.deliver(signed(unsigned(address, f"{LINK}-{number}")))
    due(house)
    settings = {
        "url": f"sqlite:///{house.directory / 'service.db'}",
        "key": KEY.hex(),
        "directory": str(drop.directory),
        "definition": house.definitions["Seekfolk"].model_dump(mode="json", by_alias=True),
        "records": {"s1._domainkey.seekfolk.example": key_of("seekfolk.example")[1].decode()},
        "port": town.port,
    }

    def started():
        ready = FORKS.Event()
        arguments = (settings | {"now": house.clock.now().isoformat()}, ready)
        process = FORKS.Process(target=mail_worker.main, args=arguments)
        process.start()
        assert ready.wait(60)
        return process

    kills = 0
    while True:
        process = started()
        process.join(0.06 * kills)
        if process.exitcode is None:
            process.kill()
            process.join()
            kills += 1
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        assert kills < 100
        house.clock.advance(timedelta(minutes=6))  # its leases expire
        due(house)
    assert kills > 0
    # A kill may interrupt all of these at once. What comes afterwards is confirmed in any case.
    drop.deliver(signed(unsigned(late[1], f"{LINK}-{late[0]}")))
    house.clock.advance(timedelta(minutes=6))
    due(house)
    process = started()
    process.join(60)
    assert process.exitcode == 0
    tokens = [one["t"] for one in followed(town)]
    assert len({*tokens}) == len(tokens)
    assert drop.left() == []
    states = [state for state, _ in message_states(house)]
    assert len(states) == n
    assert {*states} <= {"confirmed", "rejected"}
    assert {reason for state, reason in message_states(house) if state == "rejected"} <= {
        incoming_mail_job.INTERRUPTED
    }
    assert {*request_states(house)} <= {"confirmed", "unclear"}
    assert states.count("confirmed") == request_states(house).count("confirmed") > 0


# --- forged and honest messages -------------------------------------------------------------------------


def honest(address, number):
    """The same message as different sites write, encode and sign it."""
    link = f"{LINK}-{number}"
    page = f'<p>Hello</p><a class=x href="{link}&amp;from=mail">Confirm</a> <a href="http://seekfolk.example/help">?</a>'
    variants = {
        "plain": lambda: signed(unsigned(address, link)),
        "a sentence": lambda: signed(unsigned(address, text=f"Open ({link}), please. Or write to us.\n")),
        "HTML": lambda: signed(unsigned(address, html=page)),
        "HTML and text": lambda: signed(unsigned(address, f"{link}&from=text", html=page)),
        "long": lambda: signed(unsigned(address, f"{link}{'0' * 900}")),
        "other characters": lambda: signed(unsigned(address, f"{link} \u2026 gr\u00fc\u00dfe")),
        "a name": lambda: signed(
            unsigned(f"Juniper <{address}>", link, sender="Seek <No-Reply@Seekfolk.Example>")
        ),
        "capital letters": lambda: signed(unsigned(address.upper(), link)),
        "another subject": lambda: signed(unsigned(address, link, subject="CONFIRM YOUR OPT-OUT \u2713")),
        "long subject": lambda: signed(
            unsigned(address, link, subject=f"Confirm your opt-out {'now ' * 40}")
        ),
        "simple": lambda: signed(unsigned(address, link), canonicalize=(b"simple", b"simple")),
        "relaxed": lambda: signed(unsigned(address, link), canonicalize=(b"relaxed", b"relaxed")),
        "few headers": lambda: signed(unsigned(address, link), headers=("from", "to", "subject")),
        "signed twice": lambda: signed(signed(unsigned(address, link)), "sender.example"),
        "with a bad signature": lambda: signed(signed(unsigned(address, link)), selector="s2"),
        "line feeds": lambda: signed(unsigned(address, link)).replace(b"\r\n", b"\n"),
        "received": lambda: (
            b"Received: from a by b\r\nDelivered-To: optout\r\n" + signed(unsigned(address, link))
        ),
        "automatic": lambda: signed(unsigned(address, link, headers={"Auto-Submitted": "auto-generated"})),
        "host in capitals": lambda: signed(unsigned(address, link.replace("seekfolk", "SeekFolk"))),
        "twice the link": lambda: signed(unsigned(address, f"{link} or {link}")),
    }
    return [*variants.values()][number % len(variants)](), len(variants)


NO_LINK, SIGNATURE = "it has no link that", "it has no valid DKIM signature of seekfolk.example"
SENDER, RECIPIENT = "its sender is not that", "it is not addressed to this request alone"
HEADER, BOUNCE, SUBJECT = (
    "a header is missing or repeated",
    "it is a report on the delivery",
    "its subject is not that",
)
REASONS = {
    "another host": {NO_LINK},
    "another host in HTML": {NO_LINK},
    "another scheme": {NO_LINK},
    "another path": {NO_LINK},
    "several links": {"it has several links that"},
    "no signature": {SIGNATURE},
    "signed by another domain": {SIGNATURE},
    "signed with another key": {SIGNATURE},
    "no key": {SIGNATURE},
    "revoked key": {SIGNATURE},
    "key for tests": {SIGNATURE},
    "SHA-1": {SIGNATURE},
    "part of the body signed": {SIGNATURE},
    "changed after signing": {SIGNATURE},
    "header not signed": {SIGNATURE},
    "another sender": {SENDER},
    "another sender, signed by theirs": {SENDER},
    "repeated header": {HEADER},
    "another subject": {SUBJECT},
    "another recipient": {RECIPIENT, "no request has the address"},
    "bounce": {BOUNCE},
    "in an attachment": {NO_LINK},
    "a forwarded message": {NO_LINK},
    "unreadable": {"no request has the address", SENDER, "it cannot be read", HEADER, SIGNATURE},
}


def test_no_forgery_is_followed_and_every_honest_message_is(house, town, site, drop, zone):
    """Each kind of forgery is rejected for its own reason: otherwise one check could hide that another is missing."""
    _, n = honest("a@b.example", 0)
    assert {*REASONS} == kinds()
    site.cards[:] = [Card(f"r{number}") for number in range(2 * n)]
    house.scanned_juniper()
    zone.records = {
        "revoked._domainkey.seekfolk.example": b"v=DKIM1; k=rsa; p=",
        "testing._domainkey.seekfolk.example": key_of("seekfolk.example")[1] + b"; t=s:y",
    }
    forged = {
        message: kind
        for kind, address in zip(REASONS, addresses(town), strict=False)
        for message in forgeries(address, kind).values()
    }
    assert len(forged) >= 200
    drop.deliver(*forged)
    poll(house)
    fingerprint = house.database.vault.fingerprint
    kind_of = {
        fingerprint(message.decode("latin-1"), message_store._DOMAIN): forged[message] for message in forged
    }
    reasons = {(kind_of[row.digest], row.reason) for row in house.rows(tables.mail_messages)}
    assert {(kind, why) for kind, why in reasons if not why.startswith(tuple(REASONS[kind]))} == set()
    assert {kind for kind, _ in reasons} == {*REASONS}
    assert followed(town) == []
    assert drop.left() == []
    assert {*request_states(house)} == {"waiting"}
    assert {state for state, _ in message_states(house)} == {"rejected"}
    for number, address in enumerate(addresses(town)):
        drop.deliver(honest(address, number)[0])
    poll(house)
    poll(house)
    assert {*request_states(house)} == {"confirmed"}
    assert len({one["t"] for one in followed(town)}) == len(followed(town)) == 2 * n
