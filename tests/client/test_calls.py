"""The eight operations as values: what may be repeated, what is refused before it is sent, and how pages follow."""

from datetime import UTC, date, datetime
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposurekit.client import calls
from exposurekit.client.calls import Paging
from exposurekit.contract.inputs import EmailItem
from exposurekit.contract.models import Email, UserKey, UserPage
from exposurekit.errors import InvalidArgument, InvalidResponse

KEY = UserKey(id=12, secret="ab12")
PERSON = {
    "first_name": "Odalys",
    "last_name": "Fennimoor",
    "addresses": [{"city": "Tall Pines", "state": "OR"}],
}
LISTS = ("aliases", "emails", "phone_numbers", "addresses")
READS = [
    calls.list_users(),
    calls.get_user(KEY),
    calls.list_user_records(KEY),
    calls.get_record(KEY, 120),
    calls.list_user_links(KEY),
    calls.get_user_alerts(KEY),
]

# --- repeatable ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", READS, ids=repr)
def test_reading_may_be_repeated(call):
    assert call.repeatable


@pytest.mark.parametrize("asynchronous", [True, False])
def test_create_user_may_never_be_repeated(asynchronous):
    assert not calls.create_user(**PERSON, asynchronous=asynchronous).repeatable
    assert not calls.create_user(**PERSON | {"addresses": []}, asynchronous=asynchronous).repeatable


@pytest.mark.parametrize(
    "changes", [{}, {"first_name": "Oda"}, {"middle_name": ""}, {"birth_date": 0}, {"emails": []}]
)
def test_an_update_without_items_may_be_repeated(changes):
    assert calls.update_user(KEY, **changes).repeatable


@pytest.mark.parametrize("name", LISTS)
def test_an_update_that_appends_may_not_be_repeated(name):
    assert not calls.update_user(KEY, **{name: [{}]}).repeatable


@pytest.mark.parametrize("name", LISTS)
def test_an_update_that_names_each_item_may_be_repeated(name):
    assert calls.update_user(KEY, **{name: [{"id": 4}, {"id": "5"}]}).repeatable
    assert not calls.update_user(KEY, **{name: [{"id": 4}, {}]}).repeatable


@pytest.mark.parametrize("name", LISTS)
def test_an_update_that_deletes_may_not_be_repeated(name):
    """The second time the item is unknown, and the answer would be a 400 for a change that was made."""
    assert not calls.update_user(KEY, **{name: [{"id": 4, "_destroy": True}]}).repeatable


def test_only_a_create_that_waits_for_its_scan_takes_long():
    assert calls.create_user(**PERSON, asynchronous=False).waits_for_scan
    assert not calls.create_user(**PERSON).waits_for_scan
    assert not any(call.waits_for_scan for call in READS)


# --- what is sent -------------------------------------------------------------------------------------


def test_create_user_says_async_whichever_it_is():
    assert calls.create_user(**PERSON).values["async"] is True
    assert calls.create_user(**PERSON, asynchronous=False).values["async"] is False


def test_what_is_not_given_is_not_sent():
    """Update user, rule 4: inputs that are missing are ignored."""
    assert calls.update_user(KEY).values == {"id": 12}
    assert calls.list_users().values == {}
    assert calls.list_users(0, 0).values == {"limit": 0, "offset": 0}


@pytest.mark.parametrize("name", ["first_name", "last_name", "middle_name", "birth_date"])
def test_a_blank_is_sent_and_clears(name):
    """Update user, rule 5: a present blank string clears the field."""
    assert calls.update_user(KEY, **{name: ""}).values == {"id": 12, name: ""}


@pytest.mark.parametrize(
    ("birth_date", "seconds"),
    [
        (0, 0),
        (-352_425_600, -352_425_600),
        ("299116800", 299_116_800),
        ("-1", -1),
        ("1980-02-29", 320_630_400),
        ("1980/02/29", 320_630_400),
        ("1958-11-01T00:00:00Z", -352_425_600),
        ("1980-02-29 02:00:00 +0200", 320_630_400),
        (date(1980, 2, 29), 320_630_400),
        (datetime(1980, 2, 29), 320_630_400),  # noqa: DTZ001  one without a zone is UTC
        (datetime(1980, 2, 29, tzinfo=UTC), 320_630_400),
        (320_630_400.0, 320_630_400),
    ],
)
def test_a_birth_date_may_be_seconds_a_date_or_text(birth_date, seconds):
    sent = calls.update_user(KEY, birth_date=birth_date).values["birth_date"]
    assert sent == seconds
    assert type(sent) is int


@pytest.mark.parametrize(
    "birth_date", ["29.02.1980", "1981-02-29", "yesterday", [], {}, object(), float("nan"), float("inf")]
)
def test_an_invalid_birth_date_is_refused_without_its_value(birth_date):
    with pytest.raises(InvalidArgument) as caught:
        calls.update_user(KEY, birth_date=birth_date)
    assert str(caught.value) == "birth_date must be epoch seconds, a date, or a string such as 1980-02-29"


def test_emails_and_phone_numbers_may_be_texts():
    sent = calls.create_user(
        **PERSON, emails=["a@x.example"], phone_numbers=("0207", {"number": 4135550101})
    ).values
    assert sent["emails"] == [{"address": "a@x.example"}]
    assert sent["phone_numbers"] == [{"number": "0207"}, {"number": "4135550101"}]


def test_items_of_the_contract_are_taken_as_they_are():
    assert calls.update_user(KEY, emails=[EmailItem(id="2", destroy=True)]).values["emails"] == [
        {"id": "2", "_destroy": True}
    ]


@pytest.mark.parametrize(
    ("name", "items", "message"),
    [
        (
            "emails",
            [{"adress": "x"}],
            "an item of emails has an unknown field 'adress'; allowed: id, _destroy, address",
        ),
        (
            "phone_numbers",
            [{"phone": "1"}],
            "an item of phone_numbers has an unknown field 'phone'; allowed: id, _destroy, number",
        ),
        (
            "addresses",
            [{"city": "Oakmere", "zipcode": "1", "street": "2"}],
            "an item of addresses has an unknown field 'zipcode', 'street'; allowed: id, _destroy, address1, address2, city, state, zip, country",
        ),
        (
            "aliases",
            [{"alias_type": "pseudonym"}],
            "an item of aliases has an invalid alias_type; allowed: id, _destroy, first_name, last_name, alias_type",
        ),
        ("emails", "a@x.example", "emails must be a list"),
        ("addresses", {"city": "Oakmere"}, "addresses must be a list"),
    ],
)
def test_an_item_that_services_drop_is_refused_with_a_hint(name, items, message):
    with pytest.raises(InvalidArgument) as caught:
        calls.update_user(KEY, **{name: items})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "items"), [("aliases", [7]), ("addresses", ["1 Fir Way"]), ("emails", [None])]
)
def test_an_item_that_is_no_object_is_refused(name, items):
    with pytest.raises(InvalidArgument, match=f"^an item of {name} is not an object; allowed: id, "):
        calls.update_user(KEY, **{name: items})


@pytest.mark.parametrize("key", [KEY, (12, "ab12"), (12, 904417732051266311)])
def test_a_key_is_kept_exactly(key):
    call = calls.get_user(key)
    secret = key[1] if isinstance(key, tuple) else key.secret
    assert call.values == {"id": 12}
    assert (call.secret, type(call.secret)) == (secret, type(secret))


@pytest.mark.parametrize(
    "key", [12, "ab12", None, (12,), (12, "a", "b"), ("x", "ab12"), (12, None), (-1, "ab12")]
)
def test_what_is_no_key_is_refused(key):
    with pytest.raises(InvalidArgument, match=r"key must be a UserKey, a User, or a tuple \(id, secret\)"):
        calls.get_user(key)


# --- pages --------------------------------------------------------------------------------------------


def walk(people, *, cap, count, limit=4):
    """The offsets asked for, and the ids found, at a service that answers so."""
    offsets, listed, paging = [], [], Paging(limit)
    while not paging.done:
        offsets.append(paging.offset)
        size = min(paging.limit, cap or paging.limit)
        ids = people[paging.offset : paging.offset + size]
        total = {None: None, "all": len(people), "page": len(ids)}[count]
        page = UserPage(count=total, users=[{"id": number, "secret": "s"} for number in ids])
        fresh = [number for number in ids if number not in listed]
        listed += fresh
        paging = paging.after(page, fresh=len(fresh))
    return offsets, listed


@given(
    size=st.integers(0, 30),
    cap=st.none() | st.integers(1, 6),
    count=st.sampled_from([None, "all", "page"]),
    limit=st.integers(1, 10),
)
def test_everyone_is_found_once_whatever_the_service_counts_or_caps(size, cap, count, limit):
    people = list(range(size))
    offsets, listed = walk(people, cap=cap, count=count, limit=limit)
    assert listed == people
    assert len(offsets) <= size // min(limit, cap or limit) + 2


def test_a_count_of_all_saves_the_last_look():
    assert walk(list(range(12)), cap=None, count="all")[0] == [0, 4, 8]


@pytest.mark.parametrize("count", [2, 100])
def test_pages_that_never_end_are_an_error(count):
    """Not in the specification: whether count is the total. It may be that of the page."""
    page = UserPage(count=count, users=[UserKey(id=1, secret="s")] * 100)
    with pytest.raises(InvalidResponse, match=f"do not end: 100,100 users so far, and a count of {count}"):
        reduce(lambda paging, _: paging.after(page, fresh=100), range(1_100), Paging())


def test_a_page_of_users_without_secrets_is_not_the_last():
    page = UserPage(count=300, users=[]).without([{"id": 1}] * 100)
    assert not Paging().after(page, fresh=0).done
    assert Paging().after(UserPage(count=300, users=[]), fresh=0).done


def test_a_service_that_ignores_the_offset_ends_the_paging():
    page = UserPage(users=[{"id": 1, "secret": "s"}])
    paging = Paging(limit=1).after(page, fresh=1)
    assert not paging.done
    assert paging.after(page, fresh=0).done


@pytest.mark.parametrize("value", ["\ud800", pd.NA, object(), 1.5])
def test_what_cannot_be_sent_is_refused_by_its_name(value):
    with pytest.raises(InvalidArgument, match="middle_name has a value that cannot be sent"):
        calls.update_user(KEY, middle_name=value)


def test_a_blank_clears_a_list_an_empty_list_does_not():
    assert calls.update_user(KEY, emails="").values["emails"] == ""
    assert "emails" not in calls.update_user(KEY, emails=[]).values
    assert "emails" not in calls.update_user(KEY, emails=None).values


def test_items_may_be_what_an_answer_gave():
    email = Email(id=7, address="a@x.example")
    assert calls.update_user(KEY, emails=[email]).values["emails"] == [{"id": "7", "address": "a@x.example"}]


def test_numbers_may_be_numpys():
    assert calls.list_users(limit=np.int64(2)).values == {"limit": 2}
