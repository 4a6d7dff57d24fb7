"""XML: written as Rails writes it, read leniently as other libraries write it, and never a danger."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import XML_TEXT, Payloads, Peak

from exposurekit.contract import xml
from exposurekit.contract.models import (
    AlertsReply,
    LinksReply,
    RecordReply,
    RecordsReply,
    Reply,
    ServiceHistoryEntry,
    User,
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


# Writing


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
def test_a_leaf_is_written_as_rails_writes_it(value, written):
    """Where the specification is silent: "XML"."""
    assert (
        xml.write(value).decode() == f'<?xml version="1.0" encoding="UTF-8"?>\n<hash>\n  {written}\n</hash>\n'
    )


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("aliases", "alias"),
        ("emails", "email"),
        ("phone_numbers", "phone-number"),
        ("addresses", "address"),
        ("records", "record"),
        ("links", "link"),
        ("relations", "relation"),
        ("locations", "location"),
        ("contains", "contain"),
        ("alerts", "alert"),
        ("users", "user"),
        ("service_history", "service-history"),
        ("user_fields_required_for_removal", "user-fields-required-for-removal"),
        ("opt_out_procedure", "opt-out-procedure"),
    ],
)
def test_items_are_named_by_the_singular_of_their_list(name, item):
    """Not in the specification: items named by singularising the key."""
    [listed] = ET.fromstring(xml.write({name: ["a"]}))  # noqa: S314  written here
    assert (listed.tag, listed.attrib, [child.tag for child in listed]) == (
        name.replace("_", "-"),
        {"type": "array"},
        [item],
    )


def test_a_wrapped_record_is_written_twice_over():
    """Not in the specification: {records: [{record: {}}]}."""
    [listed] = ET.fromstring(xml.write({"records": [{"record": {"id": 1}}]}))  # noqa: S314  written here
    assert [element.tag for element in listed.iter()] == ["records", "record", "record", "id"]


def test_an_error_has_a_root_of_its_own():
    """Where the specification is silent: "error body"."""
    assert b"<error>\n  <message>secret is missing</message>\n</error>" in xml.write(
        {"message": "secret is missing"}, root="error"
    )


@pytest.mark.parametrize("name", ["", "a b", "1a", "<a>", "é", "a\n", "-a", 'a"'])
def test_a_name_that_xml_cannot_hold_is_refused(name):
    with pytest.raises(InvalidResponse, match="cannot stand as an XML element"):
        xml.write({name: 1})


MADE = Payloads(XML_TEXT)
RESPONSES = Reply.__subclasses__()


def normal(value, shape):
    """As XML can tell it: an empty text that may be null is null."""
    if isinstance(value, dict) and isinstance(shape, dict):
        return {name: normal(inner, shape.get(name)) for name, inner in value.items()}
    if isinstance(value, list) and isinstance(shape, Many):
        return [normal(inner, shape.item) for inner in value]
    if isinstance(shape, Many) and shape.or_text and isinstance(value, str):
        return value if value.strip() else ""
    return None if value == "" and shape is Scalar.NULLABLE_TEXT else value


@pytest.mark.parametrize("reply", RESPONSES)
@settings(max_examples=40)
@given(data=st.data())
def test_every_answer_is_read_as_it_was_written(reply, data):
    """XML cannot tell an empty text from null where both may be: it is read as null."""
    payload = data.draw(MADE.replies[reply.__name__])
    plain, shape = reply.model_validate(payload).model_dump(mode="json"), shape_of_model(reply)
    assert xml.read(xml.write(plain), shape) == normal(plain, shape)


@pytest.mark.parametrize("reply", RESPONSES)
@settings(max_examples=40)
@given(data=st.data())
def test_an_answer_means_the_same_in_both_encodings(reply, data):
    """Wrapped records, steps as text and all: what the models read from XML is what they read from JSON."""
    payload = data.draw(MADE.replies[reply.__name__])
    shape = shape_of_model(reply)
    through = reply.model_validate(xml.read(xml.write(payload), shape))
    again = reply.model_validate(xml.read(xml.write(through.model_dump(mode="json")), shape))
    blanks_as_null = normal(reply.model_validate(payload).model_dump(mode="json"), shape)
    assert through.model_dump(mode="json") == blanks_as_null == again.model_dump(mode="json")


def test_white_space_within_a_text_is_kept():
    assert xml.read(xml.write({"title": " a\r\n\tb\x85 "}), {"title": Scalar.TEXT}) == {
        "title": " a\r\n\tb\x85 "
    }


# Reading leniently


@pytest.mark.parametrize("name", ["first-name", "first_name", "ns:first-name"])
def test_names_have_dashes_or_underscores(name):
    text = USER.replace("first-name", name)
    declared = f'<hash xmlns:ns="urn:x"><user>{text}</user></hash>'
    assert read(UserReply, declared).user.first_name == "Jane"


@pytest.mark.parametrize("item", ["email", "item", "emails", "Email", "element", "_", "address"])
@pytest.mark.parametrize(("array", "others"), [("", ""), ("", EMPTY), (' type="array"', EMPTY)])
def test_items_have_any_name(item, array, others):
    emails = "".join(f"<{item}><id>{n}</id><address>{n}@x.example</address></{item}>" for n in (1, 2))
    parsed = user(f"<emails{array}>{emails}</emails>{others}").emails
    assert [email.address for email in parsed] == ["1@x.example", "2@x.example"]


def test_types_may_be_missing():
    parsed = user("<emails><email><id>2</id><address>a</address></email></emails>")
    assert (parsed.id, parsed.is_scanning, parsed.identification_on_file) == (1, False, True)
    assert parsed.emails[0].id == 2


@pytest.mark.parametrize(
    "declared",
    ["", ' type="integer"', ' type="string"', ' type="decimal"', ' xsi:type="xs:string" xmlns:xsi="urn:x"'],
)
def test_what_the_specification_calls_text_is_text_whatever_its_type(declared):
    record = RECORD.replace("<reference-id>", f"<reference-id{declared}>")
    assert read(RecordReply, f"<hash><record>{record}</record></hash>").record.reference_id == "007"


@pytest.mark.parametrize(
    ("declared", "secret"), [("", "00123"), (' type="integer"', 123), (' type="string"', "00123")]
)
def test_a_secret_has_the_type_it_declares(declared, secret):
    text = f"<hash><user>{USER}</user></hash>".replace("<secret>", f"<secret{declared}>")
    assert read(UserReply, text).user.secret == secret


@pytest.mark.parametrize(
    "null",
    [
        '<age nil="true"/>',
        '<age nil="1"></age>',
        '<age xsi:nil="true" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"/>',
        "<age/>",
        "<age> </age>",
        '<age type="integer"/>',
        '<age type="integer" nil="true"></age>',
        "",
    ],
)
def test_null_has_many_forms(null):
    assert read(RecordReply, f"<hash><record>{RECORD}{null}</record></hash>").record.age is None


@pytest.mark.parametrize("empty", ["<{}/>", "<{}></{}>"])
def test_an_empty_element_is_null_or_blank_by_the_schema(empty):
    parsed = read(RecordReply, f"<hash><record>{RECORD}{empty.replace('{}', 'href')}</record></hash>").record
    assert parsed.href is None
    named = RECORD.replace("<name>Jane</name>", empty.replace("{}", "name"))
    assert read(RecordReply, f"<hash><record>{named}</record></hash>").record.name == ""


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
@pytest.mark.parametrize(
    "template",
    [
        "<hash><{name} type='array'>{items}</{name}></hash>",
        "<hash><{name}>{items}</{name}></hash>",
        "<{name}><{name}>{items}</{name}></{name}>",
        "<response>{items}</response>",
        "<response>{repeated}</response>",
    ],
)
def test_one_element_lists_may_lack_a_list_around_them(*, reply, name, item, fields, count, template):
    """Not in the specification: repeated elements without type="array", one-element lists."""
    items, repeated = (f"<{tag}>{fields}</{tag}>" * count for tag in (item, name))
    parsed = read(reply, template.format(name=name, items=items, repeated=repeated))
    assert len(getattr(parsed, name)) == count
    assert all(got == getattr(parsed, name)[0] for got in getattr(parsed, name))


@pytest.mark.parametrize(
    ("reply", "name", "item", "fields"),
    [
        (RecordsReply, "records", "record", RECORD + NO_TEXTS),
        (AlertsReply, "alerts", "alert", ALERT),
        (LinksReply, "links", "link", LINK),
    ],
)
@pytest.mark.parametrize("array", ["", " type='array'"])
def test_the_root_may_be_the_list_itself(reply, name, item, fields, array):
    text = f"<{name}{array}><{item}>{fields}</{item}><{item}>{fields}</{item}></{name}>"
    assert len(getattr(read(reply, text), name)) == 2


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
def test_a_list_of_texts_has_many_forms(text, relations):
    record = f"{RECORD}<aliases/><locations/>{text}"
    assert read(RecordReply, f"<hash><record>{record}</record></hash>").record.relations == relations


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
def test_a_procedure_is_a_list_or_a_text(text, steps):
    """Specification, "Alert": list of strings, or a single string."""
    [alert] = read(
        AlertsReply, f"<hash><alerts type='array'><alert>{ALERT}{text}</alert></alerts></hash>"
    ).alerts
    assert alert.opt_out_procedure == steps


@pytest.mark.parametrize(
    "around",
    ["{}", "<record>{}</record>", "<record><record>{}</record></record>", "<item><record>{}</record></item>"],
)
def test_records_are_wrapped_never_once_or_twice(around):
    wrapped = around.format(RECORD)
    assert (
        read(RecordsReply, f"<hash><records><record>{wrapped}</record></records></hash>").records[0].id == 7
    )
    assert read(RecordReply, f"<hash><record>{wrapped}</record></hash>").record.id == 7
    assert user(f"<records><record>{wrapped}</record></records>").records[0].id == 7


@pytest.mark.parametrize("root", ["hash", "response", "user", "ns:Envelope", "OpenStruct", "a.b-c_d"])
def test_the_root_has_any_name(root):
    declared = f'{root} xmlns:ns="urn:x"' if ":" in root else root
    assert read(UserReply, f"<{declared}><user>{USER}</user></{root}>").user.id == 1


@pytest.mark.parametrize(
    "template",
    [
        "<user>{}</user>",
        "<hash><user>{}</user></hash>",
        "<hash><user><user>{}</user></user></hash>",
        "<a><data><user>{}</user></data></a>",
    ],
)
def test_a_user_stands_at_any_of_the_usual_depths(template):
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
def test_no_form_of_a_service_history_loses_an_instant(kind, template, count):
    at = "2026/01/02 03:04:05 +0000"
    text = template.replace("{}", f"<{kind}>{at}</{kind}>")
    shape = {"id": Scalar.VALUE, "service_history": Many(shape_of_model(ServiceHistoryEntry))}
    parsed = xml.read(f"<user><id>1</id>{text}</user>".encode(), shape)
    assert parsed["service_history"] == [{kind.replace("-", "_"): at}] * count


def test_an_absent_list_is_empty_where_no_list_is_marked():
    """Repeated elements leave no trace of an empty list."""
    parsed = user("")
    assert [getattr(parsed, name) for name in (*LISTS, "emails")] == [[]] * 7


def test_an_absent_list_is_missing_where_lists_are_marked():
    shape = shape_of_model(UserReply)
    parsed = xml.read(f"<hash><user>{USER}{EMPTY}</user></hash>".encode(), shape)
    assert "emails" not in parsed["user"]
    assert "emails" not in xml.read(f"<hash>{EMPTY}</hash>".encode(), shape_of_model(User))


def test_an_absent_list_that_may_be_null_stays_absent():
    parsed = read(LinksReply, f"<hash><links><link>{LINK}</link></links></hash>").links[0]
    assert parsed.contains is None


@pytest.mark.parametrize(
    "empty",
    [
        "<hash/>",
        "<hash></hash>",
        "<hash>\n</hash>",
        "<alerts/>",
        "<hash><alerts/></hash>",
        "<hash><alerts type='array'/></hash>",
    ],
)
def test_an_empty_answer_is_empty(empty):
    assert read(AlertsReply, empty).alerts == []


def test_an_unknown_source_is_kept_as_it_is_in_json():
    text = ALERT.replace("<link><title>t</title></link>", "<breach><name>B</name></breach>")
    [alert] = read(AlertsReply, f"<hash><alerts><alert>{text}</alert></alerts></hash>").alerts
    assert alert.source.model_extra == {"breach": {"name": "B"}}


def test_an_unknown_field_is_kept_with_the_type_it_declares():
    text = '<colour type="array"><c type="integer">1</c><c type="boolean">true</c><c nil="true"/><c>red</c></colour>'
    assert user(text + '<emails type="array"/>' + EMPTY).model_extra == {"colour": [1, True, None, "red"]}


@pytest.mark.parametrize("text", ["<![CDATA[Jane]]>", "J<!-- x -->ane", "J&#97;ne", "<?pi x?>Jane"])
def test_text_may_be_written_in_any_xml_form(text):
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
def test_a_body_is_read_in_the_encoding_it_declares(body):
    assert xml.read(body) == {"name": "Zoë €"}


@pytest.mark.parametrize(
    "encoding", ["x-canary", "utf-7", "rot13", "idna", "zlib", "undefined", "punycode", "utf-32", "shift_jis"]
)
def test_an_encoding_that_is_not_read_is_refused(encoding):
    assert "encoding" in refusal_of(
        f"<?xml version='1.0' encoding='{encoding}'?><hash>canary</hash>".encode()
    )


def test_a_body_not_in_its_declared_encoding_is_refused():
    refusal_of(ZOE.format("UTF-8").encode("windows-1252"))
    refusal_of(ZOE.format("UTF-8").encode("utf-16"))


# Danger

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
def test_xml_that_is_a_danger_is_refused_in_little_memory(body, shape):
    """Not in the specification: DTDs are refused; bytes, depth and nodes are bounded."""
    if shape and b'type="boolean"' in body:
        shape = {"b": Scalar.VALUE}
    with Peak() as peak:
        refusal_of(body, shape)
    assert peak.bytes < 20 * len(body) + 100_000


@pytest.mark.parametrize(
    "body",
    [
        b"<hash>" + b"<b/>" * 50_000 + b"</hash>",
        b"<hash><id " + b" ".join(b'a%d=""' % n for n in range(20_000)) + b"/></hash>",
        b"<hash><id>" + b"&#65;<!---->" * 50_000 + b"</id></hash>",
    ],
)
def test_the_oddest_xml_that_is_read_takes_memory_in_proportion(body):
    with Peak() as peak:
        xml.read(body, shape_of_model(UserPage))
    assert peak.bytes < 40 * len(body)


@pytest.mark.long
def test_elements_are_counted():
    body = b"<a>" + b"<b/>" * xml.NODES_MAX + b"</a>"
    assert "too many elements" in refusal_of(body)


@pytest.mark.parametrize("depth", [xml.DEPTH_MAX - 1, xml.DEPTH_MAX])
def test_depth_is_bounded_and_no_answer_comes_near(depth):
    document = b"<a>" * depth + b"</a>" * depth
    assert xml.read(document) is not None
    refusal_of(b"<a>" * (xml.DEPTH_MAX + 1) + b"</a>" * (xml.DEPTH_MAX + 1))


PAGES = [
    "<html></html>",
    "<html>canary</html>",
    "<HTML/>",
    "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>Log in</title></head><body/></html>",
    "<html><body><p>canary</p></body></html>",
    "<html><body><link href='x'/></body></html>",
    "<html><head><link/><link/></head></html>",
    "<html><user><title>t</title></user></html>",
    "<!DOCTYPE html><html><body>canary</body></html>",
    "<!doctype html><title>canary</title>",
]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("reply", RESPONSES)
def test_a_web_page_is_never_an_answer(reply, page):
    refusal_of(page.encode(), shape_of_model(reply))


@pytest.mark.parametrize(
    "text",
    [
        "<error>canary</error>",
        "<error><message>canary</message></error>",
        "<hash><error>canary</error></hash>",
        "<hash><status>500</status><error>canary</error></hash>",
        "<alerts>canary</alerts>",
        "<nil-classes type='array'/>",
    ],
)
@pytest.mark.parametrize("reply", RESPONSES)
def test_an_error_is_never_an_empty_answer(reply, text):
    with pytest.raises(ValueError, match="validation error") as refusal:
        read(reply, text)
    assert CANARY not in str(refusal.value)


ELEMENT = st.recursive(
    st.sampled_from(["", "a", " ", "1", "true", "&amp;", "&#13;"]),
    lambda inner: st.lists(
        st.builds(
            "<{0}{1}>{2}</{0}>".format,
            st.sampled_from(
                ["user", "users", "record", "records", "id", "secret", "name", "alias", "aliases", "x"]
            ),
            st.sampled_from(
                ["", ' type="array"', ' type="integer"', ' nil="true"', ' type="boolean"', ' type="x"']
            ),
            inner,
        ),
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
