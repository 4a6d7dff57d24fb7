"""The opt-out forms of the make-believe sites, and what they check. Grants nothing to whom the listing is not about."""

import string
from collections.abc import Iterator, Mapping
from itertools import product
from urllib.parse import urlsplit

from exposurekit.sandbox.world.asgi import Request, Response, html
from exposurekit.sandbox.world.formats import born_on, digest, folded, roll
from exposurekit.sandbox.world.listings import Entry
from exposurekit.sandbox.world.people import Person
from exposurekit.sandbox.world.sites import WorldSite
from exposurekit.sandbox.world.state import Mail, WorldState
from exposurekit.sandbox.world.templates import document
from exposurekit.text.sanitize import escaped

REFERENCE = "{reference_id}"
CONFIRM = "/opt-out/confirm"
DECLINES = 0.5  # the share of requests that a site which removes nobody refuses openly


def form(ground: WorldState, site: WorldSite) -> Response:
    """The page with the opt-out form, or with the steps where there is none to send."""
    if not _fields(site):
        return html(document(site, "<p>Print this page, fill it in and send it to us by post.</p>"))
    inputs = [f'<label>{escaped(name)} <input name="{escaped(name)}"></label>' for name in _fields(site)]
    headers: tuple[tuple[str, str], ...] = ()
    if _wants_token(site):
        session = _session(ground, site)
        headers = (("set-cookie", f"session={session}; Path=/; HttpOnly"),)
        inputs.append(f'<input type="hidden" name="token" value="{_token(ground, session)}">')
    if _wants_captcha(site):
        inputs.append('<img src="/captcha.png" alt=""><label>What it says <input name="captcha"></label>')
    action = escaped(urlsplit(sent_to(site)).path)
    body = f'<form method="post" action="{action}">{"".join(inputs)}<button>Send</button></form>'
    page = html(document(site, body), encoding=site.encoding)
    return Response(page.body, page.status, page.kind, headers)


def sent_to(site: WorldSite) -> str:
    """Where the form goes."""
    return site.definition.removal.url or site.opt_out_url


def submit(ground: WorldState, site: WorldSite, asked: Request) -> Response:
    """A form that was sent: granted, or refused with a reason."""
    fields = _fields(site)
    reference = next(
        (asked.form.get(name, "") for name, template in fields.items() if template == REFERENCE), ""
    )
    problem = _problem(ground, site, asked, reference, fields)
    if problem:
        ground.ledger.note(site.name, reference, ground.now(), accepted=False)
        # Real sites say no with 200 as well: what counts is the text.
        status = 200 if site.definition.removal.method == "form" else 403
        return html(document(site, f"<p>{escaped(problem)}.</p>"), status, encoding=site.encoding)
    if site.trait == "lists anybody":
        ground.ledger.note(site.name, reference, ground.now(), accepted=True)
    elif site.definition.removal.method == "manual":
        return _mailed(ground, site, asked, reference)
    elif entry := ground.there(site.name, reference):
        ground.ledger.leave(entry, ground.now())
    return html(document(site, f"<p>{escaped(_mark(site, 'accepted'))}.</p>"), encoding=site.encoding)


def confirm(ground: WorldState, site: WorldSite, asked: Request) -> Response:
    """The link in a site's e-mail was opened."""
    reference = asked.query.get("reference", "")
    entry = ground.there(site.name, reference)
    if entry is None or asked.query.get("key") != digest(ground.seed, "confirm", site.name, reference):
        return html(document(site, "<p>This link leads nowhere.</p>"), 404)
    ground.ledger.leave(entry, ground.now())
    return html(document(site, "<p>Your summary will be gone in a few days.</p>"))


def captcha(ground: WorldState, site: WorldSite) -> str:
    """What a human reads in today's picture."""
    return digest(ground.seed, "captcha", site.name, ground.now().date())[:6]


def fits(template: str, value: str, person: Person) -> bool:
    """Whether what a form was told is true of somebody, under any of their names and addresses.

    >>> from exposurekit.sandbox.world.people import invent
    >>> person = invent(1, seed=7)[0]
    >>> fits("{first_name} {last_name}", f"{person.first_name} {person.last_name}".upper(), person)
    True
    >>> fits("{city}", "Nowhere", person), fits("{city}", "", person)
    (False, False)
    """
    wanted = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    return any(
        all(values[name] for name in wanted) and folded(template.format(**values)) == folded(value)
        for values in _true_of(person)
    )


def _true_of(person: Person) -> Iterator[dict[str, str]]:
    names = [(person.first_name, person.last_name)]
    names += [(alias.first_name, alias.last_name) for alias in person.aliases]
    born = "" if person.birth_date is None else born_on(person.birth_date).isoformat()
    emails, phones = person.emails or ("",), person.phone_numbers or ("",)
    for (first, last), home, email, phone in product(names, person.addresses, emails, phones):
        yield {
            "first_name": first,
            "middle_name": person.middle_name or "",
            "last_name": last,
            "birth_date": born,
            "email": email,
            "phone_number": phone,
            "address1": home.address1,
            "address2": home.address2 or "",
            "city": home.city,
            "state": home.state,
            "zip": home.zip,
        }


def _fields(site: WorldSite) -> Mapping[str, str]:
    """The form's fields and what each is asked for; none where there is no form."""
    if site.definition.removal.method == "form":
        return site.definition.removal.fields
    if not _wants_captcha(site):
        return {}
    return {"reference": REFERENCE} | {name: f"{{{name}}}" for name in site.user_fields_required_for_removal}


def _wants_token(site: WorldSite) -> bool:
    return site.definition.removal.page is not None


def _wants_captcha(site: WorldSite) -> bool:
    return "email" in site.user_fields_required_for_removal


def _problem(
    ground: WorldState, site: WorldSite, asked: Request, reference: str, fields: Mapping[str, str]
) -> str | None:
    """Why a request is refused; None where it is not."""
    if not fields:
        return "We answer letters only"
    if _wants_token(site) and not _has_token(ground, site, asked):
        return _mark(site, "refused", -1)
    if _wants_captcha(site) and asked.form.get("captcha") != captcha(ground, site):
        return "The picture says something else"
    refused = _mark(site, "refused") or "This summary is somebody else's"
    if site.trait == "lists anybody":
        return None if asked.form.get("name", "").strip() else refused
    entry = ground.there(site.name, reference)
    if entry is None or not _is_theirs(entry, asked, fields):
        return refused
    declined = site.removal == "never" and roll(ground.seed, "declines", reference) < DECLINES
    return refused if declined else None


def _is_theirs(entry: Entry, asked: Request, fields: Mapping[str, str]) -> bool:
    owner = entry.owner
    return owner is not None and all(
        fits(template, asked.form.get(name, ""), owner)
        for name, template in fields.items()
        if template != REFERENCE
    )


def _mailed(ground: WorldState, site: WorldSite, asked: Request, reference: str) -> Response:
    key = digest(ground.seed, "confirm", site.name, reference)
    url = f"http://{site.host}{CONFIRM}?reference={reference}&key={key}"
    ground.mailbox.append(Mail(site.name, asked.form["email"], url))
    return html(document(site, "<p>We have sent you a link. Nothing happens until you open it.</p>"))


def _session(ground: WorldState, site: WorldSite) -> str:
    return digest(ground.seed, "session", site.name, ground.now().date())


def _token(ground: WorldState, session: str) -> str:
    return digest(ground.seed, "token", session)


def _has_token(ground: WorldState, site: WorldSite, asked: Request) -> bool:
    session = _session(ground, site)
    return asked.cookies.get("session") == session and asked.form.get("token") == _token(ground, session)


def _mark(site: WorldSite, kind: str, which: int = 0) -> str:
    marks: tuple[str, ...] = getattr(site.definition.removal, kind)
    return marks[which] if marks else ""
