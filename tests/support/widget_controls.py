"""Helpers for tests of widgets: their controls as in a browser, tables, and markup as a browser reads it."""

from contextlib import contextmanager
from html.parser import HTMLParser
from urllib.parse import urlsplit

import ipywidgets
import pandas as pd
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from support.histories import Person, Service, a_link, a_record, an_alert, seen_through

from exposurekit import frames
from exposurekit.history import History
from exposurekit.widgets.data_grid import Grid
from exposurekit.widgets.shortcuts import Keys

TAGS = {
    "section", "article", "p", "strong", "em", "code", "h2", "h3", "ol", "ul", "li", "a", "div", "span", "progress",
    "dl", "dt", "dd", "svg", "path", "polyline",
    "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {
    *(
        "scope",
        "role",
        "class",
        "href",
        "target",
        "rel",
        "open",
        "title",
        "max",
        "value",
        "aria-label",
        "tabindex",
    ),
    *("aria-hidden", "viewbox", "preserveaspectratio", "d", "points"),
}
PERSONAL = ("Fennimoor", "Odalys", "Tall Pines", "https://", "pages.example", "PeepFinder/", "00011")


class Read(HTMLParser):
    """Markup as a browser reads it: its words, its links, and whatever is not allowed."""

    def __init__(self, markup):
        super().__init__(convert_charrefs=True)
        self._texts, self.links, self.foreign = [], [], []
        self.feed(markup)
        self.close()
        self.words = "".join(self._texts)

    def handle_starttag(self, tag, attributes):
        if tag not in TAGS:
            self.foreign.append(tag)
        self.foreign += [name for name, _ in attributes if name not in ATTRIBUTES]
        for name, value in attributes:
            if name == "href":
                self.links.append(value)
                if urlsplit(value).scheme not in ("http", "https"):
                    self.foreign.append(value)

    def handle_data(self, data):
        self._texts.append(data)

    def handle_comment(self, data):
        self.foreign.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def within(widget):
    """A widget and everything in it."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from within(child)


def the(widget, kind, described=""):
    """The one control of a kind whose description is this."""
    # anywidget makes each widget a class of its own, of the same name
    [matching] = [
        one
        for one in within(widget)
        if type(one).__name__ == kind.__name__ and (not described or one.description == described)
    ]
    return matching


def press(widget, described, index=None):
    """Click a button as a browser does; of several with this label, the one at an index."""
    if index is None:
        button = the(widget, ipywidgets.Button, described)
    else:
        button = [one for one in within(widget) if getattr(one, "description", None) == described][index]
    tell(button, {"event": "click"})


def tell(widget, content):
    """Send a message as the browser does."""
    widget._msg_callbacks(widget, content, [])


def strike(widget, key):
    """A key, pressed in the widget."""
    tell(the(widget, Keys), {"key": key})


def grid(widget):
    """The page of rows."""
    return the(widget, Grid)


def _markup(widget):
    return [one.value for one in within(widget) if isinstance(one, ipywidgets.HTML)]


def alerted(widget):
    """The text of the widget's error, empty without one."""
    return " ".join(Read(text).words for text in _markup(widget) if 'role="alert"' in text)


def statuses(widget):
    """The texts of the widget's status lines."""
    return [Read(text).words for text in _markup(widget) if 'role="status"' in text]


def html_of(widget):
    """All markup in the widget except its style."""
    return "".join(text for text in _markup(widget) if not text.startswith("<style>"))


@contextmanager
def published(widget):
    """The outputs of a notebook that displays the widget, as a list that grows."""
    was_initialized, shell = InteractiveShell.initialized(), InteractiveShell.instance()
    publisher, shell.display_pub = shell.display_pub, CapturingDisplayPublisher()
    try:
        widget._ipython_display_()
        yield shell.display_pub.outputs
    finally:
        shell.display_pub = publisher
        if not was_initialized:
            InteractiveShell.clear_instance()


def three_people():
    """Three invented people: records of several statuses, links, and alerts with and without steps."""
    service = Service()
    for user_id in (1, 2, 3):
        records = [
            a_record(10 * user_id + 1, "discovered", "PeepFinder"),
            a_record(10 * user_id + 2, "removed", "Elsewhere", href=None),
            a_record(10 * user_id + 3, "discovered", "Thirdplace", name=f"Odalys Fennimoor {user_id}"),
        ]
        link = a_link(f"https://pages.example/{user_id}")
        alerts = [an_alert("Found", records[0]), an_alert("Seen", link)]
        alerts[1] |= {"opt_out_procedure": []}
        service.people[user_id] = Person(records, [link], alerts)
    return service


def served_exposure():
    """Tables and an exposure of three people."""
    return seen_through(three_people())


def empty(name):
    """A table without rows."""
    return frames.frame(name, [])


def a_history(path, exposure, clock):
    """A history of one run, reopened with the real clock."""
    History(path / "history", clock=clock).collect(exposure, progress=False)
    return History(path / "history")


def records(n):
    """A table of n records, with the columns and dtypes of a loaded one."""
    number = pd.Series(range(n), dtype="int64")
    sites, statuses = [f"Site {one:03}" for one in range(120)], ["discovered", "pending removal", "removed"]
    of = {
        "user_id": number // 20 + 1,
        "record_id": number + 1,
        "site": pd.Categorical.from_codes((number * 7 % len(sites)).to_numpy(), sites),
        "status": pd.Categorical.from_codes((number % 3).to_numpy(), statuses),
        "name": "Odalys Fennimoor " + (number // 20).astype("str"),
        "age": (number % 80).astype("Int16"),
        "href": "https://peepfinder.example/p/" + number.astype("str"),
        "reference_id": "00" + number.astype("str"),
    }
    dtypes, lists = empty("records").dtypes, pd.Series([["Tall Pines, OR"]] * n, dtype=object)
    named = {"site", "status"}
    return pd.DataFrame(
        {
            name: of[name] if name in named else of.get(name, lists).astype(dtype)
            for name, dtype in dtypes.items()
        }
    )
