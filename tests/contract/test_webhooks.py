"""Webhook bodies: the named groups are typed, every other one is told by its shape and kept whole."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.payloads import ALERT, LINK, RECORD, Payloads

from exposurekit.contract.models import Alert, Link, Record
from exposurekit.contract.webhooks import GROUPING_WINDOW, GROUPS, RETRY_DELAYS, Delivery, shape_of

ALERT_WITHOUT_URL = {name: value for name, value in ALERT.items() if name != "url"}
ITEMS = {
    "discovered_links": {"url": "https://pages.example/1", "title": "A page"},
    "removed_records": {"record": RECORD},
    "discovered_records": {"record": RECORD},
    "new_alerts": ALERT_WITHOUT_URL,
}
MODELS = {
    "discovered_links": Link,
    "removed_records": Record,
    "discovered_records": Record,
    "new_alerts": Alert,
}
SHAPES = {
    "discovered_links": "links",
    "removed_records": "records",
    "discovered_records": "records",
    "new_alerts": "alerts",
}


def body(**groups):
    return {"user_id": 12345, "events": list(groups), **groups}


def test_window_and_retries_are_the_specifications():
    """Specification, "Limits"."""
    assert timedelta(minutes=10) == GROUPING_WINDOW
    assert [delay.total_seconds() for delay in RETRY_DELAYS] == [60, 300, 1800]


@pytest.mark.parametrize("name", GROUPS)
def test_a_named_group_is_read_as_what_it_holds(name):
    """Specification, "Body"; Where the specification is silent: "new records in webhooks"."""
    delivery = Delivery.model_validate(body(**{name: [ITEMS[name]]}))
    [item] = getattr(delivery, name)
    assert item == MODELS[name].model_validate(ITEMS[name].get("record", ITEMS[name]))
    assert [(group, shape) for group, shape, _ in delivery.groups()] == [(name, SHAPES[name])]
    assert delivery.others == {}


def test_the_groups_that_are_not_there_are_empty():
    delivery = Delivery.model_validate({"user_id": 1, "events": []})
    assert list(delivery.groups()) == []
    assert [getattr(delivery, name) for name in GROUPS] == [[], [], [], []]


def test_all_groups_come_in_one_body():
    delivery = Delivery.model_validate(body(**{name: [item, item] for name, item in ITEMS.items()}))
    assert {name: len(items) for name, _, items in delivery.groups()} == dict.fromkeys(GROUPS, 2)


@pytest.mark.parametrize(
    ("items", "shape"),
    [
        ([{"record": RECORD}], "records"),
        ([LINK, {"url": "u", "title": "t"}], "links"),
        ([ALERT_WITHOUT_URL], "alerts"),
        ([{"text": "t", "url": "u", "title": "t"}], "alerts"),
        ([{"record": RECORD}, LINK], "unknown"),
        ([{"url": "u"}], "unknown"),
        (["a"], "unknown"),
        ([], "unknown"),
        ({"record": RECORD}, "unknown"),
        ("text", "unknown"),
        (None, "unknown"),
    ],
)
def test_an_unknown_group_is_recognised_by_shape_and_complete(items, shape):
    """Where the specification is silent: "webhook groups"."""
    delivery = Delivery.model_validate(body(listed_again=items))
    assert delivery.others == {"listed_again": items}
    assert list(delivery.groups()) == [("listed_again", shape, items if isinstance(items, list) else [items])]
    assert shape_of(items) == shape


def test_an_unknown_field_that_no_event_names_is_no_group():
    delivery = Delivery.model_validate(body() | {"sent_at": "now", "others": "x", "groups": [1]})
    assert list(delivery.groups()) == []
    assert delivery.model_extra == {"sent_at": "now", "others": "x", "groups": [1]}


@pytest.mark.parametrize("name", ["others", "groups", "user_id", "events", "model_dump", "__class__"])
def test_an_event_of_any_name_does_no_harm(name):
    envelope = {"user_id": 1, "events": [name, name, "absent"]}
    delivery = Delivery.model_validate({name: [LINK]} | envelope)
    assert delivery.user_id == 1
    assert delivery.others == ({} if name in envelope else {name: [LINK]})


@pytest.mark.parametrize(
    "wrong",
    [
        {"user_id": None},
        {"events": None},
        {"events": "new_alerts"},
        {"events": [{}]},
        {"new_alerts": [{}]},
        {"removed_records": {}},
    ],
)
def test_an_invalid_body_is_refused_without_its_values(wrong):
    with pytest.raises(ValidationError) as refusal:
        Delivery.model_validate(
            body(new_alerts=[ALERT_WITHOUT_URL | {"text": "canary"}]) | {"removed_records": []} | wrong
        )
    assert "canary" not in str(refusal.value)


@pytest.mark.parametrize("missing", ["user_id", "events"])
def test_a_body_names_its_user_and_its_groups(missing):
    payload = body(new_alerts=[ALERT_WITHOUT_URL])
    del payload[missing]
    with pytest.raises(ValidationError, match=missing):
        Delivery.model_validate(payload)


def test_the_repr_counts_events_and_says_nothing_else():
    delivery = Delivery.model_validate(body(new_alerts=[ALERT_WITHOUT_URL], canary=[{"text": "canary"}]))
    assert repr(delivery) == "Delivery(user_id=12345, events=2)"


MADE = Payloads()


@settings(max_examples=40)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "discovered_links": MADE.listed(MADE.link),
            "removed_records": MADE.listed(MADE.any_record),
            "new_alerts": MADE.listed(MADE.alert),
            "listed_again": st.none() | st.text() | MADE.listed(MADE.any_record),
        },
    )
)
def test_what_was_read_is_read_again(groups):
    delivery = Delivery.model_validate(body(**groups))
    again = Delivery.model_validate_json(delivery.model_dump_json())
    assert again == delivery
    assert again.others == {name: groups[name] for name in groups if name not in GROUPS}
