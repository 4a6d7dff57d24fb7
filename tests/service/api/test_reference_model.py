"""Any sequence of creates and updates, in any encoding, has the effect of dictionary updates."""

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.services import Service, json_body

from exposurekit.contract import forms, xml

FIELDS = {
    "aliases": ("first_name", "last_name"),
    "emails": ("address",),
    "phone_numbers": ("number",),
    "addresses": ("address1", "address2", "city", "state", "zip"),
}
TEXT = st.text(st.sampled_from("aZ 0é李🎈<&>\"'[]{},;=%+\n\t"), min_size=1, max_size=6).filter(str.strip)
BLANK = st.sampled_from(["", " "])
DIGITS = st.text(st.sampled_from("0123456789"), min_size=1, max_size=10)


def value_of(name: str) -> st.SearchStrategy[str]:
    return (DIGITS if name == "number" else TEXT) | BLANK


def items(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """An item with at least one field (forms have no empty items), and the existing item that it changes."""
    item_fields = st.fixed_dictionaries({}, optional={name: value_of(name) for name in FIELDS[kind]}).filter(
        bool
    )
    target = st.none() | st.tuples(st.integers(0, 3), st.booleans())
    return st.tuples(target, item_fields)


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("first_name", "middle_name", "last_name"), TEXT | BLANK),
        "birth_date": st.integers(-(10**10), 10**9) | BLANK,
        **{kind: st.lists(items(kind), max_size=3) | BLANK for kind in FIELDS},
    },
)
ENCODINGS = st.sampled_from(["json", "form", "json in form", "multipart", "xml", "query"])


@dataclass
class Model:
    """What the service should store about one person."""

    person: dict[str, Any] = field(default_factory=dict)
    lists: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {kind: [] for kind in FIELDS})

    def change(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Apply the change, and return it as a request with the service's ids."""
        sent = dict(changes)
        for name, value in changes.items():
            if name not in FIELDS:
                blank = None if name == "birth_date" else ""
                self.person[name] = blank if isinstance(value, str) and not value.strip() else value
            elif isinstance(value, str):
                self.lists[name] = []
            else:
                sent[name] = [self._item(name, target, item_fields) for target, item_fields in value]
        return {name: value for name, value in sent.items() if value != []}

    def _item(
        self, kind: str, target: tuple[int, bool] | None, item_fields: dict[str, str]
    ) -> dict[str, Any]:
        stored = {name: value if value.strip() else "" for name, value in item_fields.items()}
        existing = [item for item in self.lists[kind] if "id" in item]
        if target is None or not existing:
            self.lists[kind].append(dict.fromkeys(FIELDS[kind], "") | stored)
            return item_fields
        item = existing[target[0] % len(existing)]
        if target[1]:
            self.lists[kind].remove(item)
            return item_fields | {"id": item["id"], "_destroy": True}
        item |= stored
        return item_fields | {"id": item["id"]}

    def check(self, user: dict[str, Any]) -> None:
        """Compare with the service's user, and remember the ids of new items."""
        assert {name: user[name] for name in self.person} == self.person
        for kind, expected_items in self.lists.items():
            listed = [
                {name: value or "" if name == "address2" else value for name, value in item.items()}
                for item in user[kind]
            ]
            assert [
                {name: item[name] for name in expected}
                for item, expected in zip(listed, expected_items, strict=True)
            ] == expected_items
            self.lists[kind] = listed


def encoded(values: dict[str, Any], encoding: str) -> dict[str, Any]:
    form = "application/x-www-form-urlencoded"
    flat = {name: json.dumps(value) if isinstance(value, list) else value for name, value in values.items()}
    match encoding:
        case "json":
            return {"json": values}
        case "form":
            return {"content": forms.encode(values), "headers": {"content-type": form}}
        case "json in form":
            return {"content": urlencode(flat), "headers": {"content-type": form}}
        case "multipart":
            fields = [(name, (None, value)) for name, value in forms.flatten(values)]
            return {"files": fields} if fields else {}
        case "xml":
            return {"content": xml.write(values), "headers": {"content-type": "application/xml"}}
    return {"params": flat}


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(CHANGES, ENCODINGS, st.lists(st.tuples(CHANGES, ENCODINGS), max_size=4))
def test_creates_and_updates_equal_dictionary_updates(service: Service, first, encoding, history):
    """Create user; Update user, rules 1 to 5."""
    model = Model({"first_name": "", "middle_name": "", "last_name": "", "birth_date": None})
    request = encoded(model.change(with_required_fields(first)), encoding)
    user = json_body(service.call("POST", "/users", **request))["user"]
    model.check(user)
    for changes, other_encoding in history:
        request = encoded(model.change(changes), other_encoding)
        user = json_body(service.call("PUT", f"/users/{user['id']}", user, **request))["user"]
        model.check(user)
    assert service.get(user)["user"] == user


def with_required_fields(changes: dict[str, Any]) -> dict[str, Any]:
    names = {
        name: (changes.get(name, "").strip() and changes[name]) or "Ada"
        for name in ("first_name", "last_name")
    }
    others = changes.get("addresses") or []
    address = (None, {"city": "Oakmere", "state": "CA"})
    return changes | names | {"addresses": [address, *(others if isinstance(others, list) else [])]}
