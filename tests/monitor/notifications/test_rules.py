"""Notification rules: valid files are read, and errors name a line and contain no address."""

import os
import re
from datetime import UTC, datetime

import pytest

from exposurekit.errors import ConfigurationError
from exposurekit.monitor.notifications.rules import CONDITIONS, WEEKDAYS, load_rules, parse_rules

TEXT = """
send_to:
  me: mailto://user:pa55word@example.com
  chat: ${CHAT}
rules:
  - {when: relisted, send: [me, chat], sites: Seekfolk}
  - {when: stuck, days: 30, send: me, digest: true}
  - {when: not_seen, days: 7, send: me, urgent: true, personal: true, users: 12}
  - {when: score, points: 10, send: chat}
  - {when: collection_failed, times: 3, send: me}
digest_at: "07:30"
quiet_hours: {from: "22:00", until: "06:30"}
time_zone: Europe/Berlin
"""
SECRET = "pa55word"
TAGS = ("int ''", "float x", "binary é", "pairs [1]")


@pytest.fixture
def rules():
    return parse_rules(TEXT, {"CHAT": f"slack://{SECRET}"})


def test_rules_are_read_and_show_no_address(rules):
    conditions = [rule.when for rule in rules.rules]
    assert conditions == ["relisted", "stuck", "not_seen", "score", "collection_failed"]
    assert set(CONDITIONS) >= {*conditions}
    assert rules.rules[0].send == ("me", "chat")
    assert rules.rules[0].sites == ("Seekfolk",)
    assert rules.rules[2].users == (12,)
    assert rules.send_to["chat"].get_secret_value() == f"slack://{SECRET}"
    assert SECRET not in repr(rules)
    assert SECRET not in str(rules.model_dump())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the rules: send_to and rules are required"),
        ("send_to: [", "line 1: is not YAML: check its indentation, quotes and brackets"),
        (
            "send_to: {me: 'json://x'}\nrules: {when: new, send: me}",
            "rules: must be a list: begin each rule with '- '",
        ),
        ("send_to: 'json://x'\nrules: [{when: new, send: me}]", "send_to: write name: address"),
        (TEXT.replace("days: 30", "days: x"), "rule 2, days: must be a number"),
        (
            TEXT.replace("times: 3", "days: 3"),
            "collection_failed takes no days: it is for stuck and not_seen",
        ),
        (TEXT.replace("times: 3", "times: x"), "rule 5, times: must be a whole number"),
        (TEXT.replace("send: me, digest", "send: mee, digest"), "does not have: mee; did you mean me?"),
        (TEXT.replace("Europe/Berlin", "Europe/Berln"), "; did you mean Europe/Berlin?"),
        (
            TEXT.replace("digest_at:", "quiet_hours: 22\ndigest_at:").replace("quiet_hours: {", "x: {"),
            "quiet_hours: must have keys and values",
        ),
        ("send_to:\n  me: 'json://x\nrules: []\n", "line 2: is not YAML"),
        ("send_to: {}\nrules: [}\n", "line 2: is not YAML"),
        ("- 1", "send_to and rules are required"),
        (TEXT.replace("when: relisted", "when: sometimes"), "the rules, rule 1, when: it should be 'new', "),
        (TEXT.replace("days: 30, ", ""), "rule 2: stuck needs days"),
        (TEXT.replace("days: 30", "days: -1"), "rule 2, days"),
        (
            TEXT.replace("send: me, digest", "send: you, digest"),
            "rule 2 (stuck): send names an address that send_to does not have: name 1 of it",
        ),
        (TEXT.replace("send: me, digest", f"send: [me, {SECRET}], digest"), "does not have: name 2 of it"),
        (
            TEXT.replace("digest: true", "digest: true, urgent: true"),
            "cannot be both urgent and part of a digest",
        ),
        (TEXT.replace("when: relisted", "when: relist"), "; did you mean relisted?"),
        (TEXT.replace("times: 3", "often: 3"), "rule 5, often: unknown key"),
        (TEXT.replace("times: 3", "time: 3"), "rule 5, time: unknown key; did you mean times?"),
        (
            re.sub(r"quiet_hours: .*", 'quiet_hours: {from: "07:00", until: "07:00"}', TEXT),
            "the rules: quiet_hours: from and until are the same time. Write {from:",
        ),
        (TEXT.replace("until:", "untill:"), "quiet_hours, untill: unknown key; did you mean until?"),
        (TEXT.replace("digest_at:", "digest:"), "digest: unknown key; did you mean digest_at?"),
        (TEXT.replace("times: 3", "users: 3"), "collection_failed cannot be narrowed by users"),
        (TEXT.replace("Europe/Berlin", "Mars/Phobos"), "time zone"),
        (TEXT.replace(', until: "06:30"', ""), "quiet_hours: from and until go together"),
        (
            TEXT.replace('{from: "22:00", until: "06:30"}', "{}"),
            "quiet_hours: needs from and until, or all_day",
        ),
        (
            TEXT.replace('from: "22:00", until: "06:30"', "all_day: sundy"),
            "or 'sunday'; did you mean sunday?",
        ),
        (TEXT.replace('from: "22:00", until: "06:30"', "all_day: 7"), "all_day, 0: it should be 'monday'"),
        (
            TEXT.replace('from: "22:00", until: "06:30"', f"all_day: [{', '.join(WEEKDAYS)}]"),
            "quiet_hours: all_day must leave a day",
        ),
        (TEXT.replace('"22:00"', "late"), 'must look like "22:00"'),
        (TEXT.replace('"22:00"', '"22:00+01:00"'), "without a zone"),
        (TEXT.replace("send: me, digest", f"send: 'slack://{SECRET}', digest"), "rule 2 (stuck)"),
        (TEXT.replace("rules:", f"'slack://{SECRET}': 1\nrules:", 1), "the rules, a key: "),
        (TEXT.replace("chat:", f"'slack://{SECRET}':"), "the rules, send_to: each address needs a name"),
        (TEXT.replace("chat:", f'"a\\nERROR {SECRET}":'), "the rules, send_to: each address needs a name"),
        (TEXT.replace("chat:", f"{SECRET * 6}:"), "the rules, send_to: each address needs a name"),
        (TEXT.replace("${CHAT}", "${MISSING}"), "the environment variable MISSING is not set"),
        ("send_to: {me: 'json://x'}\nrules: []", "no rules: add at least one"),
        ("a: &a [*a]", "line 1: anchors and aliases are not supported"),
        (f"send_to: {{}}\nrules: !!bool '{SECRET}'", "line 2: tags are not supported"),
        (f"send_to: {{me: !!bool 'mailto://u:{SECRET}@h'}}\nrules: []", "line 1: tags are not supported"),
        ("\na: !!timestamp x", "line 2: tags are not supported"),
        *((f"a: !!{tag}", "line 1: tags are not supported") for tag in TAGS),
        (TEXT.replace("users: 12", f"users: 0x{'f' * 5000}"), "line 8: a number is too long"),
        (TEXT.replace("users: 12", f"users: {'1' * 5000}"), "line 8: a number is too long"),
        (TEXT.replace("users: 12", f"users: {'1:' * 5000}1"), "line 8: a number is too long"),
        (TEXT.replace("times: 3", f"sites: [{'a,' * 20_000}]"), "rule 5, sites: "),
        ("send_to: {me: 'json://x'}\nrules:\n" + "- {when: new, send: me}\n" * 300, "the rules, rules: "),
        (TEXT + "rules: []\n", "line 14: a key is repeated"),
        (TEXT.replace("times: 3", f"times: !{SECRET}!x 3"), "line 10: tags are not supported"),
        ("{" + "".join(f"k{n}: 1, " for n in range(50)) + "}", "the rules: 32 more"),
        ("!!python/object/apply:os.system ['x']", "tags are not supported"),
    ],
)
def test_an_error_names_its_rule_or_line(text, message):
    with pytest.raises(ConfigurationError, match="the rules") as rejected:
        parse_rules(text, {"CHAT": f"slack://{SECRET}"})
    error = str(rejected.value)
    assert message in error
    assert SECRET not in error
    assert "\nERROR" not in error


def test_one_error_lists_the_problems_of_all_rules():
    rules = "[{when: relist, send: you}, {when: new, send: [me, him]}, {report: week, send: me, at: 8}, 7, {when: x}]"
    with pytest.raises(ConfigurationError) as rejected:
        parse_rules(f"{{send_to: {{me: 'json://x'}}, rules: {rules}}}")
    lines = str(rejected.value).splitlines()
    assert lines[0].startswith("the rules, rule 1, when: it should be 'new', ")
    assert lines[0].endswith("; did you mean relisted?")
    assert lines[-2] == "the rules: rule 1: send names an address that send_to does not have: name 1 of it"
    assert (
        lines[-1] == "the rules: rule 2 (new): send names an address that send_to does not have: name 2 of it"
    )
    positions = [
        "rule 3, report",
        "rule 3, directory",
        "rule 3, at",
        "rule 4",
        "rule 5, when",
        "rule 5, send",
    ]
    assert [line.split(": ")[0].removeprefix("the rules, ") for line in lines[1:-2]] == positions


def test_a_name_may_have_spaces_and_unicode_characters():
    assert parse_rules("{send_to: {Büro 2-b_c: 'json://x'}, rules: [{when: new, send: Büro 2-b_c}]}").rules


@pytest.mark.parametrize(
    ("at", "digest", "urgent", "due"),
    [
        ("2026-03-02T12:00", False, False, "2026-03-02T12:00"),
        ("2026-03-02T22:30", False, False, "2026-03-03T05:30"),  # 23:30 in Berlin: until 06:30
        ("2026-03-02T03:00", False, False, "2026-03-02T05:30"),
        ("2026-03-02T22:30", False, True, "2026-03-02T22:30"),
        ("2026-03-02T12:00", True, False, "2026-03-03T06:30"),  # the next 07:30
        ("2026-03-28T12:00", True, False, "2026-03-29T05:30"),  # the clocks went forward that night
    ],
)
def test_digests_and_quiet_hours_follow_local_time(rules, at, digest, urgent, due):
    rule = rules.rules[0].model_copy(update={"digest": digest, "urgent": urgent})
    instant = datetime.fromisoformat(at).replace(tzinfo=UTC)
    due_at = rules.due_at(rule, instant)
    assert (due_at if urgent else rules.after_quiet(due_at)).isoformat() == f"{due}:00+00:00"


@pytest.mark.parametrize(
    ("hours", "at", "until"),
    [
        (
            "all_day: [saturday, sunday]",
            "2026-03-06T22:59",
            None,
        ),  # Friday, a minute before midnight in Berlin
        ("all_day: [saturday, sunday]", "2026-03-06T23:00", "2026-03-08T23:00"),
        ("all_day: [saturday, sunday]", "2026-03-08T22:59", "2026-03-08T23:00"),
        ("all_day: sunday", "2026-03-29T10:00", "2026-03-29T22:00"),  # the clocks went forward that night
        ("all_day: sunday", "2026-03-07T10:00", None),
        (
            "from: '22:00', until: '07:00', all_day: [sunday, saturday]",
            "2026-03-06T21:30",
            "2026-03-09T06:00",
        ),
        (
            "from: '22:00', until: '07:00', all_day: [sunday, saturday]",
            "2026-03-08T12:00",
            "2026-03-09T06:00",
        ),
        ("from: '22:00', until: '07:00', all_day: [sunday, saturday]", "2026-03-09T12:00", None),
    ],
)
def test_whole_days_of_the_week_can_be_quiet(hours, at, until):
    rules = parse_rules(
        "{send_to: {me: 'json://x'}, rules: [{when: new, send: me}], time_zone: Europe/Berlin,"
        f" quiet_hours: {{{hours}}}}}"
    )
    instant = datetime.fromisoformat(f"{at}:00+00:00")
    assert rules.after_quiet(instant) == datetime.fromisoformat(f"{until or at}:00+00:00")


def test_quiet_hours_end_correctly_when_an_hour_repeats():
    rules = parse_rules(
        "{send_to: {me: 'json://x'}, rules: [{when: new, send: me}], time_zone: Europe/Berlin,"
        " quiet_hours: {from: '22:00', until: '02:30'}}"
    )
    at = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)  # the second 02:10
    due_at = rules.due_at(rules.rules[0], at)
    assert rules.after_quiet(due_at) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


def test_a_rules_file_must_be_private(tmp_path):
    file = tmp_path / "rules.yaml"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_rules(file)
    file.write_text(TEXT)
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        load_rules(file)
    file.chmod(0o600)
    assert len(load_rules(file, {"CHAT": "json://x"}).rules) == 5


def test_only_regular_files_of_limited_size_are_read(tmp_path):
    file, pipe = tmp_path / "rules.yaml", tmp_path / "pipe"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)  # sparse
    file.chmod(0o600)
    with pytest.raises(ConfigurationError, match="is too large"):
        load_rules(file)
    os.mkfifo(pipe, 0o600)
    for no_file in (pipe, tmp_path):
        with pytest.raises(ConfigurationError, match=r"is not a file|Is a directory"):
            load_rules(no_file)
