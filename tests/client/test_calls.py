"""The eight operations as values: which may be repeated, what is refused before it is sent, and paging."""

from datetime import UTC, date, datetime, timedelta, timezone
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

TOKYO = timezone(timedelta(hours=9))

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


@pytest.mark.parametrize("call", READS, ids=repr)
def test_reads_may_be_repeated(call):
    assert call.repeatable
    assert not call.waits_for_scan


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("addresses", [[], PERSON["addresses"]])
def test_create_user_is_never_repeatable(asynchronous, addresses):
    call = calls.create_user(**PERSON | {"addresses": addresses}, asynchronous=asynchronous)
    assert not call.repeatable
    assert call.waits_for_scan is not asynchronous
    assert call.values["async"] is asynchronous


@pytest.mark.parametrize(
    "changes", [{}, {"first_name": "Oda"}, {"middle_name": ""}, {"birth_date": 0}, {"emails": []}]
)
def test_update_without_items_may_be_repeated(changes):
    assert calls.update_user(KEY, **changes).repeatable


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(
    ("items", "is_repeatable"),
    [
        ([{}], False),  # appends
        ([{"id": 4}, {"id": "5"}], True),
        ([{"id": 4}, {}], False),
        ([{"id": 4, "_destroy": True}], False),  # the second response would be a 400 for an unknown item
    ],
)
def test_update_of_identified_items_may_be_repeated(name, items, is_repeatable):
    assert calls.update_user(KEY, **{name: items}).repeatable is is_repeatable


def test_omitted_arguments_are_not_sent():
    """Update user, rule 4: inputs that are missing are ignored."""
    assert calls.update_user(KEY).values == {"id": 12}
    assert calls.list_users().values == {}
    assert calls.list_users(0, 0).values == {"limit": 0, "offset": 0}


@pytest.mark.parametrize("name", ["first_name", "last_name", "middle_name", "birth_date"])
def test_blank_field_is_sent_to_clear_it(name):
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
        *((f"1980-02-29T00:00:00{zone}", 320_630_400) for zone in ("+09:00", "-09:00", "Z")),
        *((datetime(1980, 2, 29, hour, tzinfo=TOKYO), 320_630_400) for hour in (0, 12, 23)),
        (320_630_400.0, 320_630_400),
    ],
)
def test_birth_date_may_be_seconds_a_date_or_text(birth_date, seconds):
    sent = calls.update_user(KEY, birth_date=birth_date).values["birth_date"]
    assert sent == seconds
    assert type(sent) is int


@pytest.mark.parametrize(
    "birth_date", ["29.02.1980", "1981-02-29", "yesterday", [], {}, object(), float("nan"), float("inf")]
)
def test_invalid_birth_date_is_refused_without_its_value(birth_date):
    with pytest.raises(InvalidArgument) as caught:
        calls.update_user(KEY, birth_date=birth_date)
    assert str(caught.value) == "birth_date must be epoch seconds, a date, or a string such as 1980-02-29"


@pytest.mark.parametrize("birth_date", ["2061-04-12", date(2100, 1, 1), 4_102_444_800])
def test_birth_date_in_the_future_is_refused(birth_date):
    with pytest.raises(InvalidArgument, match=r"^birth_date is in the future$"):
        calls.update_user(KEY, birth_date=birth_date)


def test_items_may_be_texts_dicts_or_models():
    emails = ["a@x.example", EmailItem(id="2", destroy=True), Email(id=7, address="b@x.example")]
    sent = calls.update_user(KEY, emails=emails, phone_numbers=("0207", {"number": 4135550101})).values
    assert sent["emails"] == [
        {"address": "a@x.example"},
        {"id": "2", "_destroy": True},
        {"id": "7", "address": "b@x.example"},
    ]
    assert sent["phone_numbers"] == [{"number": "0207"}, {"number": "4135550101"}]


ALLOWED = {
    "emails": "id, _destroy, address",
    "phone_numbers": "id, _destroy, number",
    "addresses": "id, _destroy, address1, address2, city, state, zip, country",
    "aliases": "id, _destroy, first_name, last_name, alias_type",
}


@pytest.mark.parametrize(
    ("name", "item", "problem"),
    [
        ("emails", {"adress": "x"}, "an unknown field 'adress'"),
        ("phone_numbers", {"phone": "1"}, "an unknown field 'phone'"),
        ("addresses", {"city": "A", "zipcode": "1", "street": "2"}, "an unknown field 'zipcode', 'street'"),
        ("emails", {"address": ["x"]}, "an invalid address"),
    ],
)
def test_invalid_item_is_refused_with_a_hint(name, item, problem):
    with pytest.raises(InvalidArgument) as caught:
        calls.update_user(KEY, **{name: [item]})
    assert str(caught.value) == f"an item of {name} has {problem}; allowed: {ALLOWED[name]}"


def test_wrong_alias_type_names_the_right_ones():
    """Specification, "Alias": one of nickname, maiden."""
    with pytest.raises(InvalidArgument, match=r"^alias_type must be nickname or maiden$"):
        calls.update_user(KEY, aliases=[{"alias_type": "pseudonym"}])


@pytest.mark.parametrize(
    ("name", "items", "problem"),
    [
        (
            "phone_numbers",
            [5555550123],
            "an item of phone_numbers is neither text nor an object; allowed: id, ",
        ),
        ("aliases", [7], "an item of aliases is not an object; allowed: id, "),
        ("addresses", ["1 Fir Way"], "an item of addresses is not an object; allowed: id, "),
        ("emails", [None], "an item of emails is neither text nor an object; allowed: id, "),
        ("emails", "a@x.example", "emails must be a list"),
        ("addresses", {"city": "Oakmere"}, "addresses must be a list"),
    ],
)
def test_items_must_be_a_list_of_objects(name, items, problem):
    with pytest.raises(InvalidArgument, match=f"^{problem}"):
        calls.update_user(KEY, **{name: items})


@pytest.mark.parametrize("key", [KEY, (12, "ab12"), (12, 904417732051266311)])
def test_key_is_preserved_exactly(key):
    call = calls.get_user(key)
    secret = key[1] if isinstance(key, tuple) else key.secret
    assert call.values == {"id": 12}
    assert (call.secret, type(call.secret)) == (secret, type(secret))


@pytest.mark.parametrize(
    "key", [12, "ab12", None, (12,), (12, "a", "b"), ("x", "ab12"), (12, None), (-1, "ab12")]
)
def test_invalid_key_is_refused(key):
    with pytest.raises(InvalidArgument, match=r"key must be a UserKey, a User, or a tuple \(id, secret\)"):
        calls.get_user(key)


def walk(people, *, cap, count, limit=4):
    """The requested offsets and the returned ids, of a service with this count and limit."""
    offsets, ids_so_far, paging = [], [], Paging(limit)
    while not paging.done:
        offsets.append(paging.offset)
        size = min(paging.limit, cap or paging.limit)
        ids = people[paging.offset : paging.offset + size]
        total = {None: None, "all": len(people), "page": len(ids)}[count]
        page = UserPage(count=total, users=[{"id": number, "secret": "s"} for number in ids])
        fresh = [number for number in ids if number not in ids_so_far]
        ids_so_far += fresh
        paging = paging.after(page, fresh=len(fresh))
    return offsets, ids_so_far


@given(
    size=st.integers(0, 30),
    cap=st.none() | st.integers(1, 6),
    count=st.sampled_from([None, "all", "page"]),
    limit=st.integers(1, 10),
)
def test_everyone_is_listed_once_whatever_the_service_counts(size, cap, count, limit):
    people = list(range(size))
    offsets, ids_so_far = walk(people, cap=cap, count=count, limit=limit)
    assert ids_so_far == people
    assert len(offsets) <= size // min(limit, cap or limit) + 2


def test_count_of_all_saves_the_last_request():
    assert walk(list(range(12)), cap=None, count="all")[0] == [0, 4, 8]


@pytest.mark.parametrize("count", [2, 100])
def test_endless_pages_raise_an_error(count):
    """Not in the specification: whether count is the total. It may be that of the page."""
    page = UserPage(count=count, users=[UserKey(id=1, secret="s")] * 100)
    with pytest.raises(InvalidResponse, match=f"do not end: 100,100 users so far, and a count of {count}"):
        reduce(lambda paging, _: paging.after(page, fresh=100), range(1_100), Paging())


def test_page_of_users_without_secrets_is_not_the_last():
    page = UserPage(count=300, users=[]).without([{"id": 1}] * 100)
    assert not Paging().after(page, fresh=0).done
    assert Paging().after(UserPage(count=300, users=[]), fresh=0).done


def test_paging_ends_if_the_offset_is_ignored():
    page = UserPage(users=[{"id": 1, "secret": "s"}])
    paging = Paging(limit=1).after(page, fresh=1)
    assert not paging.done
    assert paging.after(page, fresh=0).done


@pytest.mark.parametrize("value", ["\ud800", pd.NA, object(), 1.5])
def test_unencodable_value_is_refused_by_its_name(value):
    with pytest.raises(InvalidArgument, match="middle_name has a value that cannot be sent"):
        calls.update_user(KEY, middle_name=value)


def test_blank_clears_a_list_and_an_empty_list_does_not():
    assert calls.update_user(KEY, emails="").values["emails"] == ""
    for nothing in ([], None):
        assert "emails" not in calls.update_user(KEY, emails=nothing).values


def test_numbers_may_be_of_numpy():
    assert calls.list_users(limit=np.int64(2)).values == {"limit": 2}
