"""Opt-out forms of the invented sites, and the checks behind them."""

import string
from collections.abc import Iterator, Mapping
from itertools import product
from urllib.parse import urlsplit

from exposurekit.sandbox.world.asgi import Request, Response, html
from exposurekit.sandbox.world.formats import born_on, digest, folded, roll
from exposurekit.sandbox.world.listings import Entry
from exposurekit.sandbox.world.people import Alias, Person
from exposurekit.sandbox.world.sites import WorldSite
from exposurekit.sandbox.world.state import Mail, WorldState
from exposurekit.sandbox.world.templates import document
from exposurekit.text.sanitize import escaped

REFERENCE = "{reference_id}"
_NOT_OF_PERSON = {REFERENCE, "{href}", "{request_email}"}
CONFIRM = "/opt-out/confirm"
DECLINE_RATE = 0.5  # share of requests that a site without removals refuses openly


def form(world: WorldState, site: WorldSite) -> Response:
    """Answer with the page that has the opt-out form, or the instructions if the site has no form."""
    if not _fields(site):
        return html(document(site, "<p>Print this page, fill it in and send it to us by post.</p>"))
    inputs = [f'<label>{escaped(name)} <input name="{escaped(name)}"></label>' for name in _fields(site)]
    headers: tuple[tuple[str, str], ...] = ()
    if _has_token_field(site):
        session = _session(world, site)
        headers = (("set-cookie", f"session={session}; Path=/; HttpOnly"),)
        inputs.append(f'<input type="hidden" name="token" value="{_token(world, session)}">')
    if _has_captcha(site):
        inputs.append('<img src="/captcha.png" alt=""><label>What it says <input name="captcha"></label>')
    action = escaped(urlsplit(form_url(site)).path)
    body = f'<form method="post" action="{action}">{"".join(inputs)}<button>Send</button></form>'
    page = html(document(site, body), encoding=site.encoding)
    return Response(page.body, page.status, page.kind, headers)


def form_url(site: WorldSite) -> str:
    """Return the URL that the form posts to."""
    return site.definition.removal.url or site.definition.opt_out_url


def submit(world: WorldState, site: WorldSite, request: Request) -> Response:
    """Answer a submitted form: grant the removal, or refuse it with a reason."""
    fields = _fields(site)
    reference = next(
        (request.form.get(name, "") for name, template in fields.items() if template == REFERENCE), ""
    )
    problem = _problem(world, site, request, reference, fields)
    if problem:
        world.ledger.log(site.name, reference, world.now(), accepted=False)
        # Real sites refuse with 200 as well: only the text counts.
        status = 200 if site.definition.removal.method == "form" else 403
        return html(document(site, f"<p>{escaped(problem)}.</p>"), status, encoding=site.encoding)
    if site.trait == "lists anybody":
        world.ledger.log(site.name, reference, world.now(), accepted=True)
    elif site.definition.removal.method == "manual":
        return _send_link(world, site, request, reference)
    elif entry := world.visible_listing(site.name, reference):
        world.ledger.remove(entry, world.now())
    return html(document(site, f"<p>{escaped(_mark(site, 'accepted'))}.</p>"), encoding=site.encoding)


def confirm(world: WorldState, site: WorldSite, request: Request) -> Response:
    """Answer the link from a site's email."""
    reference = request.query.get("reference", "")
    entry = world.visible_listing(site.name, reference)
    if entry is None or request.query.get("key") != digest(world.seed, "confirm", site.name, reference):
        return html(document(site, "<p>This link leads nowhere.</p>"), 404)
    world.ledger.remove(entry, world.now())
    return html(document(site, "<p>Your summary will be gone in a few days.</p>"))


def captcha(world: WorldState, site: str) -> str:
    """Return the solution of a site's captcha today."""
    return digest(world.seed, "captcha", site, world.now().date())[:6]


def is_true_of(template: str, value: str, person: Person) -> bool:
    """Return whether a form's value is true of a person, under any of their names and addresses.

    >>> from exposurekit.sandbox.world.people import invent
    >>> person = invent(1, seed=7)[0]
    >>> is_true_of("{last_name}", person.last_name.upper(), person), is_true_of("{city}", "", person)
    (True, False)
    """
    fields = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    return any(
        all(values[name] for name in fields) and folded(template.format(**values)) == folded(value)
        for values in _true_values(person)
    )


def _true_values(person: Person) -> Iterator[dict[str, str]]:
    born = "" if person.birth_date is None else born_on(person.birth_date).isoformat()
    emails, phones = person.emails or ("",), person.phone_numbers or ("",)
    names: list[Person | Alias] = [person, *person.aliases]
    for name, home, email, phone in product(names, person.addresses, emails, phones):
        yield {
            "first_name": name.first_name,
            "middle_name": person.middle_name or "",
            "last_name": name.last_name,
            "birth_date": born,
            "email": email,
            "phone_number": phone,
            **{part: value or "" for part, value in vars(home).items()},
        }


def _fields(site: WorldSite) -> Mapping[str, str]:
    """The form's fields and their templates; empty for a site without a form."""
    if site.definition.removal.method == "form":
        return site.definition.removal.fields
    if not _has_captcha(site):
        return {}
    return {"reference": REFERENCE} | {
        name: f"{{{name}}}" for name in site.definition.removal.user_fields_required
    }


def _has_token_field(site: WorldSite) -> bool:
    return site.definition.removal.page is not None


def _has_captcha(site: WorldSite) -> bool:
    return "email" in site.definition.removal.user_fields_required


def _problem(
    world: WorldState, site: WorldSite, request: Request, reference: str, fields: Mapping[str, str]
) -> str | None:
    if not fields:
        return "We answer letters only"
    if _has_token_field(site) and not _is_token_valid(world, site, request):
        return _mark(site, "refused", -1)
    if _has_captcha(site) and request.form.get("captcha") != captcha(world, site.name):
        return "The picture says something else"
    refused = _mark(site, "refused") or "This summary is somebody else's"
    if site.trait == "lists anybody":
        return None if request.form.get("name", "").strip() else refused
    entry = world.visible_listing(site.name, reference)
    if entry is None or not is_theirs(entry, request, fields):
        return refused
    declined = site.removal == "never" and roll(world.seed, "declines", reference) < DECLINE_RATE
    return refused if declined else None


def is_theirs(entry: Entry, request: Request, fields: Mapping[str, str]) -> bool:
    """Return whether what a form says of a listing's person is true."""
    owner = entry.owner
    return owner is not None and all(
        is_true_of(template, request.form.get(name, ""), owner)
        for name, template in fields.items()
        if template not in _NOT_OF_PERSON
    )


def _send_link(world: WorldState, site: WorldSite, request: Request, reference: str) -> Response:
    key = digest(world.seed, "confirm", site.name, reference)
    url = f"http://{site.host}{CONFIRM}?reference={reference}&key={key}"
    world.mailbox.append(Mail(site.name, request.form["email"], url))
    return html(document(site, "<p>We have sent you a link. Nothing happens until you open it.</p>"))


def _session(world: WorldState, site: WorldSite) -> str:
    return digest(world.seed, "session", site.name, world.now().date())


def _token(world: WorldState, session: str) -> str:
    return digest(world.seed, "token", session)


def _is_token_valid(world: WorldState, site: WorldSite, request: Request) -> bool:
    session = _session(world, site)
    return request.cookies.get("session") == session and request.form.get("token") == _token(world, session)


def _mark(site: WorldSite, kind: str, which: int = 0) -> str:
    marks: tuple[str, ...] = getattr(site.definition.removal, kind)
    return marks[which] if marks else ""
