"""What every widget holds to: errors are seen, a static twin says the same, and no text from outside is markup."""

import inspect

import ipywidgets
import pandas as pd
import pytest
from support import controls as kit
from support.histories import Clock, Person, Service, a_link, a_record, an_alert, seen_through
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


def opened(name, exposure, history):
    """A widget of a kind."""
    factories = {
        "ConnectionPanel": lambda: ConnectionPanel(exposure, history),
        "Dashboard": lambda: Dashboard(exposure, history),
        "Explorer": lambda: Explorer(exposure.records(), name="records"),
        "OptOutChecklist": lambda: OptOutChecklist(exposure.alerts(), history),
        "RecordLabels": lambda: RecordLabels(exposure.records(), history),
    }
    return factories[name]()


@pytest.fixture(scope="module")
def looked(tmp_path_factory):
    """An exposure of three people, and a history of it."""
    with kit.served_exposure() as exposure:
        yield exposure, kit.a_history(tmp_path_factory.mktemp("looked"), exposure, Clock())


def hostile(number, payload):
    """Somebody of whom every text is hostile."""
    texts = [payload]
    record = a_record(
        number,
        payload if number % 2 else "discovered",
        payload,
        name=payload,
        href=payload,
        relations=texts,
        aliases=texts,
        locations=texts,
        user_fields_required_for_removal=texts,
        reference_id=payload,
    )
    link = a_link(payload, payload) | {"contains": texts}
    more = {"html": payload, "url": payload, "guide": payload, "opt_out_procedure": [payload, payload]}
    return Person([record], [link], [an_alert(payload, source) | more for source in (record, link)])


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """The same where all texts are hostile, and some are noted and labelled as well."""
    service = Service()
    for number, payload in enumerate(PAYLOADS, 1):
        service.people[number] = hostile(number, payload)
    with seen_through(service) as exposure:
        history = kit.a_history(tmp_path_factory.mktemp("attacked"), exposure, Clock())
        for index, payload in enumerate(PAYLOADS):
            history.label(exposure.records().iloc[index], "unsure", reason=payload)
            history.tick(exposure.steps().iloc[index], "done", note=payload)
        yield exposure, history


@pytest.fixture(params=NAMES)
def opened_widget(request, looked):
    return opened(request.param, *looked)


# --- as values ----------------------------------------------------------------------------------------


def test_an_unknown_keyword_is_an_error(looked):
    for name in NAMES:
        kind = getattr(widgets, name)
        arguments = [Clock()] * (1 if name == "Explorer" else 2)
        with pytest.raises(TypeError, match="unexpected keyword argument 'sites_shown'"):
            kind(*arguments, sites_shown=True)
        assert not any(one.kind is one.VAR_KEYWORD for one in inspect.signature(kind).parameters.values())


def test_a_line_and_a_repr_hold_nothing_personal(opened_widget, looked):
    people = looked[0].records()["name"].dropna().unique()
    line = opened_widget.line()
    assert repr(opened_widget) == line
    assert "\n" not in line
    service = looked[0].origin
    for personal in [*people, *kit.PERSONAL]:
        assert personal not in line.replace(service, "")
    assert "secret" not in line


def test_the_twin_says_what_is_live(looked):
    for name in NAMES:
        widget = opened(name, *looked)
        assert repr(widget).partition(": ")[2].split(";")[0].split(",")[0] in kit.Read(widget.to_html()).words
        assert widget._repr_html_() == f"<style>{stylesheet()}</style>{widget.to_html()}"


def test_a_notebook_gets_the_widget_and_a_current_static_version(looked):
    labels = RecordLabels(looked[0].records(), looked[1])
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


def test_what_was_never_displayed_publishes_nothing(looked):
    other = RecordLabels(looked[0].records(), looked[1])
    with kit.published(ConnectionPanel(*looked)) as outputs:
        kit.strike(other, "j")
        assert len(outputs) == 2


# --- errors -------------------------------------------------------------------------------------------


class Failing(Panel):
    """A widget of which a button fails as it is told."""

    def __init__(self, error):
        button = ipywidgets.Button(description="Fail")
        button.on_click(self.callback(self._fail))
        self.fails, self.twin_fails = error, None
        super().__init__([button])

    def _fail(self, _):
        if self.fails is not None:
            raise self.fails

    def line(self):
        return "Failing"

    def to_html(self):
        if self.twin_fails is not None:
            raise self.twin_fails
        return "<p>Failing</p>"


def test_a_known_error_shows_its_message_until_the_next_result():
    failing = Failing(ConfigurationError("Give a <b>day</b>"))
    kit.press(failing, "Fail")
    assert kit.alerted(failing) == "Give a <b>day</b>"
    assert kit.Read(kit.html_of(failing)).foreign == []
    assert failing.error is failing.fails
    failing.fails = None
    kit.press(failing, "Fail")
    assert (failing.error, kit.alerted(failing)) == (None, "")


@pytest.mark.parametrize("kind", [ValueError, KeyError, RuntimeError])
def test_an_unknown_error_is_told_without_its_words(kind):
    failing = Failing(kind("no such person: Odalys Fennimoor"))
    kit.press(failing, "Fail")
    assert kit.alerted(failing) == f"{kind.__name__}: see the widget's .error"
    assert failing.error is failing.fails
    assert "Fennimoor" not in repr([one.get_state() for one in kit.within(failing)])


def test_a_twin_that_fails_is_told_too():
    failing = Failing(None)
    with kit.published(failing):
        failing.twin_fails = ConfigurationError("There is no such day")
        kit.press(failing, "Fail")
    assert kit.alerted(failing) == "There is no such day"
    assert failing.error is failing.twin_fails


# --- keys ---------------------------------------------------------------------------------------------


def test_only_the_keys_that_are_told_are_heard():
    pressed = []
    keys = Keys({"a": "add", "b": "go\nback"}, pressed.append)
    assert (keys.actions, keys.keys_used) == ([["a", "add"], ["b", "go back"]], ["a", "b"])
    for content in ({"key": "b"}, {"key": "c"}, {"key": ["a"]}, {"key": None}, {}, "a", None, [1]):
        kit.tell(keys, content)
    assert pressed == ["b"]


# --- hostile texts ------------------------------------------------------------------------------------


def turned(widget):
    """All markup that a widget shows, page by page, live and as a twin."""
    pages = []
    for _ in range(2 * len(PAYLOADS) if hasattr(widget, "step") else 1):
        pages += [kit.html_of(widget), widget.to_html() if not pages else ""]
        if hasattr(widget, "step"):
            widget.step(1)
    return "".join(pages)


@pytest.mark.parametrize("name", NAMES)
def test_no_hostile_text_is_markup(attacked, name):
    widget = opened(name, *attacked)
    read = kit.Read(turned(widget))
    assert read.words
    assert read.foreign == []
    control = chr(27), chr(0), "\u202e"
    assert not any(one in repr(widget) for one in control)


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_each_hostile_text_is_text_in_a_twin(attacked, payload):
    table = pd.DataFrame({payload: [payload], "texts": [[payload]], "href": [payload]})
    read = kit.Read(
        static_html.table(table, caption=payload, links=["href"])
        + static_html.steps([payload], [payload], [payload])
    )
    assert read.foreign == []


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
def test_the_control_of_hostile_texts_can_fail(markup):
    assert kit.Read(f"<p>{markup}</p>").foreign


def test_hostile_texts_do_reach_the_widgets(attacked):
    read = kit.Read(turned(opened("OptOutChecklist", *attacked)))
    assert read.words.count("window.ran=1") > 100
    assert len(read.links) > 3


# --- twins --------------------------------------------------------------------------------------------


def test_a_table_says_how_many_rows_are_not_shown():
    markup = static_html.table(kit.records(25), caption="records")
    assert "records (rows 1 to 20 of 25)" in markup
    assert markup.count("<tr>") == 21
    assert "rows 1" not in static_html.table(kit.records(20), caption="records")


# --- connection ---------------------------------------------------------------------------------------


def test_the_panel_says_what_it_is_connected_to(looked):
    panel = ConnectionPanel(*looked)
    assert looked[0].provenance in repr(panel)
    assert "history: 1 runs" in repr(panel)
    assert "All users were loaded." in kit.html_of(panel)
    state = repr([one.get_state() for one in kit.within(panel)])
    for secret in ("api_secret", "secret-1", "'key'"):
        assert secret not in state


def test_a_reload_shows_load_issues_and_keeps_earlier_rows():
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


def test_a_history_alone_has_nothing_to_look_at_again(looked, tmp_path):
    panel = ConnectionPanel(history=looked[1])
    assert kit.the(panel, ipywidgets.Button, "Load again").disabled
    assert repr(ConnectionPanel(history=History(tmp_path / "nothing"))) == "ConnectionPanel: history: empty"


def test_neither_is_refused():
    with pytest.raises(InvalidArgument, match="Give an exposure"):
        ConnectionPanel()


def test_a_service_that_is_not_there_is_told_at_once():
    with kit.served_exposure() as exposure:
        pass
    with pytest.raises(ConnectionFailed):
        ConnectionPanel(exposure)
