"""What the toolkit should read of a service, however it deviates from the specification."""

from support.deviating_server import VARIANTS, XML_VARIANTS

ALL_VARIANTS = {**VARIANTS, **XML_VARIANTS}


def format_of(variant):
    return "xml" if variant.encoding == "xml" else "json"


class Meaning:
    """What the client should read of the people of a service of this variant."""

    def __init__(self, variant):
        self.variant = variant
        self.xml = variant.encoding == "xml"

    @property
    def omits_empty_lists(self):
        """Nothing but unknown fields in an answer: it is refused, since unknown is not empty."""
        return self.xml and self.variant.xml_style == "repeated" and self.variant.extra_fields

    def secret(self, person):
        # XML says no types here: what it holds is text
        integer = self.variant.secret == "integer" and not self.xml
        return int(person["secret"]) if integer else person["secret"]

    def key(self, person):
        return person["id"], self.secret(person)

    def sent_value(self, value):
        return value if self.variant.optional == "present" else None

    def record(self, person, index, *, inside_get=False):
        record = dict(person["records"][index])
        needed = record.pop("user_fields_required_for_removal")
        if index == 0 and self.variant.status:
            record["status"] = self.variant.status
        record |= {name: self.sent_value(record[name]) for name in ("age", "href")}
        return record | {"user_fields_required_for_removal": self.sent_value(needed) if inside_get else None}

    def records(self, person, **more):
        return [self.record(person, index, **more) for index in range(len(person["records"]))]

    def link(self, link):
        unsent = self.xml and not link["contains"] and self.variant.xml_style == "repeated"
        return link if self.variant.contains == "present" and not unsent else link | {"contains": None}

    def item(self, item):
        unsent = {} if self.variant.request_fields else dict.fromkeys({"alias_type", "country"} & item.keys())
        if "address2" in item:
            unsent["address2"] = self.sent_value(item["address2"]) or (None if self.xml else item["address2"])
            unsent["address2"] = self.sent_value(unsent["address2"])
        return item | unsent

    def steps(self, alert):
        steps = alert["opt_out_procedure"]
        match self.variant.procedure:
            case "null" | "missing":
                return []
            case "string":
                return [" ".join(steps)] if steps else []
            case "numbered" if len(steps) == 1:  # one number is no list
                return [f"1. {steps[0]}"]
        return steps

    def alert(self, person, index):
        alert = dict(person["alerts"][index])
        alert |= {name: self.sent_value(alert[name]) for name in ("url", "guide")}
        alert["opt_out_procedure"] = self.steps(alert)
        [(kind, source)] = alert.pop("source").items()
        if index == 0 and self.variant.source_type:
            return alert | {"source_type": self.variant.source_type, "record": None, "link": None}
        if kind == "link":
            return alert | {"record": None, "link": self.link(source)}
        unsent = {"user_fields_required_for_removal": None}
        return alert | {
            "record": source | {name: self.sent_value(source[name]) for name in ("age", "href")} | unsent,
            "link": None,
        }

    def alerts(self, person):
        return [self.alert(person, index) for index in range(len(person["alerts"]))]

    def user(self, person, *, inside_get):
        return {
            **{name: person[name] for name in ("id", "birth_date", "first_name", "middle_name", "last_name")},
            "secret": self.secret(person),
            **{
                name: [self.item(item) for item in person[name]]
                for name in ("aliases", "emails", "phone_numbers", "addresses")
            },
            "records": self.records(person, inside_get=inside_get),
            "links": [self.link(link) for link in person["links"]],
            "is_scanning": person["is_scanning"],
            "identification_on_file": person["identification_on_file"],
        }
