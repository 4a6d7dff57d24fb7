"""Payloads that a service may send, as hypothesis strategies and as examples."""

import tracemalloc
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
# What XML can carry: no control characters but tab and line ends, no half surrogates, no non-characters.
XML_TEXT = st.text(
    st.characters(
        exclude_categories=["Cs", "Cc"], include_characters="\t\n\r\x85", exclude_characters="\ufffe\uffff"
    ),
    max_size=6,
)
IDS = st.integers(0, 2**63 - 1) | st.sampled_from([0, 1, 2**31, 2**53 + 1, 2**63 - 1])
BIRTH_DATES = st.integers(-62_135_596_800, 253_402_300_799) | st.sampled_from(
    [-62_135_596_800, -1, 0, 253_402_300_799]
)
INSTANTS = st.datetimes().map(lambda at: f"{at.year:04}/{at:%m/%d %H:%M:%S} +0000")


def secrets(text: st.SearchStrategy[str]) -> st.SearchStrategy[int | str]:
    """Integers or text; none is blank, since in XML a blank text is null."""
    return st.integers(0, 10**18) | text.filter(str.strip)


@dataclass(frozen=True)
class Payloads:
    """Every resource, with this kind of text in its fields."""

    text: st.SearchStrategy[str] = TEXT

    def listed(self, item: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
        return st.lists(item, max_size=2)

    @cached_property
    def texts(self) -> st.SearchStrategy[list[str]]:
        return self.listed(self.text)

    @cached_property
    def key(self) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({"id": IDS, "secret": secrets(self.text)})

    @cached_property
    def record(self) -> st.SearchStrategy[dict[str, Any]]:
        status = st.sampled_from(["discovered", "pending removal", "removed"]) | self.text
        return st.fixed_dictionaries(
            {"id": IDS, "name": self.text, "site": self.text, "status": status, "reference_id": self.text}
            | dict.fromkeys(("relations", "aliases", "locations"), self.texts),
            optional={
                "age": st.none() | st.integers(0, 32_767),
                "href": st.none() | self.text,
                "user_fields_required_for_removal": st.none() | self.texts,
            },
        )

    @cached_property
    def any_record(self) -> st.SearchStrategy[dict[str, Any]]:
        return self.record | st.fixed_dictionaries({"record": self.record})

    @cached_property
    def link(self) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries(
            {"title": self.text}, optional={"url": st.none() | self.text, "contains": st.none() | self.texts}
        )

    @cached_property
    def alert(self) -> st.SearchStrategy[dict[str, Any]]:
        optional_texts = {name: st.none() | self.text for name in ("url", "guide")}
        steps = st.none() | self.text | self.texts
        source = (
            st.fixed_dictionaries({"record": self.any_record})
            | st.fixed_dictionaries({"link": self.link})
            | st.just({"breach": {"title": "A breach", "accounts": 3}})
        )
        source_type = st.sampled_from(["record", "link", "breach"])
        return st.fixed_dictionaries(
            {"text": self.text, "html": self.text, "source_type": source_type, "source": source},
            optional=optional_texts | {"opt_out_procedure": steps},
        )

    @cached_property
    def history(self) -> st.SearchStrategy[list[dict[str, str]]]:
        kinds = ("activated_service_on", "deactivated_service_on")
        return self.listed(st.one_of(*(st.fixed_dictionaries({kind: INSTANTS}) for kind in kinds)))

    @cached_property
    def user(self) -> st.SearchStrategy[dict[str, Any]]:
        names = dict.fromkeys(("first_name", "middle_name", "last_name"), self.text)
        alias = st.fixed_dictionaries(
            {"id": IDS, "first_name": self.text, "last_name": self.text},
            optional={"alias_type": st.sampled_from([None, "nickname", "maiden"])},
        )
        address = st.fixed_dictionaries(
            {"id": IDS, **dict.fromkeys(("address1", "city", "state", "zip"), self.text)},
            optional={"address2": st.none() | self.text, "country": st.none() | self.text},
        )
        fields = {
            "id": IDS,
            "secret": secrets(self.text),
            **names,
            "aliases": self.listed(alias),
            "emails": self.listed(st.fixed_dictionaries({"id": IDS, "address": self.text})),
            "phone_numbers": self.listed(st.fixed_dictionaries({"id": IDS, "number": self.text})),
            "addresses": self.listed(address),
            "records": self.listed(self.any_record),
            "links": self.listed(self.link),
            "service_history": self.history,
            "is_scanning": st.booleans(),
            "identification_on_file": st.booleans(),
        }
        return st.fixed_dictionaries(fields, optional={"birth_date": st.none() | BIRTH_DATES})

    @cached_property
    def replies(self) -> dict[str, st.SearchStrategy[dict[str, Any]]]:
        """An answer for each kind of reply, by the reply's name."""
        keys = st.fixed_dictionaries({"users": self.listed(self.key)}, optional={"count": IDS})
        return {
            "UserReply": st.fixed_dictionaries({"user": self.user}),
            "UserPage": keys,
            "RecordsReply": st.fixed_dictionaries({"records": self.listed(self.any_record)}),
            "RecordReply": st.fixed_dictionaries({"record": self.any_record}),
            "LinksReply": st.fixed_dictionaries({"links": self.listed(self.link)}),
            "AlertsReply": st.fixed_dictionaries({"alerts": self.listed(self.alert)}),
        }


RECORD = {
    "id": 7,
    "name": "Jane Doe",
    "site": "Lookup",
    "status": "discovered",
    "age": 41,
    "href": "https://lookup.example/jane",
    "relations": ["A B"],
    "aliases": [],
    "locations": ["Oakmere, CA"],
    "reference_id": "000560228488",
    "user_fields_required_for_removal": ["first_name", "address1"],
}
LINK = {"url": "https://pages.example/1", "title": "A page", "contains": ["email"]}
ALERT = {
    "text": "Found",
    "html": "<p>Found</p>",
    "url": "https://alerts.example/1",
    "guide": "About the site",
    "opt_out_procedure": ["Open the page", "Press Remove"],
    "source_type": "record",
    "source": {"record": RECORD},
}
USER = {
    "id": 12345,
    "secret": "ab12",
    "birth_date": 0,
    "first_name": "Jane",
    "middle_name": "",
    "last_name": "Doe",
    "aliases": [{"id": 1, "first_name": "Janie", "last_name": "Doe"}],
    "emails": [{"id": 2, "address": "jane@mail.example"}],
    "phone_numbers": [{"id": 3, "number": "0155512345"}],
    "addresses": [
        {"id": 4, "address1": "1 Main", "address2": None, "city": "Oakmere", "state": "CA", "zip": "01234"}
    ],
    "records": [RECORD],
    "links": [LINK],
    "service_history": [{"activated_service_on": "2026/01/02 03:04:05 +0000"}],
    "is_scanning": True,
    "identification_on_file": False,
}


class Peak:
    """The most memory that was allocated at once inside the block, in bytes."""

    bytes = 0

    def __enter__(self) -> Self:
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
