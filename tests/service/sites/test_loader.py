"""Site definitions in YAML: errors with their lines, and without the values of the file."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from exposurekit.errors import ConfigurationError
from exposurekit.service.sites.loader import directory, parsed, read

WHOLE = """\
name: Seekfolk
guide: A free directory.
opt_out_procedure:
  - Open the form.
  - Press Remove.
opt_out_url: http://seekfolk.example/opt-out
search:
  url: http://seekfolk.example/search
  fields:
    name: "{first_name} {last_name}"
  next: a.next@href
  no_results: Nobody of that name
listings:
  item: li.person
  name: [h2, h3]
  reference_id: "@data-reference"
removal:
  method: manual
"""


def edited(old, new):
    assert WHOLE.count(old) == 1
    return WHOLE.replace(old, new)


def problems_of(text):
    with pytest.raises(ConfigurationError) as caught:
        parsed(text, "seekfolk.yaml")
    return str(caught.value).splitlines()


def named(name, more=""):
    return edited("name: Seekfolk", f"name: {name}") + more


def test_a_definition_is_read_with_its_defaults():
    site = parsed(WHOLE)
    assert site.search.next == ("a.next@href",)
    assert site.listings.name == ("h2", "h3")
    assert (site.search.pages_max, site.verification.confirmations) == (5, 2)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (edited("  url:", "  methd: a\n  url:"), 8, "search.methd is not a known key; did you mean method?"),
        (WHOLE + "serch: {}\n", 19, "serch is not a known key; did you mean search?"),
        (WHOLE + "zzz: {}\n", 19, "zzz is not a known key"),
        (
            edited("  method: manual", "  method: robot"),
            18,
            "removal.method: should be 'form', 'email', 'assisted' or 'manual'",
        ),
        (edited("  method: manual", "  also_removes: []"), 17, "removal.method is missing"),
        *(
            (edited("  method: manual", f"  method: {text}"), 17, f"removal: {problem}")
            for text, problem in (
                ("assisted\n  accepted: Thanks", "method assisted has no url, page, accepted or refused"),
                ("manual\n  minutes: 3", "minutes and one_request_per require method assisted"),
                (
                    'assisted\n  fields: {a: "{request_email}"}',
                    "confirm and a field {request_email} require each",
                ),
            )
        ),
        (
            edited("method: manual", "method: assisted\n  one_request_per: site"),
            19,
            "removal.one_request_per: should be 'listing' or 'person'",
        ),
        (
            edited("  url:", "  method: person\n  url:").replace("method: manual", "method: form"),
            19,
            "removal.method form sends requests to a site whose search.method is person; write assisted or manual",
        ),
        (
            edited("  url:", "  method: person\n  answer: json\n  url:"),
            9,
            "search.answer of a saved page is html",
        ),
        (edited("guide: A free directory.\n", ""), 1, "guide is missing"),
        (edited("guide: A free", "guide: 7\nguide: A free"), 3, "guide is repeated"),
        (edited("  url:", "  answer: html\n  answer: json\n  url:"), 9, "search.answer is repeated"),
        (
            edited("- Press Remove.", "- 5"),
            5,
            "opt_out_procedure: should be a text; put it in quotes",
        ),
        (
            edited("method: manual", "method: assisted\n  fields: {Address: {href}}"),
            19,
            "removal.fields.Address: should be a text; put it in quotes",
        ),
        (
            edited("method: manual", "method: assisted\n  fields: {Address: {href: a}}"),
            19,
            "removal.fields.Address: should be a text",
        ),
        (edited("Nobody of that name", "no"), 12, "search.no_results: should be a list, or a text in quotes"),
        (edited("item: li.person", "item: li >"), 14, "listings.item is not a valid CSS selector"),
        (edited("[h2, h3]", "\n    - h2\n    - 'h3['"), 17, "listings.name is not a valid CSS selector"),
        (edited("li.person", "li@id"), 14, "listings.item must select elements, not an attribute"),
        (edited("a.next@href", "a.next"), 11, "search.next needs the attribute with the URL, as in a@href"),
        (edited("[h2, h3]", "[]"), 15, "listings.name is empty"),
        (edited("Nobody of that name", "[]"), 12, "search.no_results is empty"),
        (edited("Nobody of that name", "[Nobody, ' ']"), 12, "search.no_results is blank"),
        (WHOLE + "politeness: {delay_s: .inf}\n", 19, "a number is not finite"),
        (WHOLE + "politeness: {delay_s: 61}\n", 19, "politeness.delay_s: should be less than or equal to 60"),
        (WHOLE + "verification: {every_days: 0.5}", 19, "verification.every_days: should be greater"),
        (WHOLE + "verification: {confirmations: 1}", 19, "verification.confirmations: should be greater"),
        (edited("opt_out_url: http:", "opt_out_url: ftp:"), 6, "opt_out_url: is not an http or https URL"),
        *(
            (edited("{last_name}", field), 10, f"search.fields.name: has {problem}")
            for field, problem in (
                ("{last_name!r}", "a format specification"),
                ("{last_name:>9}", "a format specification"),
                ("{last_name.__class__}", "unknown fields: last_name.__class__"),
                ("{last_name[0]}", "unknown fields: last_name[0]"),
            )
        ),
        *(
            (edited("example/search", f"example/{url}"), 8, f"search.url: has {problem}")
            for url, problem in (
                ("{nickname}", "unknown fields: nickname"),
                ("{href}", "a field of the listing"),
                ("{last_name!r}", "a format specification"),
                ("search?q={last_name}", "a field outside of its path"),
                ("{last_name", "unbalanced braces"),
            )
        ),
        (WHOLE + "? [a]\n: b\n", 19, "a key is not text"),
        (WHOLE + f"zzz: {'1' * 41}\n", 19, "a number is too long"),
    ],
)
def test_a_problem_is_reported_with_its_line(text, line, reason):
    problem = f"seekfolk.yaml, line {line}: {reason}"
    assert [one for one in problems_of(text) if one.startswith(problem)]


CONFIRMED = """  method: form
  url: https://seekfolk.example/opt-out
  fields: {email: "{request_email}"}
  accepted: Thank you
  confirm:
    from: no-reply@seekfolk.example
    subject: Confirm your opt-out
    link_host: seekfolk.example
    accepted: It is confirmed
"""


def confirmed(before="", after=""):
    return edited("  method: manual\n", CONFIRMED.replace(before, after) if before else CONFIRMED)


def test_a_form_may_be_confirmed_by_mail():
    confirm = parsed(confirmed()).removal.confirm
    assert (confirm.sender, confirm.signing_domain) == ("no-reply@seekfolk.example", "seekfolk.example")
    assert (confirm.link_path, confirm.within_days, confirm.subject) == ("/", 7, ("Confirm your opt-out",))
    signed_by = parsed(
        confirmed("    from: ", "    signed_by: mail.seekfolk.example\n    from: ")
    ).removal.confirm
    assert signed_by.signing_domain == "mail.seekfolk.example"
    anybody = parsed(
        confirmed("from: no-reply@seekfolk", "from: '@seekfolk").replace(
            "folk.example\n    subject", "folk.example'\n    subject"
        )
    )
    assert anybody.removal.confirm.sender == "@seekfolk.example"
    assert parsed(confirmed()).manual().needs_mailbox is False


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            "seekfolk.example\n    acc",
            "https://seekfolk.example/\n    acc",
            "link_host: is not a host name in lower case",
        ),
        (
            "seekfolk.example\n    acc",
            "Seekfolk.example\n    acc",
            "link_host: is not a host name in lower case",
        ),
        (
            "seekfolk.example\n    acc",
            "seekfolk.example:8443\n    acc",
            "link_host: is not a host name in lower case",
        ),
        ("seekfolk.example\n    acc", "127.0.0.1\n    acc", "link_host: is not a host name in lower case"),
        (
            "no-reply@seekfolk.example",
            "Seekfolk <no-reply@seekfolk.example>",
            "from: is not an email address in lower",
        ),
        (
            "no-reply@seekfolk.example",
            "seekfolk.example",
            "from: is not an email address in lower case, or @ and",
        ),
        ("    from:", "    signed_by: evil.example\n    from:", ": signed_by is neither the domain of from"),
        ("    from:", "    link_path: confirm\n    from:", "link_path: is not the beginning of a path"),
        ("    from:", "    within_days: 0\n    from:", "within_days: should be greater than 0"),
        ("    subject: Confirm your opt-out\n", "", "subject is missing"),
        ("    from:", "    frm:", "frm is not a known key; did you mean from?"),
        ("{request_email}", "{email}", ": confirm and a field {request_email} require each other"),
    ],
)
def test_a_confirmation_that_cannot_work_is_rejected(before, after, reason):
    assert [one for one in problems_of(confirmed(before, after)) if reason in one]


def test_an_opt_out_may_be_sent_by_email():
    block = "  method: email\n  email: {to: privacy@seekfolk.example, template: gdpr}\n"
    site = parsed(edited("  method: manual\n", block))
    assert (site.removal.email.to, site.removal.email.answer_days) == ("privacy@seekfolk.example", 30)
    assert site.sends_email
    assert not site.manual().sends_email
    for before, after in (
        ("to: privacy", "to: "),
        ("gdpr", "angry"),
        ("privacy@", "a@b.example, privacy@"),
        ("email: {", "mail: {"),
    ):
        assert problems_of(edited("  method: manual\n", block.replace(before, after)))
    assert problems_of(edited("  method: manual\n", "  method: email\n"))
    followed_up = parsed(edited("  method: manual\n", block.replace("method: email", "method: assisted")))
    assert (followed_up.sends_email, followed_up.needs_mailbox) == (False, False)
    assert followed_up.removal.declared_days is None
    assert problems_of(edited("  method: manual\n", block.replace("method: email", "method: manual")))


def test_only_a_form_has_the_address_of_its_request():
    unconfirmed = CONFIRMED.partition("  confirm:")[0]
    assert [
        one for one in problems_of(edited("  method: manual\n", unconfirmed)) if "require each other" in one
    ]
    [problem] = problems_of(edited("{last_name}", "{request_email}"))
    assert "which only an opt-out form may contain" in problem


def test_a_selector_for_json_is_jmespath():
    text = edited("  url:", "  answer: json\n  url:")
    assert problems_of(text) == [
        "seekfolk.yaml, line 12: search.next is not a valid JMESPath selector",
        "seekfolk.yaml, line 17: listings.reference_id is not a valid JMESPath selector",
    ]
    usable = text.replace("a.next@href", "links.next").replace('"@data-reference"', "id")
    assert parsed(usable).search.answer == "json"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("name: &n Seekfolk\nguide: *n\n", 1, "anchors and aliases are not supported"),
        ("a: 1\nb: *a\n", 2, "anchors and aliases are not supported"),
        ("a: 1\nb: !!python/object/apply:os.system [x]\n", 2, "tags are not supported"),
        (WHOLE + "---\nname: Other\n", 19, "starts a second document"),
        ("a:\n  - [" + "[" * 30, 2, "is nested too deeply"),
        ("", 1, "is not a mapping of keys to values"),
        ("- a\n- b\n", 1, "is not a mapping of keys to values"),
        ("a: b\nc: \x00\n", 2, "contains a character that YAML does not allow"),
        ("a: 1\n" * 50_000, 1, "is longer than 100000 characters"),
    ],
)
def test_anything_but_plain_data_is_rejected(text, line, reason):
    assert problems_of(text) == [f"seekfolk.yaml, line {line}: {reason}"]


def test_xpath_and_blank_texts_are_named():
    assert problems_of(edited("item: li.person", "item: //li")) == [
        "seekfolk.yaml, line 14: listings.item is XPath: write a CSS selector"
    ]
    assert problems_of(edited("name: Seekfolk", "name: ''")) == ["seekfolk.yaml, line 1: name is empty"]
    assert problems_of(WHOLE + "politeness: {delay_s: often}\n") == [
        "seekfolk.yaml, line 19: politeness.delay_s: should be a number"
    ]


def test_all_problems_are_listed_by_line():
    text = edited("item: li.person", "item: li >").replace("method: manual", "method: robot\nodd: 1")
    lines = problems_of(text)
    assert [line.split(": ")[0] for line in lines] == [f"seekfolk.yaml, line {at}" for at in (14, 18, 19)]
    (line,) = problems_of("name: a\nguide: b: c\n")
    assert line.startswith("seekfolk.yaml, line 2: is not YAML: ")


def test_no_message_contains_a_value_of_the_file():
    secret = "planted-value"
    text = edited("method: manual", f"method: {secret}").replace(
        "url: http://seekfolk.example/search", f"url: {secret}"
    )
    assert secret not in "\n".join(problems_of(text + f"politeness: {secret}\n"))


def test_a_long_list_of_problems_is_truncated():
    lines = problems_of(WHOLE + "".join(f"odd{number}: 1\n" for number in range(80)))
    assert lines[-1] == "seekfolk.yaml: and 30 more problems"
    assert len(lines) == 51


def test_a_date_is_read_as_text():
    assert parsed(named("2026-13-45")).name == "2026-13-45"


@settings(max_examples=50)
@given(st.text(max_size=200))
def test_any_text_is_a_configuration_error(text):
    with pytest.raises(ConfigurationError):
        parsed(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.sampled_from(sorted(yaml.safe_load(WHOLE))), JSON)
def test_any_value_is_accepted_or_rejected_with_its_line(key, value):
    data = yaml.safe_load(WHOLE) | {key: value}
    message = ""
    try:
        site = parsed(yaml.safe_dump(data, allow_unicode=True))
    except ConfigurationError as error:
        message = str(error)
    assert ", line " in message or getattr(site, key) is not None


def test_the_sites_of_a_directory_are_sorted_by_name(tmp_path):
    for file, name in (("b.yaml", "Alpha"), ("a.yaml", "beta"), ("c.txt", "Gamma")):
        (tmp_path / file).write_text(named(name))
    assert list(directory(tmp_path)) == ["Alpha", "beta"]
    assert read(tmp_path / "a.yaml").name == "beta"


def test_two_files_with_one_name_are_rejected(tmp_path):
    (tmp_path / "a.yaml").write_text(named("Seekfolk"))
    (tmp_path / "b.yaml").write_text("# a copy\n" + named("SEEKFOLK"))
    with pytest.raises(ConfigurationError, match=r"b\.yaml, line 2: name is already used in a\.yaml$"):
        directory(tmp_path)


def test_an_opt_out_covers_only_defined_sites(tmp_path):
    (tmp_path / "a.yaml").write_text(named("Alpha", "  also_removes:\n    - Beta\n    - Gama\n"))
    (tmp_path / "b.yaml").write_text(named("Beta"))
    message = r"line 21: removal\.also_removes names a site that is not defined"
    with pytest.raises(ConfigurationError, match=message):
        directory(tmp_path)
    (tmp_path / "c.yaml").write_text(named("Gama"))
    assert list(directory(tmp_path)) == ["Alpha", "Beta", "Gama"]


def test_the_problems_of_all_files_are_reported_together(tmp_path):
    (tmp_path / "a.yaml").write_text("- a\n")
    (tmp_path / "b.yaml").write_bytes(b"name: x\nguide: \xff\n")
    with pytest.raises(ConfigurationError) as caught:
        directory(tmp_path)
    assert [line.rpartition("/")[2] for line in str(caught.value).splitlines()] == [
        "a.yaml, line 1: is not a mapping of keys to values",
        "b.yaml, line 2: is not UTF-8; save the file as UTF-8",
    ]


def test_a_missing_file_or_directory_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match="is not a directory"):
        directory(tmp_path / "none")
