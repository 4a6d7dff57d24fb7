"""Opt-outs by email: approved, sent once to the site's address alone, answered in time or complained about."""

from copy import deepcopy
from datetime import timedelta
from email import message_from_string
from email.message import EmailMessage

import pytest
from sqlalchemy import update
from support.mail import MAILBOX, approve_drafts, message_states, request_states, unsigned
from support.services import START
from support.small_web import JUNIPER, Card, Folk, a_house, by_form, definition
from support.smtp_server import an_smtp_server

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import consent, users
from exposurekit.service.accounts.subject import USER_FIELDS
from exposurekit.service.findings.findings import discover_record
from exposurekit.service.mail import opt_out_emails, opt_out_requests, smtp, wording
from exposurekit.service.models import Listing
from exposurekit.service.storage import leases, tables

TO = "privacy@seekfolk.example"


def by_email(name="Seekfolk", **changed):
    email = {"to": f"privacy@{name.lower()}.example", "template": "ccpa"}
    return {
        "method": "email",
        "email": email | changed,
        "user_fields_required": ["city"],
        "processing_days": 2,
    }


@pytest.fixture
def site(town):
    return town.opens("Seekfolk", Folk([Card("r1")]))


@pytest.fixture
def settings(drop, server):
    """Change what the settings say of sending."""

    def changed(**values):
        return drop.settings.model_copy(update={"smtp": server.settings(**values)})

    return changed


@pytest.fixture
def open_house(town, tmp_path, site):
    def opened(mail, **changed):
        return a_house(tmp_path, town.resolve, definition(removal=by_email(**changed)), mail=mail)

    return opened


@pytest.fixture
def house(open_house, settings):
    with open_house(settings()) as house:
        yield house


@pytest.fixture
def juniper(house):
    """A user whose opt-out waits for approval."""
    return house.scanned_juniper()


def report(kind, fields, sender=TO):
    """A report of a mail system or a mail reader: RFC 6522."""
    message = unsigned(MAILBOX, sender=sender, subject="Report", text="See below.")
    message.make_mixed()
    part = EmailMessage()
    part["Content-Type"] = f"message/{kind}"
    part.set_payload(
        [message_from_string("Reporting-UA: x.example\n\n"), message_from_string(fields + "\n\n")]
    )
    message.attach(part)
    message.replace_header("Content-Type", f'multipart/report; report-type={kind}; boundary="b"')
    return message


def arrives(house, drop, *messages):
    drop.deliver(*(message.as_bytes() for message in messages))
    house.work(lambda work: work.run(update(tables.mailboxes).values(due_at=house.clock.now())))
    house.idle()


def test_an_opt_out_is_sent_once_a_person_approves_it(house, server, site, juniper):
    house.advance(days=1)
    assert (server.recipients, request_states(house)) == ([], ["draft"])
    assert house.statuses(juniper) == {"r1": "discovered"}
    approve_drafts(house)
    assert (server.recipients, request_states(house)) == ([TO], ["sent"])
    assert house.statuses(juniper) == {"r1": "pending removal"}
    site.cards.clear()
    house.advance(days=3.1)
    assert house.statuses(juniper) == {"r1": "removed"}
    house.advance(days=8)
    assert server.recipients == [TO]
    assert house.alert_titles(juniper) == ["New record", "Opt-out submitted", "Removal verified"]


def test_a_message_says_who_asks_for_what_with_whose_consent(house, server, juniper):
    approve_drafts(house)
    [message], [envelope] = server.messages, server.envelopes
    assert (message["From"], message["To"], message["Cc"], message["Bcc"]) == (MAILBOX, TO, None, None)
    assert envelope.mail_from == message["Reply-To"]
    assert message["Reply-To"].startswith("optout+")
    assert "Juniper" not in message["Subject"]
    assert message["Date"].datetime == house.clock.now()
    text = message.get_content().replace("\r\n", "\n")
    assert message.get_content_type() == "text/plain"
    assert "California Consumer Privacy Act" in text
    assert "Juniper Quillfeather, number r1" in text
    assert "City: Oakmere\n" in text
    assert f"agreed on {START.day} January 2026" in text
    assert "names the operator" in text
    for value in ("12 Acorn Street", "95999", "6095550123", "juniper@example.com", "1983"):
        assert value not in text  # only what the definition requires


def test_a_message_has_the_name_and_address_of_the_listing(open_house, settings, server, site):
    site.cards[:] = [Card("r1", name="Juniper Otterwick", locations=("Mothgate, CT",))]
    addresses = [*JUNIPER["addresses"], {"city": "Mothgate", "state": "CT"}]
    with open_house(settings(requires_approval=False)) as house:
        house.scanned_juniper(
            addresses=addresses, aliases=[{"first_name": "Juniper", "last_name": "Otterwick"}]
        )
    [message] = server.messages
    text = message.get_content()
    assert "City: Mothgate" in text
    assert "Otterwick" in text
    assert "Quillfeather" not in text
    assert "Oakmere" not in text


@pytest.mark.parametrize("removal", [by_email(), by_form("Seekfolk")], ids=["email", "form"])
def test_a_field_that_the_listed_address_lacks_is_missing(open_house, town, settings, server, removal):
    """An opt-out states the address of the listing, and not the street of another one."""
    town.opens("Seekfolk", Folk([Card("r1", locations=("Mothgate, CT",))]))
    mothgate = {"city": "Mothgate", "state": "CT"}
    with open_house(settings(requires_approval=False)) as house:
        house.has(definition(removal=removal | {"user_fields_required": ["address1"]}))
        juniper = house.scanned_juniper(addresses=[*JUNIPER["addresses"], mothgate])
        house.advance(days=30)
        assert (server.recipients, town.of("Seekfolk", "/opt-out")) == ([], [])
        assert house.alert_titles(juniper) == ["New record"]
        assert house.alerts(juniper)[0]["opt_out_procedure"] == ["Open the form.", "Press Remove."]
        listed = house.get(juniper)["user"]["addresses"][-1]
        house.update(juniper, addresses=[{"id": listed["id"], "address1": "9 Kite Lane"}])
        house.idle()
        assert len(server.recipients) + len(town.of("Seekfolk", "/opt-out")) == 1
        assert house.statuses(juniper) == {"r1": "pending removal"}


@pytest.mark.parametrize("removal", [by_email(), by_form("Seekfolk")], ids=["email", "form"])
def test_a_field_of_the_listed_address_is_not_missing(open_house, town, settings, server, removal):
    """The current address lacks it, which the opt-out does not state."""
    town.opens("Seekfolk", Folk([Card("r1", locations=("Mothgate, CT",))]))
    mothgate = {"address1": "9 Kite Lane", "city": "Mothgate", "state": "CT"}
    with open_house(settings(requires_approval=False)) as house:
        house.has(definition(removal=removal | {"user_fields_required": ["address1"]}))
        juniper = house.scanned_juniper(addresses=[{"city": "Oakmere", "state": "CA"}, mothgate])
        assert len(server.recipients) + len(town.of("Seekfolk", "/opt-out")) == 1
        assert house.alert_titles(juniper) == ["New record", "Opt-out submitted"]
        assert house.alerts(juniper)[0]["opt_out_procedure"] == []


@pytest.mark.parametrize(("template", "words"), [("gdpr", "Article 17"), ("neutral", "did not ask for that")])
def test_each_template_has_words_of_its_own(open_house, settings, server, template, words):
    with open_house(settings(requires_approval=False), template=template) as house:
        house.scanned_juniper()
        [message] = server.messages
        assert words in " ".join(message.get_content().split())
        assert "California" not in message.get_content()


def test_without_approval_opt_outs_are_sent_within_limits(open_house, settings, server, site):
    site.cards[:] = [Card(f"r{number}") for number in range(5)]
    with open_house(settings(requires_approval=False, per_site_per_day=2)) as house:
        house.scanned_juniper()
        house.advance(hours=23)
        assert len(server.recipients) == 2
        house.advance(days=1)
        assert len(server.recipients) == 4
        house.advance(days=1)
        assert server.recipients == [TO] * 5


def test_the_limit_of_a_day_is_for_all_sites(open_house, settings, server, town):
    town.opens("Other", Folk([Card("o1")]))
    with open_house(settings(requires_approval=False, per_day=1)) as house:
        house.definitions["Other"] = definition("Other", removal=by_email("Other"))
        house.scanned_juniper()
        assert len(server.recipients) == 1
        house.advance(days=1.1)
        assert sorted(server.recipients) == ["privacy@other.example", TO]


@pytest.mark.usefixtures("juniper")
def test_a_sending_that_a_kill_interrupted_counts_for_a_day(house, site):
    """Its listing may be removed meanwhile, and then no worker ends it."""
    site.cards.append(Card("r2"))
    house.advance(days=8)
    assert request_states(house) == ["draft", "draft"]

    async def begun(work, number):
        await opt_out_emails.approve(work, number)
        request = await opt_out_requests.get(work, number)
        return await opt_out_requests.begin_sending(work, request, per_day=1, per_site_per_day=1)

    assert house.work(lambda work: begun(work, 1)) is True
    assert house.work(lambda work: begun(work, 2)) is False
    house.clock.advance(timedelta(days=1, seconds=1))
    request = house.work(lambda work: opt_out_requests.get(work, 2))
    assert house.work(
        lambda work: opt_out_requests.begin_sending(work, request, per_day=1, per_site_per_day=1)
    )


def test_nothing_is_sent_without_consent(house, server, juniper):
    house.work(lambda work: consent.withdraw(work, juniper["id"], withdrawn_by="her"))
    with pytest.raises(ConfigurationError, match="consent was withdrawn"):
        approve_drafts(house)
    house.advance(days=1)
    assert server.recipients == []


def test_consent_withdrawn_after_approval_stops_the_sending(house, server, juniper):
    async def approved_and_withdrawn(work):
        await opt_out_emails.approve(work, 1)
        await consent.withdraw(work, juniper["id"], withdrawn_by="her")

    house.work(approved_and_withdrawn)
    house.advance(days=1)
    assert server.recipients == []


@pytest.mark.parametrize("stop", ["withdraw", "deactivate"])
def test_an_approval_ends_with_the_consent(house, server, juniper, stop):
    """A new consent is for the data of its own day, which a person has to approve."""

    async def approved_and_stopped(work):
        await opt_out_emails.approve(work, 1)
        if stop == "withdraw":
            await consent.withdraw(work, juniper["id"], withdrawn_by="her")
        else:
            await consent.deactivate(work, juniper["id"])

    async def resumed(work):
        await consent.activate(work, juniper["id"])
        await consent.consent(work, juniper["id"], granted_by="her")

    house.work(approved_and_stopped)
    house.advance(days=90)
    house.work(resumed)
    house.advance(days=8)
    assert (server.recipients, request_states(house)) == ([], ["ended", "draft"])
    approve_drafts(house)
    assert (server.recipients, request_states(house)) == ([TO], ["ended", "sent"])


@pytest.mark.parametrize(
    "person",
    [
        {"first_name": "Juniper\r\nBcc: evil@evil.example\r\n"},
        {"last_name": "Quillfeather\nTo: evil@evil.example"},
        {"addresses": [{"city": "Oakmere\r\n.\r\nRCPT TO:<evil@evil.example>", "state": "CA"}]},
        {"emails": [{"address": "evil@evil.example, other@evil.example"}]},
    ],
)
def test_no_data_of_a_person_adds_a_recipient(open_house, settings, server, person):
    with open_house(settings(requires_approval=False)) as house:
        user = house.juniper(**person)

        async def discover(work):
            subject = await users.get_subject(work, user["id"])
            listing = Listing(
                name="Juniper\r\nBcc: evil@evil.example", reference_id="r9", href="x\r\nTo: e@evil.example"
            )
            described = house.definitions["Seekfolk"].site_of(listing, subject)
            await discover_record(work, user["id"], listing, described)

        house.work(discover)
        house.idle()
        assert {*server.recipients} == {TO}
        for message in server.messages:
            assert (message["To"], message["Bcc"], message["Cc"]) == (TO, None, None)


def test_a_message_has_each_field_that_a_site_may_require():
    values = {name: f"their {name}" for name in USER_FIELDS}
    text = wording.opt_out(
        "ccpa",
        wording.Listing(site="Seekfolk", name="Juniper Quillfeather", href=None, reference_id="r1"),
        values,
        wording.Consent(granted_at=START, granted_by="the operator"),
        answer_within_days=45,
    )
    lines = text.splitlines()
    assert {
        name for name, value in values.items() if any(line.endswith(f": {value}") for line in lines)
    } == USER_FIELDS


# --- failures -------------------------------------------------------------------------------------------


def test_a_refused_message_is_tried_again_and_then_needs_somebody(house, server, juniper):
    server.answer_to_message = "554 no"
    approve_drafts(house)
    assert (len(server.envelopes), request_states(house)) == (1, ["approved"])
    house.advance(days=6)
    assert (len(server.envelopes), request_states(house)) == (5, ["returned"])
    assert house.alert_titles(juniper)[-1] == "Opt-out unanswered"
    assert house.statuses(juniper) == {"r1": "discovered"}


def test_a_refused_recipient_is_no_reason_to_try_another(house, server, juniper):
    server.answer_to_recipient = "550 nobody"
    approve_drafts(house)
    house.advance(days=6)
    assert (server.envelopes, request_states(house)) == ([], ["returned"])


def test_what_may_have_been_sent_is_not_sent_again(house, server, juniper):
    server.answer_to_message = None
    approve_drafts(house)
    assert (len(server.envelopes), request_states(house)) == (1, ["draft"])
    house.advance(days=10)
    assert len(server.envelopes) == 1
    server.answer_to_message = "250 OK"
    approve_drafts(house)
    assert (len(server.envelopes), request_states(house)) == (2, ["sent"])


def test_a_second_sending_that_fails_has_no_date(house, server, juniper):
    server.answer_to_message = None
    approve_drafts(house)
    server.answer_to_message = "554 no"
    approve_drafts(house)
    house.advance(days=6)
    [request] = house.work(lambda work: opt_out_requests.emails(work, limit=9))
    assert (request.state, request.sent_at, request.date) == ("returned", START, None)


def test_an_email_after_an_unclear_one_needs_an_approval(open_house, settings, server):
    """The draft that says so ends with a required field, and the field comes back: also if the next draft ends, too."""
    server.answer_to_message = None
    with open_house(settings(requires_approval=False)) as house:
        house.has(definition(removal=by_email() | {"user_fields_required": ["email"]}))
        juniper = house.scanned_juniper()
        [draft] = house.rows(tables.mail_requests)
        assert (draft.state, draft.sent_at, len(server.envelopes)) == ("draft", house.clock.now(), 1)
        server.answer_to_message = "250 OK"
        for ended in (["ended"], ["ended", "ended"]):
            [email] = house.get(juniper)["user"]["emails"]
            house.update(juniper, emails=[{"id": email["id"], "_destroy": True}])
            house.advance(days=1)
            assert request_states(house) == ended
            house.update(juniper, emails=[{"address": "juniper@example.com"}])
            house.advance(days=1)
            assert (request_states(house), len(server.envelopes)) == ([*ended, "draft"], 1)
        approve_drafts(house)
        assert (request_states(house), len(server.envelopes)) == (["ended", "ended", "sent"], 2)
        assert server.messages[1]["Date"].datetime == house.clock.now()


def test_a_kill_while_sending_makes_it_a_draft(house, server, juniper):
    async def killed(work):
        await opt_out_emails.approve(work, 1)
        request = await opt_out_requests.get(work, 1)
        assert await opt_out_requests.begin_sending(work, request, per_day=1, per_site_per_day=1)
        await leases.acquire_one(work, tables.records, request.record_id, duration=opt_out_requests._DAY / 24)

    house.work(killed)
    house.advance(hours=2)
    assert (server.envelopes, request_states(house)) == ([], ["draft"])
    approve_drafts(house)
    assert (server.recipients, request_states(house)) == ([TO], ["sent"])


# --- answers, deadlines, complaints ---------------------------------------------------------------------


@pytest.mark.parametrize("way", ["address", "reference"])
def test_an_answer_is_recorded_and_left_to_a_person(house, server, drop, juniper, way):
    approve_drafts(house)
    [sent] = server.messages
    headers = {"In-Reply-To": sent["Message-ID"]} if way == "reference" else {}
    to = sent["Reply-To"] if way == "address" else MAILBOX
    arrives(house, drop, unsigned(to, sender=TO, subject="Re: your request", headers=headers))
    assert request_states(house) == ["answered"]
    assert message_states(house) == [("answer", "it answers an opt-out by email")]
    house.clock.advance(timedelta(days=50))
    assert house.work(lambda work: opt_out_requests.emails(work, overdue=True, limit=9)) == []


def test_a_bounce_needs_a_person(house, server, drop, juniper):
    approve_drafts(house)
    [sent] = server.messages
    arrives(
        house,
        drop,
        unsigned(sent["Reply-To"], sender="mailer-daemon@privacy.example", subject="Undeliverable"),
    )
    assert request_states(house) == ["returned"]
    [request] = house.work(lambda work: opt_out_requests.emails(work, limit=9))
    assert request.date == request.sent_at == sent["Date"].datetime
    assert house.statuses(juniper) == {"r1": "discovered"}
    assert house.alert_titles(juniper)[-1] == "Opt-out unanswered"


SENT = ("sent", "an automatic message: the opt-out by email is not answered")
RETURNED = ("returned", "an opt-out by email was not delivered")
ANSWERED = ("answered", "it answers an opt-out by email")
BESIDE_REPLY = ("answer", "an automatic message: the opt-out by email is answered")


@pytest.mark.usefixtures("juniper")
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (report("disposition-notification", "Disposition: manual-action; displayed"), SENT),
        (report("delivery-status", "Action: delayed"), SENT),
        (report("delivery-status", "Action: relayed", sender="mailer-daemon@x.example"), SENT),
        (report("delivery-status", "Action: failed"), RETURNED),
        (report("delivery-status", "Status: 5.1.1"), RETURNED),
        (unsigned(MAILBOX, headers={"Auto-Submitted": "auto-replied; why=x"}), SENT),
        (unsigned(MAILBOX, headers={"Auto-Submitted": "no"}), ANSWERED),
    ],
)
def test_only_answers_and_failed_deliveries_end_the_wait(house, server, drop, message, expected):
    """RFC 3464, 2.3.3, and RFC 3834, 5."""
    approve_drafts(house)
    [sent] = server.messages
    message = deepcopy(message)
    message.replace_header("To", sent["Reply-To"])
    arrives(house, drop, message)
    state, reason = expected
    assert request_states(house) == [state]
    assert message_states(house) == [("answer", reason)]
    [record] = house.rows(tables.records)
    assert record.status == ("discovered" if state == "returned" else "pending removal")
    house.clock.advance(timedelta(days=50))
    overdue = house.work(lambda work: opt_out_requests.emails(work, overdue=True, limit=9))
    assert len(overdue) == (state == "sent")


@pytest.mark.usefixtures("juniper")
def test_a_person_reports_an_answer_that_counts_as_automatic(house, server, drop):
    with pytest.raises(
        ConfigurationError, match="request 1 is draft: only one that was sent can be answered"
    ):
        house.work(lambda work: opt_out_emails.record_reply(work, 1))
    approve_drafts(house)
    [sent] = server.messages
    headers = {"Auto-Submitted": "auto-generated"}  # by a ticket system
    arrives(house, drop, unsigned(sent["Reply-To"], sender=TO, text="We have removed it.", headers=headers))
    assert request_states(house) == ["sent"]
    assert house.work(lambda work: opt_out_emails.record_reply(work, 1)) is True
    assert request_states(house) == ["answered"]
    assert message_states(house) == [BESIDE_REPLY]
    assert house.work(lambda work: opt_out_emails.record_reply(work, 1)) is False
    house.clock.advance(timedelta(days=50))
    assert house.work(lambda work: opt_out_requests.emails(work, overdue=True, limit=9)) == []


@pytest.mark.usefixtures("juniper")
def test_automatic_messages_beside_an_answer_do_not_deny_it(house, server, drop):
    approve_drafts(house)
    [sent] = server.messages
    automatic = {"Auto-Submitted": "auto-replied"}
    arrives(house, drop, unsigned(sent["Reply-To"], sender=TO, text="Thank you.", headers=automatic))
    assert message_states(house) == [("answer", SENT[1])]
    arrives(house, drop, unsigned(sent["Reply-To"], sender=TO, text="We have removed it."))
    arrives(house, drop, unsigned(sent["Reply-To"], sender=TO, text="It is closed.", headers=automatic))
    assert request_states(house) == ["answered"]
    assert message_states(house) == [BESIDE_REPLY, ("answer", ANSWERED[1]), BESIDE_REPLY]


def test_a_complaint_names_the_person_as_the_request_did(open_house, settings, server, site):
    site.cards[:] = [Card("r1", name="Juniper Otterwick")]
    with open_house(settings(requires_approval=False)) as house:
        house.scanned_juniper(aliases=[{"first_name": "Juniper", "last_name": "Otterwick"}])
        house.clock.advance(timedelta(days=46))
        text = house.work(lambda work: opt_out_emails.complaint(work, 1, house.definitions))
    assert "personal data about me, Juniper Otterwick," in text
    assert "Quillfeather" not in text


def test_an_overdue_answer_can_be_complained_about(house, server, juniper):
    definitions = house.definitions

    def complaint():
        return house.work(lambda work: opt_out_emails.complaint(work, 1, definitions))

    with pytest.raises(ConfigurationError, match="request 1 is draft, and its answer is not overdue"):
        complaint()
    approve_drafts(house)
    house.clock.advance(timedelta(days=44))
    with pytest.raises(ConfigurationError, match="is not overdue"):
        complaint()
    house.clock.advance(timedelta(days=2))
    assert [
        one.id for one in house.work(lambda work: opt_out_requests.emails(work, overdue=True, limit=9))
    ] == [1]
    text = complaint()
    for words in (
        "California Privacy Protection Agency",
        TO,
        "Juniper Quillfeather",
        "2 January 2026",
        "16 February",
        "Apart from automatic messages, there was no answer.",
    ):
        assert words in text
    assert len(server.envelopes) == 1


# --- the connection -------------------------------------------------------------------------------------


def message():
    return smtp.compose(
        sender=MAILBOX,
        reply_to=MAILBOX,
        to=TO,
        subject="x",
        message_id="<a@b.example>",
        date=START,
        text="Hello",
    )


def test_a_message_is_sent_over_starttls(tmp_path):
    with an_smtp_server(tmp_path, starttls=True) as server:
        smtp.send(server.settings(starttls=True), message(), envelope_sender=MAILBOX, to=TO)
        assert server.recipients == [TO]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"ca_file": None}, "certificate"),
        ({"host": "localhost"}, "certificate"),
        ({"user": "other"}, "the login"),
        ({"port": 9}, "refused .*, port 9"),
    ],
)
def test_nothing_is_sent_over_a_connection_that_is_not_safe(server, changed, reason):
    with pytest.raises(smtp.NotSent, match=reason):
        smtp.send(server.settings(**changed), message(), envelope_sender=MAILBOX, to=TO)
    assert server.envelopes == []


def test_a_server_without_starttls_gets_no_password(server):
    settings = server.settings(starttls=True)
    with pytest.raises(smtp.NotSent):
        smtp.send(settings, message(), envelope_sender=MAILBOX, to=TO, timeout_s=0.5)
