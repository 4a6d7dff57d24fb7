"""XML: written as Rails writes it, read leniently, and safe to read."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import XML_TEXT, Payloads, Peak

from exposurekit.contract import models, xml
from exposurekit.contract.models import (
    AlertsReply,
    LinksReply,
    RecordReply,
    RecordsReply,
    UserPage,
    UserReply,
)
from exposurekit.contract.schema import Many, Scalar, shape_of_model
from exposurekit.errors import InvalidResponse

CANARY = "canary"
RECORD = "<id>7</id><name>Jane</name><site>S</site><status>removed</status><reference-id>007</reference-id>"
NO_TEXTS = "<relations/><aliases/><locations/>"
USER = (
    "<id>1</id><secret>00123</secret><birth-date/><first-name>Jane</first-name><middle-name/><last-name>Doe</last-name>"
    "<is-scanning>false</is-scanning><identification-on-file>true</identification-on-file>"
)
LINK = "<url>u</url><title>t</title>"
ALERT = "<text>t</text><html>h</html><source-type>link</source-type><source><link><title>t</title></link></source>"

LISTS = ("aliases", "phone_numbers", "addresses", "records", "links", "service_history")
EMPTY = "".join(f'<{name} type="array"/>' for name in LISTS)


def read(reply, text):
    return reply.model_validate(xml.read(text.encode(), shape_of_model(reply)))


def record(text):
    return read(RecordReply, f"<hash><record>{text}</record></hash>").record


def user(text):
    return read(UserReply, f"<hash><user>{USER}{text}</user></hash>").user


def refusal_of(body, shape=None):
    with pytest.raises(InvalidResponse) as refusal:
        xml.read(body, shape)
    message = str(refusal.value)
    assert message.startswith("not XML")
    assert CANARY not in message
    assert len(message) < 120
    return message


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"birth_date": None}, '<birth-date nil="true"/>'),
        ({"age": 41}, '<age type="integer">41</age>'),
        ({"id": 2**63 - 1}, '<id type="integer">9223372036854775807</id>'),
        ({"birth_date": -1}, '<birth-date type="integer">-1</birth-date>'),
        ({"is_scanning": True}, '<is-scanning type="boolean">true</is-scanning>'),
        ({"is_scanning": False}, '<is-scanning type="boolean">false</is-scanning>'),
        ({"middle_name": ""}, "<middle-name></middle-name>"),
        ({"title": "a & <b> \"c\" 'd'"}, "<title>a &amp; &lt;b&gt; \"c\" 'd'</title>"),
        ({"emails": []}, '<emails type="array"/>'),
        ({"source": {}}, "<source></source>"),
        ({"_destroy": True}, '<_destroy type="boolean">true</_destroy>'),
        ({"title": "a\x00b\x1bc\ud800d\ufffe"}, "<title>a\ufffdb\ufffdc\ufffdd\ufffd</title>"),
    ],
)
def test_leaf_is_written_as_rails_writes_it(value, written):
    """Where the specification is silent: "XML"."""
    assert (
        xml.write(value).decode() == f'<?xml version="1.0" encoding="UTF-8"?>\n<hash>\n  {written}\n</hash>\n'
    )


ITEM_NAMES = (
    {"aliases": "alias", "emails": "email", "phone_numbers": "phone-number", "addresses": "address"}
    | {"records": "record", "links": "link", "relations": "relation", "locations": "location"}
    | {"contains": "contain", "alerts": "alert", "users": "user", "service_history": "service-history"}
    | {"user_fields_required_for_removal": "user-fields-required-for-removal"}
    | {"opt_out_procedure": "opt-out-procedure"}
)


@pytest.mark.parametrize(("name", "item"), ITEM_NAMES.items())
def test_items_are_named_by_the_singular_of_their_list(name, item):
    """Not in the specification: items named by singularising the key."""
    [elements] = ET.fromstring(xml.write({name: ["a"]}))  # noqa: S314  written here
    assert (elements.tag, elements.attrib) == (name.replace("_", "-"), {"type": "array"})
    assert [child.tag for child in elements] == [item]


def test_wrapped_record_is_written_with_both_elements():
    """Not in the specification: {records: [{record: {}}]}."""
    [records] = ET.fromstring(xml.write({"records": [{"record": {"id": 1}}]}))  # noqa: S314  written here
    assert [element.tag for element in records.iter()] == ["records", "record", "record", "id"]


def test_error_has_its_own_root():
    """Where the specification is silent: "error body"."""
    assert b"<error>\n  <message>secret is missing</message>\n</error>" in xml.write(
        {"message": "secret is missing"}, root="error"
    )


@pytest.mark.parametrize("name", ["", "a b", "1a", "<a>", "é", "a\n", "-a", 'a"'])
def test_invalid_element_name_is_refused(name):
    with pytest.raises(InvalidResponse, match="cannot stand as an XML element"):
        xml.write({name: 1})


PAYLOADS = Payloads(XML_TEXT)
RESPONSES = models.Reply.__subclasses__()


def normal(value, shape):
    """As XML can express it: an empty text that may be null is null."""
    if isinstance(value, dict) and isinstance(shape, dict):
        return {name: normal(inner, shape.get(name)) for name, inner in value.items()}
    if isinstance(value, list) and isinstance(shape, Many):
        return [normal(inner, shape.item) for inner in value]
    if isinstance(shape, Many) and shape.or_text and isinstance(value, str):
        return value if value.strip() else ""
    return None if value == "" and shape is Scalar.NULLABLE_TEXT else value


@pytest.mark.parametrize("reply", RESPONSES)
@settings(max_examples=20)
@given(data=st.data())
def test_response_is_equal_in_both_encodings(reply, data):
    """What the models read from XML is what they read from JSON."""
    payload = data.draw(PAYLOADS.replies[reply.__name__])
    shape, expected = shape_of_model(reply), reply.model_validate(payload).model_dump(mode="json")
    assert xml.read(xml.write(expected), shape) == normal(expected, shape)
    through = reply.model_validate(xml.read(xml.write(payload), shape))
    assert through.model_dump(mode="json") == normal(expected, shape)


def test_white_space_within_a_text_is_preserved():
    assert xml.read(xml.write({"title": " a\r\n\tb\x85 "}), {"title": Scalar.TEXT}) == {
        "title": " a\r\n\tb\x85 "
    }


@pytest.mark.parametrize("name", ["first-name", "first_name", "ns:first-name"])
@pytest.mark.parametrize("root", ["hash", "response", "user", "ns:Envelope", "OpenStruct", "a.b-c_d"])
def test_root_has_any_name_and_fields_have_two_forms(root, name):
    fields = USER.replace("first-name", name)
    parsed = read(UserReply, f'<{root} xmlns:ns="urn:x"><user>{fields}</user></{root}>').user
    assert (parsed.id, parsed.first_name) == (1, "Jane")


@pytest.mark.parametrize("item", ["email", "item", "emails", "Email", "element", "_", "address"])
@pytest.mark.parametrize(("array", "others"), [("", ""), ("", EMPTY), (' type="array"', EMPTY)])
def test_items_may_have_any_name(item, array, others):
    emails = "".join(f"<{item}><id>{n}</id><address>{n}@x.example</address></{item}>" for n in (1, 2))
    parsed = user(f"<emails{array}>{emails}</emails>{others}").emails
    assert [email.address for email in parsed] == ["1@x.example", "2@x.example"]


def test_types_may_be_missing():
    parsed = user("<emails><email><id>2</id><address>a</address></email></emails>")
    assert (parsed.id, parsed.is_scanning, parsed.identification_on_file) == (1, False, True)
    assert parsed.emails[0].id == 2


DECLARATIONS = {
    "": "00123",
    ' type="integer"': 123,
    ' type="string"': "00123",
    ' type="decimal"': "00123",
    ' xsi:type="xs:string" xmlns:xsi="urn:x"': "00123",
}


@pytest.mark.parametrize(("declared", "secret"), DECLARATIONS.items())
def test_declared_type_applies_only_to_secrets(declared, secret):
    """What the specification calls text is text."""
    assert record(RECORD.replace("<reference-id>", f"<reference-id{declared}>")).reference_id == "007"
    text = f"<hash><user>{USER}</user></hash>".replace("<secret>", f"<secret{declared}>")
    assert read(UserReply, text).user.secret == secret


@pytest.mark.parametrize(
    "null",
    [
        *('<age nil="true"/>', '<age nil="1"></age>', "<age/>", "<age> </age>", '<age type="integer"/>', ""),
        '<age xsi:nil="true" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"/>',
        '<age type="integer" nil="true"></age>',
    ],
)
def test_null_has_many_forms(null):
    assert record(RECORD + null).age is None


@pytest.mark.parametrize("empty", ["<{}/>", "<{}></{}>"])
def test_empty_element_is_null_or_blank_by_schema(empty):
    assert record(RECORD + empty.replace("{}", "href")).href is None
    assert record(RECORD.replace("<name>Jane</name>", empty.replace("{}", "name"))).name == ""


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("reply", "name", "item", "fields"),
    [
        (RecordsReply, "records", "record", RECORD + NO_TEXTS),
        (LinksReply, "links", "link", LINK),
        (AlertsReply, "alerts", "alert", ALERT),
        (UserPage, "users", "user", "<id>1</id><secret>2</secret>"),
    ],
)
def test_lists_are_read_with_or_without_a_list_element(reply, name, item, fields, count):
    """Not in the specification: repeated elements without type="array", one-element lists."""
    items, repeated = (f"<{tag}>{fields}</{tag}>" * count for tag in (item, name))
    forms = [
        f"<hash><{name} type='array'>{items}</{name}></hash>",
        f"<hash><{name}>{items}</{name}></hash>",
        f"<{name}><{name}>{items}</{name}></{name}>",
        f"<response>{items}</response>",
        f"<response>{repeated}</response>",
    ]
    if count > 1 and name != "users":  # the root is the list itself
        forms += [f"<{name}>{items}</{name}>", f"<{name} type='array'>{items}</{name}>"]
    for form in forms:
        parsed = getattr(read(reply, form), name)
        assert len(parsed) == count
        assert all(one == parsed[0] for one in parsed)


@pytest.mark.parametrize(
    ("text", "relations"),
    [
        ("<relations type='array'><relation>A</relation><relation>B</relation></relations>", ["A", "B"]),
        ("<relations><relation>A</relation><relation>B</relation></relations>", ["A", "B"]),
        ("<relations><item>A</item></relations>", ["A"]),
        ("<relations>A</relations><relations>B</relations>", ["A", "B"]),
        ("<relation>A</relation><relation>B</relation>", ["A", "B"]),
        ("<relations>A</relations>", ["A"]),
        ("<relation>A</relation>", ["A"]),
        ("<relations/>", []),
        ("", []),
    ],
)
def test_list_of_texts_has_many_forms(text, relations):
    assert record(f"{RECORD}<aliases/><locations/>{text}").relations == relations


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (
            "<opt-out-procedure type='array'><opt-out-procedure>a</opt-out-procedure></opt-out-procedure>",
            ["a"],
        ),
        ("<opt-out-procedure><step>a</step><step>b</step></opt-out-procedure>", ["a", "b"]),
        ("<opt-out-procedure>a</opt-out-procedure><opt-out-procedure>b</opt-out-procedure>", ["a", "b"]),
        ("<opt-out-procedure>1. a 2. b</opt-out-procedure>", ["a", "b"]),
        ("<opt-out-procedure>a</opt-out-procedure>", ["a"]),
        ("<opt-out-procedure/>", []),
        ("<opt-out-procedure type='array'/>", []),
        ("<opt-out-procedure nil='true'/>", []),
        ("", []),
    ],
)
def test_procedure_is_a_list_or_a_text(text, steps):
    """Specification, "Alert": list of strings, or a single string."""
    [alert] = read(
        AlertsReply, f"<hash><alerts type='array'><alert>{ALERT}{text}</alert></alerts></hash>"
    ).alerts
    assert alert.opt_out_procedure == steps


@pytest.mark.parametrize(
    "around",
    ["{}", "<record>{}</record>", "<record><record>{}</record></record>", "<item><record>{}</record></item>"],
)
def test_records_may_be_unwrapped_or_wrapped_twice(around):
    wrapped = f"<record>{around.format(RECORD)}</record>"
    records = read(RecordsReply, f"<hash><records>{wrapped}</records></hash>").records
    assert [one.id for one in records] == [7]
    assert read(RecordReply, f"<hash>{wrapped}</hash>").record.id == 7
    assert user(f"<records>{wrapped}</records>").records[0].id == 7


@pytest.mark.parametrize(
    "template",
    [
        "<user>{}</user>",
        "<hash><user>{}</user></hash>",
        "<hash><user><user>{}</user></user></hash>",
        "<a><data><user>{}</user></data></a>",
    ],
)
def test_user_is_read_at_any_usual_depth(template):
    assert read(UserReply, template.format(USER)).user.secret == "00123"


@pytest.mark.parametrize("kind", ["activated-service-on", "deactivated_service_on"])
@pytest.mark.parametrize(
    ("template", "count"),
    [
        ("<service-history>{}</service-history>", 1),
        ("<service-history>{}</service-history><service-history>{}</service-history>", 2),
        ("<service-history><service-history>{}</service-history></service-history>", 1),
        ("<service-history><entry>{}</entry><entry>{}</entry></service-history>", 2),
        ("<service-history type='array'><entry>{}</entry></service-history>", 1),
        ("<service-history/>", 0),
    ],
)
def test_every_form_of_service_history_is_read(kind, template, count):
    at = "2026/01/02 03:04:05 +0000"
    text = template.replace("{}", f"<{kind}>{at}</{kind}>")
    shape = {"id": Scalar.VALUE, "service_history": Many(shape_of_model(models.ServiceHistoryEntry))}
    parsed = xml.read(f"<user><id>1</id>{text}</user>".encode(), shape)
    assert parsed["service_history"] == [{kind.replace("-", "_"): at}] * count


def test_absent_list_is_empty_unless_lists_are_marked():
    """Repeated elements leave no trace of an empty list."""
    parsed = user("")
    assert [getattr(parsed, name) for name in (*LISTS, "emails")] == [[]] * 7
    parsed = xml.read(f"<hash><user>{USER}{EMPTY}</user></hash>".encode(), shape_of_model(UserReply))
    assert "emails" not in parsed["user"]
    assert "emails" not in xml.read(f"<hash>{EMPTY}</hash>".encode(), shape_of_model(models.User))
    [link] = read(LinksReply, f"<hash><links><link>{LINK}</link></links></hash>").links
    assert link.contains is None


@pytest.mark.parametrize(
    "empty",
    [
        *("<hash/>", "<hash></hash>", "<hash>\n</hash>", "<alerts/>", "<hash><alerts/></hash>"),
        "<hash><alerts type='array'/></hash>",
    ],
)
def test_empty_response_is_empty(empty):
    assert read(AlertsReply, empty).alerts == []


def test_unknown_sources_and_fields_are_preserved():
    text = ALERT.replace("<link><title>t</title></link>", "<breach><name>B</name></breach>")
    [alert] = read(AlertsReply, f"<hash><alerts><alert>{text}</alert></alerts></hash>").alerts
    assert alert.source.model_extra == {"breach": {"name": "B"}}
    items = '<c type="integer">1</c><c type="boolean">true</c><c nil="true"/><c>red</c>'
    parsed = user(f'<colour type="array">{items}</colour><emails type="array"/>{EMPTY}')
    assert parsed.model_extra == {"colour": [1, True, None, "red"]}


@pytest.mark.parametrize("text", ["<![CDATA[Jane]]>", "J<!-- x -->ane", "J&#97;ne", "<?pi x?>Jane"])
def test_text_may_have_any_xml_form(text):
    assert (
        read(UserReply, f"<hash><user>{USER.replace('Jane', text)}</user></hash>").user.first_name == "Jane"
    )


ZOE = "<?xml version='1.0' encoding='{}'?><hash><name>Zoë €</name></hash>"


@pytest.mark.parametrize(
    "body",
    [
        ZOE.format("UTF-8").encode(),
        b"\xef\xbb\xbf" + ZOE.format("UTF-8").encode(),
        ZOE.format("UTF-16").encode("utf-16"),
        b"\xfe\xff" + ZOE.format("UTF-16").encode("utf-16-be"),
        b"\xff\xfe" + "<hash><name>Zoë €</name></hash>".encode("utf-16-le"),
        ZOE.format("windows-1252").encode("windows-1252"),
        ZOE.format("iso-8859-15").encode("iso-8859-15"),
        ZOE.format("US-ASCII").encode("ascii", "xmlcharrefreplace"),
    ],
)
def test_body_is_read_in_its_declared_encoding(body):
    assert xml.read(body) == {"name": "Zoë €"}


@pytest.mark.parametrize(
    "encoding", ["x-canary", "utf-7", "rot13", "idna", "zlib", "undefined", "punycode", "utf-32", "shift_jis"]
)
def test_unsupported_or_wrong_encoding_is_refused(encoding):
    text = f"<?xml version='1.0' encoding='{encoding}'?><hash>canary</hash>"
    assert "encoding" in refusal_of(text.encode())
    for other in ("windows-1252", "utf-16"):
        refusal_of(ZOE.format("UTF-8").encode(other))


BOMB = b"<!DOCTYPE a [<!ENTITY a0 'canary'>" + b"".join(
    b"<!ENTITY a%d '%s'>" % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 10)
)
HOSTILE = {
    "billion laughs": BOMB + b"]><a>&a9;</a>",
    "quadratic blow-up": b"<!DOCTYPE a [<!ENTITY x '"
    + b"canary" * 10_000
    + b"'>]><a>"
    + b"&x;" * 10_000
    + b"</a>",
    "an external entity": b"<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/hostname'>]><a>&x;</a>",
    "a parameter entity": b"<!DOCTYPE a [<!ENTITY % x SYSTEM 'http://127.0.0.1:9/canary'>%x;]><a/>",
    "an external document type": b"<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/canary.dtd'><a/>",
    "a document type that says nothing": b"<!DOCTYPE a><a>canary</a>",
    "a document type in UTF-16": "<!DOCTYPE canary [<!ENTITY x 'x'>]><a>&x;</a>".encode("utf-16"),
    "an entity of nobody": b"<a>&canary;</a>",
    "an entity of web pages": b"<a>canary&nbsp;</a>",
    "elements that are deep": b"<canary>" * 100_000,
    "closed elements that are deep": b"<canary>" * 100_000 + b"</canary>" * 100_000,
    "names without end": b"<a>" + b"".join(b"<canary%d/>" % n for n in range(100_000)) + b"</a>",
    "a control character": b"<a>canary\x01</a>",
    "a null byte": b"<a>canary\x00</a>",
    "a control character by number": b"<a>canary&#1;</a>",
    "half a surrogate pair by number": b"<a>canary&#xD800;</a>",
    "half a surrogate pair": b"<a>canary\xed\xa0\x80</a>",
    "not UTF-8": b"<a>canary\xff</a>",
    "half a body": b"<a><canary>",
    "two bodies": b"<a/><canary/>",
    "a text": b"canary",
    "nothing": b"",
    "JSON": b'{"canary": 1}',
    "one attribute twice": b"<a canary='1' canary='2'/>",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("shape", [None, shape_of_model(UserReply)], ids=["any", "user"])
def test_dangerous_xml_is_refused_in_little_memory(body, shape):
    """Not in the specification: DTDs are refused; bytes, depth and nodes are bounded."""
    if shape and b'type="boolean"' in body:
        shape = {"b": Scalar.VALUE}
    with Peak() as peak:
        refusal_of(body, shape)
    assert peak.bytes < 20 * len(body) + 100_000


@pytest.mark.parametrize(
    "body",
    [
        b"<hash>" + b"<b/>" * 20_000 + b"</hash>",
        b"<hash><id " + b" ".join(b'a%d=""' % n for n in range(20_000)) + b"/></hash>",
        b"<hash><id>" + b"&#65;<!---->" * 20_000 + b"</id></hash>",
    ],
)
def test_memory_is_proportional_to_the_body(body):
    with Peak() as peak:
        xml.read(body, shape_of_model(UserPage))
    assert peak.bytes < 40 * len(body)


@pytest.mark.long
def test_number_of_elements_is_limited():
    body = b"<a>" + b"<b/>" * xml.NODES_MAX + b"</a>"
    assert "too many elements" in refusal_of(body)


@pytest.mark.parametrize("depth", [xml.DEPTH_MAX - 1, xml.DEPTH_MAX])
def test_depth_is_limited(depth):
    document = b"<a>" * depth + b"</a>" * depth
    assert xml.read(document) is not None
    refusal_of(b"<a>" * (xml.DEPTH_MAX + 1) + b"</a>" * (xml.DEPTH_MAX + 1))


PAGES = [
    *("<html></html>", "<html>canary</html>", "<HTML/>", "<html><head><link/><link/></head></html>"),
    "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>Log in</title></head><body/></html>",
    *("<html><body><p>canary</p></body></html>", "<html><body><link href='x'/></body></html>"),
    *("<html><user><title>t</title></user></html>", "<!doctype html><title>canary</title>"),
    "<!DOCTYPE html><html><body>canary</body></html>",
]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("reply", RESPONSES)
def test_web_page_is_never_a_response(reply, page):
    refusal_of(page.encode(), shape_of_model(reply))


@pytest.mark.parametrize(
    "text",
    [
        *("<error>canary</error>", "<error><message>canary</message></error>", "<alerts>canary</alerts>"),
        *("<hash><error>canary</error></hash>", "<nil-classes type='array'/>"),
        "<hash><status>500</status><error>canary</error></hash>",
    ],
)
@pytest.mark.parametrize("reply", RESPONSES)
def test_error_is_never_an_empty_response(reply, text):
    with pytest.raises(ValueError, match="validation error") as refusal:
        read(reply, text)
    assert CANARY not in str(refusal.value)


NAMES = ["user", "users", "record", "records", "id", "secret", "name", "alias", "aliases", "x"]
ATTRIBUTES = ["", *(f" {one}" for one in ('type="array"', 'type="integer"', 'nil="true"', 'type="boolean"'))]
ELEMENT = st.recursive(
    st.sampled_from(["", "a", " ", "1", "true", "&amp;", "&#13;"]),
    lambda inner: st.lists(
        st.builds("<{0}{1}>{2}</{0}>".format, st.sampled_from(NAMES), st.sampled_from(ATTRIBUTES), inner),
        max_size=3,
    ).map("".join),
    max_leaves=10,
)


@given(ELEMENT, st.sampled_from(RESPONSES))
def test_any_elements_are_read_or_refused(inner, reply):
    body = f"<hash>{inner}</hash>".encode()
    value, message = None, ""
    try:
        value = xml.read(body, shape_of_model(reply))
    except InvalidResponse as refusal:
        message = str(refusal)
    assert "an element is not the " in message if message else isinstance(value, dict)


@given(st.binary(max_size=200) | st.text(st.sampled_from("<>/!?&;#ab=\"' -[]xml")).map(str.encode))
def test_any_bytes_are_read_or_refused(body):
    value, message = None, ""
    try:
        value = xml.read(body)
    except InvalidResponse as refusal:
        message = str(refusal)
    assert message.startswith("not XML") if message else isinstance(value, str | dict | list | None)
