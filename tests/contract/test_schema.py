"""Shapes: what XML needs of a model; rows: the same rules without objects."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError
from support.payloads import ALERT, RECORD, USER, Payloads

from exposurekit.contract import models as contract_models
from exposurekit.contract.inputs import AliasItem
from exposurekit.contract.models import Alert, AlertsReply, Link, Record, Reply, User, UserPage, UserReply
from exposurekit.contract.schema import Many, Scalar, row_type, shape_of_model, shape_of_type
from exposurekit.contract.types import BirthDate, Id, Instant, Secret, Steps

TEXT, MAYBE, VALUE = Scalar.TEXT, Scalar.NULLABLE_TEXT, Scalar.VALUE


@pytest.mark.parametrize(
    ("annotation", "shape"),
    [
        (str, TEXT),
        (str | None, MAYBE),
        (int, VALUE),
        (bool, VALUE),
        (int | str, VALUE),
        (Id, VALUE),
        (Secret, VALUE),
        (BirthDate, VALUE),
        (Instant, VALUE),
        (list[str], Many(TEXT)),
        (list[str] | None, Many(TEXT, nullable=True)),
        (Steps, Many(TEXT, or_text=True, nullable=True)),
        (list[list[str]], Many(Many(TEXT))),
        (Link, {"url": MAYBE, "title": TEXT, "contains": Many(TEXT, nullable=True)}),
        (Link | None, {"url": MAYBE, "title": TEXT, "contains": Many(TEXT, nullable=True)}),
    ],
)
def test_type_has_a_shape(annotation, shape):
    assert shape_of_type(annotation) == shape


def test_record_has_one_shape_everywhere():
    record = shape_of_model(Record)
    assert record["reference_id"] is TEXT
    assert record["age"] is VALUE
    assert record["user_fields_required_for_removal"] == Many(TEXT, nullable=True)
    assert shape_of_model(User)["records"] == Many(record)
    assert shape_of_model(Alert)["source"]["record"] == record


def test_shape_contains_every_name_of_a_field():
    assert {"identification_on_file", "identification_onfile"} <= shape_of_model(User).keys()
    assert shape_of_model(UserPage).keys() == {"count", "total", "users"}
    assert {"destroy", "_destroy"} <= shape_of_model(AliasItem).keys()


PAYLOADS = Payloads()
RESPONSES = Reply.__subclasses__()


def test_payloads_cover_every_reply():
    assert PAYLOADS.replies.keys() == {reply.__name__ for reply in RESPONSES}


def rows_of(model):
    return TypeAdapter(row_type(model))


def plain_values(model):
    """A model as plain values without unknown fields."""
    if isinstance(model, BaseModel):
        return {name: plain_values(getattr(model, name)) for name in type(model).model_fields}
    return [plain_values(item) for item in model] if isinstance(model, list) else model


@pytest.mark.parametrize("reply", RESPONSES)
@settings(max_examples=15)
@given(data=st.data())
def test_row_equals_its_model_as_plain_values(reply, data):
    payload = data.draw(PAYLOADS.replies[reply.__name__])
    expected = plain_values(reply.model_validate(payload))
    assert rows_of(reply).validate_python(payload) == expected
    assert rows_of(reply).validate_json(json.dumps(payload)) == expected


@pytest.mark.parametrize(
    ("reply", "payload"),
    [
        (UserReply, {}),
        (UserReply, {"user": None}),
        (UserReply, {"user": USER | {"id": -1}}),
        (UserReply, {"user": USER | {"id": 2**63}}),
        (UserReply, {"user": USER | {"birth_date": 253_402_300_800}}),
        (UserReply, {"user": USER | {"records": [RECORD | {"age": 32_768}]}}),
        (UserReply, {"user": USER | {"records": [{"record": RECORD | {"id": "x"}}]}}),
        (UserReply, {"user": USER | {"records": None}}),
        (UserReply, {"user": USER | {"service_history": [{"activated_service_on": "soon"}]}}),
        (UserReply, {"user": USER | {"first_name": ["Jane"]}}),
        (AlertsReply, {"alerts": [ALERT | {"source": None}]}),
        (AlertsReply, {"alerts": [ALERT | {"opt_out_procedure": 5.5j}]}),
        (UserPage, {"users": [{"id": 1}]}),
    ],
)
def test_row_refuses_what_its_model_refuses(reply, payload):
    with pytest.raises(ValidationError):
        reply.model_validate(payload)
    with pytest.raises(ValidationError):
        rows_of(reply).validate_python(payload)


@pytest.mark.parametrize(
    "body",
    [
        b'{"users":' + b"[" * 100_000,
        b'{"users":[{"id":' + b"9" * 1_000_000 + b',"secret":"s"}]}',
        b'{"users":[{"id":NaN,"secret":"s"}]}',
        b'{"users":[{"id":1e999,"secret":"s"}]}',
        b'{"users":[{"id":1,"secret":"\\ud800"}]}',
        b"<html>",
        b"",
    ],
)
def test_hostile_body_is_no_row(body):
    with pytest.raises(ValidationError):
        rows_of(UserPage).validate_json(body)


def test_row_omits_unknown_fields():
    row = rows_of(UserPage).validate_python(
        {"users": [{"id": 1, "secret": 2, "colour": "red"}], "colour": "red"}
    )
    assert row == {"count": None, "users": [{"id": 1, "secret": 2}]}


def test_row_reads_the_other_names_of_a_field():
    fields = {name: value for name, value in USER.items() if name != "identification_on_file"}
    row = rows_of(UserReply).validate_python({"user": fields | {"identification_onfile": True}})
    assert row["user"]["identification_on_file"] is True
    assert rows_of(UserPage).validate_python({"total": 3, "users": []})["count"] == 3


def test_every_model_of_the_contract_has_a_shape():
    for model in vars(contract_models).values():
        if isinstance(model, type) and issubclass(model, BaseModel) and model is not BaseModel:
            assert shape_of_model(model).keys() >= model.model_fields.keys()
