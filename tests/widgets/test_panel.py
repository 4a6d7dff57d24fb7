"""All widgets: errors are displayed, a static version has the same content, and text from outside is no markup."""

import inspect

import ipywidgets
import pandas as pd
import pytest
from support import widget_controls as kit
from support.histories import Clock, Service, seen_through
from support.hostile_demo import hostile
from support.hostile_texts import PAYLOADS

from exposurekit import widgets
from exposurekit.errors import ConfigurationError, ConnectionFailed, InvalidArgument
from exposurekit.history import History
from exposurekit.text.html_cards import stylesheet
from exposurekit.widgets import (
    ConnectionPanel,
    Dashboard,
    Explorer,
    OptOutChecklist,
    Panel,
    RecordLabels,
    static_html,
)
from exposurekit.widgets.shortcuts import Keys

NAMES = [name for name in widgets.__all__ if name != "Panel"]
FACTORIES = {
    "ConnectionPanel": ConnectionPanel,
    "Dashboard": Dashboard,
    "Explorer": lambda exposure, _: Explorer(exposure.records(), name="records"),
    "OptOutChecklist": lambda exposure, history: OptOutChecklist(exposure.alerts(), history),
    "RecordLabels": lambda exposure, history: RecordLabels(exposure.records(), history),
}


@pytest.fixture(scope="module")
def sources(exposure, collected):
    return exposure, collected


@pytest.fixture(scope="module", params=NAMES)
def widget(request, sources):
    return FACTORIES[request.param](*sources)


def test_unknown_keyword_raises_error():
    for name in NAMES:
        kind = getattr(widgets, name)
        arguments = [Clock()] * (1 if name == "Explorer" else 2)
        with pytest.raises(TypeError, match="unexpected keyword argument 'sites_shown'"):
            kind(*arguments, sites_shown=True)
        assert not any(one.kind is one.VAR_KEYWORD for one in inspect.signature(kind).parameters.values())


def test_line_and_repr_contain_nothing_personal(widget, exposure):
    line = widget.line()
    assert repr(widget) == line
    assert "\n" not in line
    for personal in (*exposure.records()["name"].dropna().unique(), *kit.PERSONAL):
        assert personal not in line.replace(exposure.origin, "")
    assert "secret" not in line


def test_static_version_has_the_content_of_the_widget(widget):
    assert repr(widget).partition(": ")[2].split(";")[0].split(",")[0] in kit.Read(widget.to_html()).words
    assert widget._repr_html_() == f"<style>{stylesheet()}</style>{widget.to_html()}"


def test_notebook_receives_the_widget_and_a_current_static_version(sources):
    labels = FACTORIES["RecordLabels"](*sources)
    with kit.published(labels) as outputs:
        assert [{*one["data"]} for one in outputs] == [
            {"text/plain", "application/vnd.jupyter.widget-view+json"},
            {"text/html"},
        ]
        display = outputs[1]["transient"]["display_id"]
        kit.strike(labels, "j")
        assert len(outputs) == 3
        assert (outputs[2]["update"], outputs[2]["transient"]["display_id"]) == (True, display)
        assert labels.to_html() in outputs[2]["data"]["text/html"]
        assert f".{display}" in outputs[1]["data"]["text/html"]  # hidden where the live one is


def test_widget_that_is_not_displayed_publishes_nothing(sources):
    other = FACTORIES["RecordLabels"](*sources)
    with kit.published(ConnectionPanel(*sources)) as outputs:
        kit.strike(other, "j")
        assert len(outputs) == 2


class Failing(Panel):
    """A widget whose button or static version fails."""

    def __init__(self, error=None):
        button = ipywidgets.Button(description="Fail")
        button.on_click(self.callback(self._fail))
        self.button_error, self.static_error = error, None
        super().__init__([button])

    def _fail(self, _):
        if self.button_error is not None:
            raise self.button_error

    def line(self):
        return "Failing"

    def to_html(self):
        if self.static_error is not None:
            raise self.static_error
        return "<p>Failing</p>"


def test_expected_error_is_displayed_until_the_next_result():
    failing = Failing(ConfigurationError("Give a <b>day</b>"))
    kit.press(failing, "Fail")
    assert kit.alerted(failing) == "Give a <b>day</b>"
    assert kit.Read(kit.html_of(failing)).foreign == []
    assert failing.error is failing.button_error
    failing.button_error = None
    kit.press(failing, "Fail")
    assert (failing.error, kit.alerted(failing)) == (None, "")


@pytest.mark.parametrize("kind", [ValueError, KeyError, RuntimeError])
def test_unexpected_error_is_displayed_without_its_message(kind):
    failing = Failing(kind("no such person: Odalys Fennimoor"))
    kit.press(failing, "Fail")
    assert kit.alerted(failing) == f"{kind.__name__}: see the widget's .error"
    assert failing.error is failing.button_error
    assert "Fennimoor" not in repr([one.get_state() for one in kit.within(failing)])


def test_error_of_the_static_version_is_displayed():
    failing = Failing()
    with kit.published(failing):
        failing.static_error = ConfigurationError("There is no such day")
        kit.press(failing, "Fail")
    assert kit.alerted(failing) == "There is no such day"
    assert failing.error is failing.static_error


def test_only_declared_keys_have_an_effect():
    pressed = []
    keys = Keys({"a": "add", "b": "go\nback"}, pressed.append)
    assert (keys.actions, keys.keys_used) == ([["a", "add"], ["b", "go back"]], ["a", "b"])
    for content in ({"key": "b"}, {"key": "c"}, {"key": ["a"]}, {"key": None}, {}, "a", None, [1]):
        kit.tell(keys, content)
    assert pressed == ["b"]


@pytest.fixture(scope="module")
def hostile_sources(tmp_path_factory):
    """An exposure and a history in which all texts are hostile, also those of notes and labels."""
    service = Service()
    service.people = {number: hostile(number, payload) for number, payload in enumerate(PAYLOADS, 1)}
    with seen_through(service) as exposure:
        history = kit.a_history(tmp_path_factory.mktemp("hostile"), exposure, Clock())
        records, steps = exposure.records(), exposure.steps()
        notes = [" ".join(PAYLOADS[begin : begin + 9]) for begin in range(0, len(PAYLOADS), 9)]
        for index, note in enumerate(notes):  # each is a write
            history.label(records.iloc[index], "unsure", reason=note)
            history.tick(steps.iloc[index], "done", note=note)
        yield exposure, history


def all_pages(widget):
    """All markup of a widget, page by page, and of its static version."""
    pages = [kit.html_of(widget), widget.to_html()]
    steps = {"OptOutChecklist": 2 * len(PAYLOADS), "RecordLabels": len(PAYLOADS)}
    for _ in range(steps.get(type(widget).__name__, 0)):
        widget.step(1)
        pages.append(kit.html_of(widget))
    return "".join(pages)


@pytest.mark.parametrize("name", NAMES)
def test_no_hostile_text_is_markup(hostile_sources, name):
    widget = FACTORIES[name](*hostile_sources)
    read = kit.Read(all_pages(widget))
    assert read.words
    assert read.foreign == []
    assert not any(control in repr(widget) for control in (chr(27), chr(0), "\u202e"))
    if name == "OptOutChecklist":  # the texts do reach the widgets
        assert read.words.count("window.ran=1") > 100
        assert len(read.links) > 3


def test_hostile_texts_are_no_markup_in_static_tables():
    for payload in PAYLOADS:
        table = pd.DataFrame({payload: [payload], "texts": [[payload]], "href": [payload]})
        steps = static_html.steps([payload], [payload], [payload])
        read = kit.Read(static_html.table(table, caption=payload, links=["href"]) + steps)
        assert read.foreign == [], payload


@pytest.mark.parametrize(
    "markup",
    [
        "<p onclick=x>a</p>",
        "<img src=x>",
        "<a href='javascript:x'>a</a>",
        "<!--x-->",
        "<a href='//x.example'>a</a>",
    ],
)
def test_check_for_hostile_markup_can_fail(markup):
    assert kit.Read(f"<p>{markup}</p>").foreign


def test_static_table_states_how_many_rows_are_left_out():
    markup = static_html.table(kit.records(25), caption="records")
    assert "records (rows 1 to 20 of 25)" in markup
    assert markup.count("<tr>") == 21
    assert "rows 1" not in static_html.table(kit.records(20), caption="records")


def test_panel_names_its_connection_and_no_secret(sources):
    panel = ConnectionPanel(*sources)
    assert sources[0].provenance in repr(panel)
    assert "history: 1 runs" in repr(panel)
    assert "All users were loaded." in kit.html_of(panel)
    state = repr([one.get_state() for one in kit.within(panel)])
    assert not any(secret in state for secret in ("api_secret", "secret-1", "'key'"))


def test_reload_displays_issues_and_preserves_rows():
    service = kit.three_people()
    with seen_through(service) as exposure:
        panel = ConnectionPanel(exposure)
        service.broken[2] = "no user"
        kit.press(panel, "Load again")
        assert panel.error is None
        assert "Not loaded" in kit.html_of(panel)
        assert "Get user" in kit.Read(kit.html_of(panel)).words
        service.listing = False
        kit.press(panel, "Load again")
        assert panel.error is not None
        assert kit.alerted(panel) == str(panel.error)
        assert "Not loaded" in panel.to_html()


def test_panel_of_a_history_alone_cannot_reload(collected, tmp_path):
    panel = ConnectionPanel(history=collected)
    assert kit.the(panel, ipywidgets.Button, "Load again").disabled
    assert repr(ConnectionPanel(history=History(tmp_path / "nothing"))) == "ConnectionPanel: history: empty"


def test_panel_without_a_source_or_server_raises_error():
    with pytest.raises(InvalidArgument, match="Give an exposure"):
        ConnectionPanel()
    with kit.served_exposure() as exposure:
        pass
    with pytest.raises(ConnectionFailed):
        ConnectionPanel(exposure)


def test_static_tables_align_numbers_to_the_right():
    table = pd.DataFrame({"site": ["Seekfolk"], "open": [1_234], "is_open": [True], "share": [0.5]})
    markup = static_html.table(table, caption="records")
    assert '<td class="number">1,234</td>' in markup
    assert markup.count('class="number"') == 4  # two heads and two cells
