"""Drafts from the broker files of DuckDuckGo's removal browser: one JSON object with the steps of a scan and an opt-out.

A browser carries out their actions. The service sends requests, so a draft has the search if a URL's query is enough for
it, selectors as CSS, and the opt-out as steps for a person.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from exposurekit.errors import ConfigurationError
from exposurekit.service.sites.drafts import (
    LINE_MAX,
    TO_WRITE,
    Draft,
    Lost,
    Skipped,
    Source,
    manual_definition,
    one_line,
    web_address,
)
from exposurekit.service.sites.selectors import compiles, from_xpath, is_xpath

LICENSE = "Apache-2.0, DuckDuckGo"
_CONFIRM_DAYS_MAX = 365
_MARK_MIN = 8  # characters of a text that shows that nobody is listed
_TEMPLATE = re.compile(r"\$\{([^{}]*)\}")
_SEARCH_FIELDS = {"firstName": "first_name", "middleName": "middle_name", "lastName": "last_name"}
_SEARCH_FIELDS |= {"city": "city", "state": "state"}
_HARMLESS_FILTERS = {"upcase", "downcase", "capitalize"}  # sites ignore the case of a search
# An extracted field, the key of a definition, and whether only the first match counts.
_LISTING_FIELDS = {
    "name": ("name", True),
    "profileUrl": ("reference_id", True),
    "age": ("age", False),
    "relativesList": ("relations", False),
    "alternativeNamesList": ("aliases", False),
    "addressCityState": ("locations", False),
    "addressCityStateList": ("locations", False),
    "addressFull": ("locations", False),
    "addressFullList": ("locations", False),
    "phone": ("phone_numbers", False),
    "phoneList": ("phone_numbers", False),
    "email": ("emails", False),
    "emailList": ("emails", False),
}
# An input of a form: how a person calls it, and the user fields that it needs.
_INPUTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "firstName": ("first name", ("first_name",)),
    "middleName": ("middle name", ()),
    "lastName": ("last name", ("last_name",)),
    "fullName": ("full name", ("first_name", "last_name")),
    "birthYear": ("year of birth", ("birth_date",)),
    "age": ("age", ("birth_date",)),
    "email": ("email address", ("email",)),
    "phone": ("phone number", ("phone_number",)),
    "city": ("city", ("city",)),
    "state": ("state", ("state",)),
    "fullState": ("state", ("state",)),
    "cityState": ("city and state", ("city", "state")),
    "zip": ("ZIP code", ("zip",)),
    "profileUrl": ("address of your listing", ()),
    "verificationCode": ("code from the email", ()),
}
_BY_HAND = {
    "getCaptchaInfo": "Solve the CAPTCHA.",
    "solveCaptcha": "Solve the CAPTCHA.",
    "emailConfirmation": "Open the link in the email that the site sends you.",
    "generateEmail": "Use an email address that you can read.",
    "getEmailData": "Copy the code from the email that the site sends you.",
}
_INVENTED = re.compile(r"\$generated_(\w+)\$")
_QUOTED = re.compile(r"""'([^']+)'|"([^"]+)\"""")
_TEXT_TESTS = re.compile(
    r"""(?:(?:contains|starts-with)\((?:text\(\)|\.),|text\(\)=)\s*(?:'([^']+)'|"([^"]+)")"""
)
_NO_BROWSER = "a scan sends requests and uses no browser"
_REASONS = {
    "mirrorSites": "each site needs a definition of its own",
    "schedulingConfig.retryError": "the service has its own schedule of retries",
    "schedulingConfig.maintenanceScan": "the service has one schedule for all sites",
    "schedulingConfig.maxAttempts": "the service has its own schedule of retries",
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, alias_generator=to_camel)

    def others(self, *ignored: str) -> Iterator[str]:
        """Yield the keys that this importer does not read."""
        for key, value in (self.model_extra or {}).items():
            if value is not None and key not in ignored and not key.startswith("_"):
                yield one_line(key, 60)


class _Extracted(_Part):
    selector: str | None = None
    attribute: str | None = None
    before_text: str | None = None
    after_text: str | None = None
    separator: str | None = None
    identifier: str | None = None
    identifier_type: str | None = None
    find_elements: bool | None = None


class _Element(_Part):
    type: str = ""


class _Expectation(_Part):
    type: str = ""
    selector: str = ""
    expect: str | None = None


class _Action(_Part):
    action_type: str
    url: str = ""
    selector: str | None = None
    no_results_selector: str | None = None
    profile: dict[str, _Extracted | None] = {}
    elements: tuple[_Element, ...] = ()
    expectations: tuple[_Expectation, ...] = ()
    actions: tuple["_Action", ...] = ()


class _Step(_Part):
    step_type: str
    opt_out_type: str | None = None
    scan_type: str | None = None
    actions: tuple[_Action, ...] = ()


class _Scheduling(_Part):
    confirm_opt_out_scan: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class _Broker(_Part):
    name: str = Field(min_length=1)
    url: str
    version: str = ""
    parent: str | None = None
    opt_out_url: str | None = None
    added_datetime: float | None = None
    removed_at: float | None = None
    scheduling_config: _Scheduling = _Scheduling()
    steps: tuple[_Step, ...]


def draft(data: Any, where: str) -> Draft | Skipped:
    """Return the draft of a site, or why the source itself has withdrawn the site.

    Args:
        data: The parsed JSON.
        where: The file's name, for messages and as the source.

    Raises:
        ConfigurationError: The data does not have this format. The message names the first key and no value.
    """
    try:
        broker = _Broker.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False, include_context=False)[0]
        key = one_line(".".join(map(str, details["loc"])), 100) or "the file"
        raise ConfigurationError(f"{where}: {key}: {one_line(details['msg'])}") from None
    if not re.search(r"\w", one_line(broker.name)):
        raise ConfigurationError(f"{where}: name: has no letter")
    if broker.removed_at is not None:
        return Skipped(one_line(broker.name), f"withdrawn by its source{_day(broker.removed_at)}")
    site_url = web_address(broker.url)
    if site_url is None:
        raise ConfigurationError(f"{where}: url: is not the address of a site")
    return _Reader(broker, where, site_url).draft()


def _day(milliseconds: float) -> str:
    try:
        return f" on {datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d}"
    except (OverflowError, ValueError, OSError):
        return ""


class _Reader:
    """Reads one broker; notes each field that the draft cannot have."""

    def __init__(self, broker: _Broker, where: str, site_url: str) -> None:
        self.broker, self.where, self.site_url = broker, where, site_url
        self.lost: dict[str, str] = {}
        self.path_space = "-"

    def draft(self) -> Draft:
        broker = self.broker
        scan = [action for step in broker.steps if step.step_type == "scan" for action in step.actions]
        opt_out = next((step for step in broker.steps if step.step_type == "optOut"), None)
        self._note_others(broker, "")
        self._note_others(broker.scheduling_config, "schedulingConfig.")
        listings, no_results = self._listings(scan)
        search = self._search(scan, no_results)
        procedure, fields = self._opt_out(opt_out)
        days = (broker.scheduling_config.confirm_opt_out_scan or 0) / 24
        definition = manual_definition(
            broker.name,
            guide=f"{broker.name} is a people-search site, {urlsplit(self.site_url).hostname}.",
            procedure=procedure,
            opt_out_url=web_address(broker.opt_out_url or "") or self.site_url,
            search=search,
            listings=listings,
            removal={"user_fields_required": fields} if fields else {},
            verification={"after_days": round(days, 2)} if 0 < days <= _CONFIRM_DAYS_MAX else {},
        )
        origin = f"DuckDuckGo's removal browser, {self.where}, version {broker.version or 'unknown'}"
        added = (
            "" if broker.added_datetime is None else _day(broker.added_datetime).replace(" on", ", added on")
        )
        return Draft(
            definition,
            Source(one_line(origin + added), LICENSE),
            tuple(Lost(key, reason) for key, reason in self.lost.items()),
            host=_host(self.site_url),
            parent=_host(web_address(broker.parent or "") or ""),
        )

    def _lose(self, key: str, reason: str) -> None:
        self.lost.setdefault(key, reason)

    def _note_others(self, part: _Part, path: str, *ignored: str) -> None:
        for key in part.others(*ignored):
            self._lose(path + key, _REASONS.get(path + key, "a definition has no such key"))

    def _search(self, scan: Sequence[_Action], no_results: list[str]) -> dict[str, Any]:
        url, fields, is_complete = self._query(
            next((action.url for action in scan if action.action_type == "navigate"), "")
        )
        blocked: list[str] = []
        for action in scan:
            kind = action.action_type
            if kind in {"navigate", "extract"} and sum(one.action_type == kind for one in scan) > 1:
                self._lose(f"scan.{kind}", "only the first is used")
            if kind == "navigate":
                self._note_others(action, "scan.navigate.", "id", "ageRange")
            elif kind == "expectation":
                blocked += self._blocked(action)
            elif kind != "extract":
                self._lose(f"scan.{one_line(kind, 40)}", _NO_BROWSER)
                is_complete = is_complete and kind == "condition"
        if no_results and not is_complete:
            texts = "; ".join(no_results)
            self._lose(
                "scan.extract.noResultsSelector", f"of no use until search.url is complete; its text: {texts}"
            )
        search: dict[str, Any] = {"url": url}
        search |= {"path_space": self.path_space} if self.path_space != "-" else {}
        search |= {"fields": fields} if fields else {}
        search["no_results"] = no_results if no_results and is_complete else [TO_WRITE]
        return search | ({"blocked": list(dict.fromkeys(blocked))} if blocked else {})

    def _query(self, template: str) -> tuple[str, dict[str, str], bool]:
        """Return the URL, the fields of the query, and whether they are the whole search."""
        try:
            parts = urlsplit(template)
            queries = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=50)
        except ValueError:
            queries, parts = [], urlsplit("")
        url = web_address(urlunsplit(parts._replace(query="", fragment="")))
        if url is None or "$" in parts.netloc or parts.scheme not in {"http", "https"}:
            self._lose("scan.navigate.url", "is not a web address")
            return self.site_url, {}, False
        path = self._path(parts.path)
        is_complete = path is not None
        if path is None:
            self._lose("scan.navigate.url path", "has a field that a search cannot have in its path")
            path = parts.path.partition("${")[0]
        url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        fields = {}
        for name, value in queries:
            field = self._field(value)
            if field is None:
                self._lose(
                    f"scan.navigate.url {one_line(name, 40)}", "a search has no such field of a person"
                )
                is_complete = is_complete and "Name" not in value  # a wider search is complete without an age
            else:
                fields[one_line(name, 60)] = field
        has_name = any("{first_name}" in text or "{last_name}" in text for text in (path, *fields.values()))
        return url, fields, is_complete and has_name

    def _path(self, path: str) -> str | None:
        """Return a path with the service's fields, or None if it has others, or blanks in several forms."""
        parts = _TEMPLATE.split(path)
        spaces = set()
        for at in range(1, len(parts), 2):
            name, *filters = parts[at].split("|")
            has_state_name = name == "state" and "stateFull" in filters
            rest = {*filters} - _HARMLESS_FILTERS - ({"stateFull"} if has_state_name else set())
            if name not in _SEARCH_FIELDS or not rest <= {"hyphenated"}:
                return None
            if name == "city" or has_state_name:  # a name or the code of a state has no blank, mostly
                spaces.add("-" if rest else " ")
            parts[at] = "{state_name}" if has_state_name else f"{{{_SEARCH_FIELDS[name]}}}"
        if len(spaces) > 1 or any(set(text) & {*"{}"} for text in parts[::2]):
            return None
        self.path_space = next(iter(spaces), "-")
        return one_line("".join(parts))

    def _field(self, value: str) -> str | None:
        """Return a template of the service for one of the source, or None if it has other fields."""
        parts = _TEMPLATE.split(value)  # text, expression, text, ...
        for at in range(1, len(parts), 2):
            name, *filters = parts[at].split("|")
            if name not in _SEARCH_FIELDS or not {*filters} <= _HARMLESS_FILTERS:
                return None
            parts[at] = f"{{{_SEARCH_FIELDS[name]}}}"
        parts[::2] = (text.replace("{", "{{").replace("}", "}}") for text in parts[::2])
        return one_line("".join(parts))

    def _blocked(self, action: _Action) -> Iterator[str]:
        """Yield the texts of a challenge that the source waits out."""
        for one in action.expectations:
            marks = [first or second for first, second in _QUOTED.findall(one.selector)]
            if "not(" in one.selector and "challenge" in one.selector:
                yield from (mark for mark in map(one_line, marks) if mark)
            else:
                self._lose("scan.expectation", "a page is read once, as the site sends it")

    def _listings(self, scan: Sequence[_Action]) -> tuple[dict[str, Any], list[str]]:
        action = next((action for action in scan if action.action_type == "extract"), None)
        if action is None:
            self._lose("scan.extract", "the file has none")
            return {"item": TO_WRITE, "name": TO_WRITE, "reference_id": TO_WRITE}, []
        self._note_others(action, "scan.extract.", "id")
        path = "scan.extract.selector"
        listings: dict[str, Any] = {"item": self._css(action.selector, path) or TO_WRITE}
        for key, field in action.profile.items():
            if field is not None:
                self._listing_field(one_line(key, 40), field, listings)
        if reference := listings.get("reference_id"):
            listings["href"] = reference
        order = {"item": TO_WRITE, "name": TO_WRITE, "reference_id": TO_WRITE}
        return order | listings, self._no_results(action.no_results_selector)

    def _listing_field(self, key: str, field: _Extracted, listings: dict[str, Any]) -> None:
        path = f"scan.extract.profile.{key}"
        self._note_others(field, f"{path}.")
        if key not in _LISTING_FIELDS:
            self._lose(path, "listings have no such field")
            return
        name, only_first = _LISTING_FIELDS[key]
        if field.identifier_type == "hash":
            self._lose(f"{path}.identifierType", "listings without a link need a reference of their own")
        css = self._css(field.selector, path, only_first=only_first)
        if css is None:
            return
        if name != "age":  # the service takes the first number of a text
            for cut in ("beforeText", "afterText", "separator"):
                if getattr(field, {"beforeText": "before_text", "afterText": "after_text"}.get(cut, cut)):
                    self._lose(f"{path}.{cut}", "the service reads the whole text of an element")
        attribute = field.attribute or ("href" if name == "reference_id" else "")
        if field.identifier:
            self._lose(f"{path}.identifier", "the whole link is the reference")
        selector = f"{css}@{attribute}" if attribute else css
        if not compiles(selector, "html"):
            self._lose(path, "is not a valid selector")
        elif (
            name in listings and "@" not in listings[name] + selector
        ):  # both: the service uses one of a list
            listings[name] = f"{listings[name]}, {selector}"
        else:
            listings[name] = selector

    def _css(self, selector: str | None, path: str, *, only_first: bool = False) -> str | None:
        if not selector:
            return None
        css = from_xpath(selector, only_first=only_first) if is_xpath(selector) else selector.strip()
        if css is None:
            self._lose(path, "is XPath that CSS cannot say")
        elif len(css) > LINE_MAX or not css.isprintable() or "@" in css or not compiles(css, "html"):
            self._lose(path, "is not a valid selector")
            css = None
        return css

    def _no_results(self, selector: str | None) -> list[str]:
        if not selector:
            return []
        texts = [one_line(first or second) for first, second in _TEXT_TESTS.findall(selector[: 2 * LINE_MAX])]
        # "404" or "Oops" may be on any page, and a person among too many is not absent.
        marks = [text for text in texts if len(text) >= _MARK_MIN and "too many" not in text.lower()]
        if not marks:
            reason = (
                "its text is too short" if any(texts) else "is an element; the service searches for a text"
            )
            self._lose("scan.extract.noResultsSelector", reason)
        return list(dict.fromkeys(marks))

    def _opt_out(self, step: _Step | None) -> tuple[list[str], list[str]]:
        """Return the steps for a person, and the user fields that they need."""
        broker = self.broker
        if step is None or (not step.actions and not broker.parent):
            self._lose("optOut", "the file has no steps")
            return ["Open the opt-out page and follow its steps."], []
        if step.opt_out_type == "parentSiteOptOut" or not step.actions:
            parent = one_line(broker.parent or "its parent site", 100)
            return [f"Opt out at {parent}: that also removes your listing here."], []
        self._lose(
            "optOut.selectors", "the file does not say where the form is sent, so a person fills it in"
        )
        steps: list[str] = []
        fields: list[str] = []
        for action in _flat(step.actions):
            steps += self._step(action)
            for element in action.elements:
                fields += _INPUTS.get(element.type, ("", ()))[1]
        return list(dict.fromkeys(steps)), list(dict.fromkeys(fields))

    def _step(self, action: _Action) -> list[str]:
        steps: list[str] = []
        match action.action_type:
            case "navigate":
                address = web_address(action.url.partition("?")[0].partition("${")[0])
                steps = [f"Open {address}."] if address else []
            case "fillForm":
                steps = [f"Fill in the form: {', '.join(self._input(one.type) for one in action.elements)}."]
            case "click":
                boxes = {"checkbox": "Tick the box."}
                steps = [boxes.get(one.type, "Press the button to continue.") for one in action.elements]
            case "expectation":
                texts = [one_line(one.expect or "") for one in action.expectations if one.type == "text"]
                steps = [f"The page says: {text}" for text in texts if text]
            case "condition":
                self._lose("optOut.condition", "a person sees which page the site shows")
            case kind if kind in _BY_HAND:
                steps = [_BY_HAND[kind]]
            case other:
                self._lose(f"optOut.{one_line(other, 40)}", "is an action that this importer does not know")
        return steps

    def _input(self, kind: str) -> str:
        if invented := _INVENTED.fullmatch(kind):
            self._lose(f"optOut.fillForm.{one_line(kind, 40)}", "the service sends no invented values")
            return one_line(invented[1].replace("_", " "), 40)
        if kind not in _INPUTS:
            self._lose(
                f"optOut.fillForm.{one_line(kind, 40)}", "is an input that this importer does not know"
            )
            return one_line(kind, 40) or "the field"
        return _INPUTS[kind][0]


def _flat(actions: Sequence[_Action]) -> Iterator[_Action]:
    for action in actions:
        yield action
        yield from _flat(action.actions)


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").removeprefix("www.")
