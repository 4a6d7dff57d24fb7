"""Webhook bodies: named groups are typed, others are recognised by shape and preserved."""

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
MODELS = dict(zip(ITEMS, (Link, Record, Record, Alert), strict=True))
SHAPES = dict(zip(ITEMS, ("links", "records", "records", "alerts"), strict=True))


def body(**groups):
    return {"user_id": 12345, "events": list(groups), **groups}


def test_window_and_retries_are_as_specified():
    """Specification, "Limits"."""
    assert timedelta(minutes=10) == GROUPING_WINDOW
    assert [delay.total_seconds() for delay in RETRY_DELAYS] == [60, 300, 1800]


@pytest.mark.parametrize("name", GROUPS)
def test_named_group_is_read_as_its_model(name):
    """Specification, "Body"; Where the specification is silent: "new records in webhooks"."""
    delivery = Delivery.model_validate(body(**{name: [ITEMS[name]]}))
    [item] = getattr(delivery, name)
    assert item == MODELS[name].model_validate(ITEMS[name].get("record", ITEMS[name]))
    assert [(group, shape) for group, shape, _ in delivery.groups()] == [(name, SHAPES[name])]
    assert delivery.others == {}


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_may_have_another_name_than_its_event(name):
    """Not in the specification, "Body": the event name and body key for newly discovered records."""
    values = {"user_id": 12345, "events": ["record_discovered"], "new_things": [ITEMS[name]], "tags": ["a"]}
    delivery = Delivery.model_validate(values)
    assert [*delivery.groups()] == [("new_things", SHAPES[name], [ITEMS[name]])]
    assert delivery.others == {"new_things": [ITEMS[name]]}


def test_body_may_have_all_groups_or_none():
    delivery = Delivery.model_validate({"user_id": 1, "events": []})
    assert list(delivery.groups()) == []
    assert [getattr(delivery, name) for name in GROUPS] == [[], [], [], []]
    delivery = Delivery.model_validate(body(**{name: [item, item] for name, item in ITEMS.items()}))
    assert {name: len(items) for name, _, items in delivery.groups()} == dict.fromkeys(GROUPS, 2)


@pytest.mark.parametrize(
    ("items", "shape"),
    [
        ([{"record": RECORD}], "records"),
        ([RECORD, {"record": RECORD}], "records"),
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
def test_unknown_group_is_recognised_by_shape_and_complete(items, shape):
    """Where the specification is silent: "webhook groups"."""
    delivery = Delivery.model_validate(body(listed_again=items))
    assert delivery.others == {"listed_again": items}
    assert list(delivery.groups()) == [("listed_again", shape, items if isinstance(items, list) else [items])]
    assert shape_of(items) == shape


def test_unknown_field_without_an_event_is_no_group():
    delivery = Delivery.model_validate(body() | {"sent_at": "now", "others": "x", "groups": [1]})
    assert list(delivery.groups()) == []
    assert delivery.model_extra == {"sent_at": "now", "others": "x", "groups": [1]}


@pytest.mark.parametrize("name", ["others", "groups", "user_id", "events", "model_dump", "__class__"])
def test_event_may_have_any_name(name):
    envelope = {"user_id": 1, "events": [name, name, "absent"]}
    delivery = Delivery.model_validate({name: [LINK]} | envelope)
    assert delivery.user_id == 1
    assert delivery.others == ({} if name in envelope else {name: [LINK]})


@pytest.mark.parametrize(
    "change",
    [
        *({"user_id": None}, {"events": None}, {"events": "new_alerts"}, {"events": [{}]}),
        *({"new_alerts": [{}]}, {"removed_records": {}}),
    ],
)
def test_invalid_body_is_refused_without_its_values(change):
    valid = body(new_alerts=[ALERT_WITHOUT_URL | {"text": "canary"}], removed_records=[])
    with pytest.raises(ValidationError) as refusal:
        Delivery.model_validate(valid | change)
    assert "canary" not in str(refusal.value)


@pytest.mark.parametrize("missing", ["user_id", "events"])
def test_body_needs_its_user_and_its_events(missing):
    payload = {name: value for name, value in body().items() if name != missing}
    with pytest.raises(ValidationError, match=missing):
        Delivery.model_validate(payload)


def test_repr_contains_only_the_number_of_events():
    delivery = Delivery.model_validate(body(new_alerts=[ALERT_WITHOUT_URL], canary=[{"text": "canary"}]))
    assert repr(delivery) == "Delivery(user_id=12345, events=2)"


PAYLOADS = Payloads()


@settings(max_examples=40)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "discovered_links": PAYLOADS.listed(PAYLOADS.link),
            "removed_records": PAYLOADS.listed(PAYLOADS.any_record),
            "new_alerts": PAYLOADS.listed(PAYLOADS.alert),
            "listed_again": st.none() | st.text() | PAYLOADS.listed(PAYLOADS.any_record),
        },
    )
)
def test_delivery_survives_serialization(groups):
    delivery = Delivery.model_validate(body(**groups))
    again = Delivery.model_validate_json(delivery.model_dump_json())
    assert again == delivery
    assert again.others == {name: groups[name] for name in groups if name not in GROUPS}
