"""What the toolkit should read of a service, however it deviates from the specification."""

from support.deviating_server import MANNERS, XML_MANNERS

ALL_MANNERS = {**MANNERS, **XML_MANNERS}


def format_of(manner):
    return "xml" if manner.encoding == "xml" else "json"


class Meaning:
    """What the client should read of the people, however the manner says it."""

    def __init__(self, manner):
        self.manner = manner
        self.xml = manner.encoding == "xml"

    @property
    def leaves_empty_lists_unsaid(self):
        """Nothing but unknown fields in an answer: it is refused, since unknown is not empty."""
        return self.xml and self.manner.xml_style == "repeated" and self.manner.extra_fields

    def secret(self, person):
        # XML says no types here: what it holds is text
        integer = self.manner.secret == "integer" and not self.xml
        return int(person["secret"]) if integer else person["secret"]

    def key(self, person):
        return person["id"], self.secret(person)

    def sent_value(self, value):
        return value if self.manner.optional == "present" else None

    def record(self, person, index, *, inside_get=False):
        record = dict(person["records"][index])
        needed = record.pop("user_fields_required_for_removal")
        if index == 0 and self.manner.status:
            record["status"] = self.manner.status
        record |= {name: self.sent_value(record[name]) for name in ("age", "href")}
        return record | {"user_fields_required_for_removal": self.sent_value(needed) if inside_get else None}

    def records(self, person, **more):
        return [self.record(person, index, **more) for index in range(len(person["records"]))]

    def link(self, link):
        unsaid = self.xml and not link["contains"] and self.manner.xml_style == "repeated"
        return link if self.manner.contains == "present" and not unsaid else link | {"contains": None}

    def item(self, item):
        unsent = {} if self.manner.request_fields else dict.fromkeys({"alias_type", "country"} & item.keys())
        if "address2" in item:
            unsent["address2"] = self.sent_value(item["address2"]) or (None if self.xml else item["address2"])
            unsent["address2"] = self.sent_value(unsent["address2"])
        return item | unsent

    def steps(self, alert):
        steps = alert["opt_out_procedure"]
        match self.manner.procedure:
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
        if index == 0 and self.manner.source_type:
            return alert | {"source_type": self.manner.source_type, "record": None, "link": None}
        if kind == "link":
            return alert | {"record": None, "link": self.link(source)}
        unsaid = {"user_fields_required_for_removal": None}
        return alert | {
            "record": source | {name: self.sent_value(source[name]) for name in ("age", "href")} | unsaid,
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
