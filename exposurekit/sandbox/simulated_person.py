"""A simulated person with some minutes a day, who does what the service leaves to a person in the guarded web.

They save searches behind bot checks, send assisted opt-outs, decide on candidates, and mend definitions after a redesign,
with the functions behind the `users` commands and `sites mend`. The minutes are assumptions.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from exposurekit.sandbox.backend import Backend
from exposurekit.sandbox.world.guarded_sites import RECEIVED, SENT_MAIL, GuardedSite
from exposurekit.sandbox.world.namesakes import COMMON_NAME
from exposurekit.sandbox.world.search_pages import GONE
from exposurekit.sandbox.world.world import World
from exposurekit.service.accounts import users
from exposurekit.service.accounts.subject import Name, Subject
from exposurekit.service.audit import Action, append
from exposurekit.service.findings import candidates
from exposurekit.service.matching.name_matching import names_fit
from exposurekit.service.models import Listing, Site
from exposurekit.service.scanning import assisted_opt_outs, extraction, mending, saved_pages, search_queue
from exposurekit.service.scanning.assisted_opt_outs import AssistedOptOut
from exposurekit.service.scanning.extraction import LISTS, PageResult
from exposurekit.service.scanning.listed_person import PEOPLE_MAX, ListedPerson
from exposurekit.service.scanning.saved_pages import SavedPage, UnusablePage
from exposurekit.service.scanning.search_queue import QueueEntry
from exposurekit.service.sites import loader, statistics
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage.database import Session
from exposurekit.text import plain_yaml

MINUTES_A_DAY = 60.0
PAGE_MINUTES, CANDIDATE_MINUTES, MEND_MINUTES = 0.4, 0.3, 8.0
SEARCH_AGAIN = timedelta(days=35)  # a search that verifies nothing
FAILURES_MAX = 2  # after this many failures they give up on an opt-out
INVENTED = ("Braithe", "Quonsettle")  # whom no site lists
MEND_AGAIN = timedelta(days=7)  # after a refusal: by then others are listed
_PAGES_MAX = 20
_ROWS_MAX = 5_000


class SimulatedPerson:
    """A person who works at most some minutes a day.

    Attributes:
        minutes: What each kind of work took: ``searches``, ``opt-outs``, ``candidates``, ``mending``.
        opt_outs: How many forms they sent, by user and site.
        checked: How many listings they opened before a form, by site.
        unsuccessful: The records whose opt-outs failed too often.
        refused: Why `sites mend` proposed nothing, and how often.
    """

    def __init__(self, backend: Backend, world: World, *, minutes_a_day: float = MINUTES_A_DAY) -> None:
        if world.guards is None:
            raise ValueError("an open web leaves nothing to a person")
        self._backend, self._world, self._guards = backend, world, world.guards
        self._minutes_a_day, self._left = minutes_a_day, 0.0
        self._works_again_at = backend.now()
        self._to_mend: set[str] = set()
        self._gone: set[tuple[int, str]] = set()  # users and sites of listings that they did not see any more
        self._scans_in_vain: dict[str, int] = {}  # before they mended the site's definition
        self._refused_at: dict[str, datetime] = {}
        self.minutes: dict[str, float] = defaultdict(float)
        self.pages = 0
        self.opt_outs: Counter[tuple[int, str]] = Counter()
        self.checked: Counter[str] = Counter()
        self.unsuccessful: set[int] = set()
        self.refused: Counter[str] = Counter()

    @property
    def mended(self) -> Sequence[str]:
        """The sites whose definitions they mended."""
        return sorted(self._scans_in_vain)

    def work(self) -> None:
        """Work, at most once a day: first on what earlier days left, then on opt-outs, then on searches."""
        if self._backend.now() < self._works_again_at:
            return
        self._works_again_at = self._backend.now() + timedelta(days=1)
        self._left = self._minutes_a_day
        self._mend()
        self._decide()
        for opt_out in self._opt_outs():
            self.checked[opt_out.site] += 1
            if GONE in self._open(opt_out.listing):
                self._gone.add((opt_out.user_id, opt_out.site))  # the page of results shows it, too
            elif self._spend("opt-outs", opt_out.minutes):
                self._send(opt_out)
        self._save_pages(self._searches())

    def _spend(self, kind: str, minutes: float) -> bool:
        """Spend minutes, if that many are left today."""
        if minutes > self._left:
            return False
        self._left -= minutes
        self.minutes[kind] += minutes
        return True

    # --- decisions ------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        """Decide on candidates: people know whether a listing is about them."""
        waiting = self._backend.work(
            lambda session: candidates.all(session, verdict=candidates.POSSIBLE, limit=_ROWS_MAX)
        )
        for candidate in waiting:
            if not self._spend("candidates", CANDIDATE_MINUTES):
                return
            self._backend.work(partial(self._judge, candidate))

    async def _judge(self, candidate: candidates.Candidate, session: Session) -> None:
        person = self._backend.person_index[candidate.user_id]
        if self._world.person_of(candidate.site, candidate.listing.reference_id) != person:
            await candidates.reject(session, candidate.id)
            return
        subject = await users.get_subject(session, candidate.user_id)
        definition = self._backend.definitions[candidate.site]
        site = definition.site_of(candidate.listing, subject) if subject else Site(name=candidate.site)
        await candidates.accept(session, candidate.id, site)

    # --- definitions ----------------------------------------------------------------------------------------

    def _mend(self) -> None:
        """Mend the definitions of sites that have another layout."""
        for one in self._backend.work(statistics.all):
            is_new = one.inconclusive_scans != self._scans_in_vain.get(one.site)
            if one.last_reason == statistics.CHANGED_LAYOUT and is_new:
                self._to_mend.add(one.site)
        for site in self._guards.sites:
            refused_at = self._refused_at.get(site.name)
            may_try = refused_at is None or refused_at + MEND_AGAIN <= self._backend.now()
            if site.name in self._to_mend and may_try and self._spend("mending", MEND_MINUTES):
                self._mend_site(site)

    def _mend_site(self, site: GuardedSite) -> None:
        """Save pages and accept the selectors that are proposed from them; they pass both controls."""
        definition, now = self._backend.definitions[site.name], self._backend.now()
        lessons = self._lessons(site)
        address = _search_address(site.definition, INVENTED)
        absent = _saved(address, self._open(address))
        files = mending.SavedFiles(tuple(page for page, _ in lessons), (absent,))
        people = [person for _, people in lessons for person in people]
        proposal = mending.propose(_text(definition), site.name, files, people, on=now.date())
        if proposal.text is None:
            self.refused["; ".join(proposal.problems)] += 1
            self._refused_at[site.name] = now
            return
        mended = loader.parsed(proposal.text)
        changed = {"listings": mended.listings, "search": mended.search}
        self._backend.definitions[site.name] = definition.model_copy(update=changed)
        self._to_mend.discard(site.name)
        in_vain = {one.site: one.inconclusive_scans for one in self._backend.work(statistics.all)}
        self._scans_in_vain[site.name] = in_vain.get(site.name, 0)

    def _lessons(self, site: GuardedSite) -> list[tuple[bytes, list[ListedPerson]]]:
        """Return pages of listed people, and who is listed there, until each field was seen, and each list with two values."""
        wanted, learned = _wanted(site.definition), set[object]()
        lessons: list[tuple[bytes, list[ListedPerson]]] = []
        count = 0
        for name, page in self._examples(site):
            new: list[ListedPerson] = []
            for person, taught in _read(site, page, name, self._backend.now().date()):
                if taught - learned and count < PEOPLE_MAX:
                    learned |= taught
                    new.append(person)
                    count += 1
            if new:
                lessons.append((page, new))
            if wanted <= learned or count == PEOPLE_MAX:
                break
        return lessons

    def _examples(self, site: GuardedSite) -> Iterator[tuple[tuple[str, str], bytes]]:
        """Save the pages of a name that many have, then those of the service's people, each with the name."""
        people = [(one.first_name, one.last_name) for one in self._world.people]
        for name in (COMMON_NAME, *people):
            address: str | None = _search_address(site.definition, name)
            for _ in range(_PAGES_MAX):
                if address is None or not self._spend("mending", PAGE_MINUTES):
                    break
                page = _saved(address, self._open(address))
                yield name, page
                address = _result(site, page, self._backend.now().date()).next

    # --- opt-outs -------------------------------------------------------------------------------------------

    def _opt_outs(self) -> Sequence[AssistedOptOut]:
        queue = self._backend.work(
            lambda session: assisted_opt_outs.queue(
                session, self._backend.definitions, mail=self._backend.mail, limit=_ROWS_MAX
            )
        )
        in_vain = {one.id for one in queue.opt_outs if _is_in_vain(one)}
        self.unsuccessful |= in_vain
        return [one for one in queue.opt_outs if one.id not in in_vain and not one.missing]

    def _send(self, opt_out: AssistedOptOut) -> None:
        """Fill in the form, type what the picture says, send it, and report what the site answered."""
        self.opt_outs[opt_out.user_id, opt_out.site] += 1
        self._open(opt_out.url)
        answer = self._open(opt_out.url, form={**opt_out.values, "picture": self._picture(opt_out.url)})
        definitions = self._backend.definitions
        if RECEIVED in answer or SENT_MAIL in answer:
            self._backend.work(
                lambda session: assisted_opt_outs.report_sent(session, opt_out.id, definitions)
            )
        else:
            self._backend.work(
                lambda session: assisted_opt_outs.report_failed(
                    session, opt_out.id, definitions, refused=True
                )
            )

    # --- searches -------------------------------------------------------------------------------------------

    def _searches(self) -> list[QueueEntry]:
        definitions = self._backend.definitions
        return self._backend.work(lambda session: search_queue.queue(session, definitions, limit=_ROWS_MAX))

    def _save_pages(self, queue: Sequence[QueueEntry]) -> None:
        """Save the searches that are worth it, those of one person and site together."""
        now = self._backend.now()
        together: dict[tuple[int, str], list[QueueEntry]] = defaultdict(list)
        for entry in queue:
            is_gone = (entry.user_id, entry.site) in self._gone
            if (is_gone or _is_worth_it(entry, now)) and entry.site not in self._to_mend:
                together[entry.user_id, entry.site].append(entry)
        for (user_id, site), entries in together.items():
            if not self._spend("searches", PAGE_MINUTES * len(entries)):
                return
            try:
                pages = [page for entry in entries for page in self._saved(site, entry.address)]
            except UnusablePage:
                self._to_mend.add(site)  # tomorrow
                continue
            self._scan(user_id, site, pages)
            self._gone.discard((user_id, site))

    def _saved(self, site: str, address: str) -> Iterator[SavedPage]:
        """Save a search's pages, as a browser does, and open the next ones."""
        definition = self._backend.definitions[site]
        for number in range(_PAGES_MAX):
            if number and not self._spend("searches", PAGE_MINUTES):
                return
            page = saved_pages.read(definition, _saved(address, self._open(address)))
            self.pages += 1
            yield page
            if page.result.next is None:
                return
            address = urljoin(address, page.result.next)

    def _scan(self, user_id: int, site: str, pages: Sequence[SavedPage]) -> None:
        async def scan(session: Session) -> None:
            await saved_pages.scan_saved(session, user_id, self._backend.definitions[site], pages)
            action = Action(saved_pages.SCAN_COMMAND, f"user {user_id}", {"site": site})
            await append(session, action, actor="simulated person")

        self._backend.work(scan)

    # --- browser --------------------------------------------------------------------------------------------

    def _picture(self, url: str) -> str:
        """Return what the picture on a page says."""
        return self._guards.solution(urlsplit(url).hostname or "")

    def _open(self, url: str, *, form: dict[str, str] | None = None) -> str:
        """Open a page, or send a form, as a person who passes the site's bot check."""
        parts = urlsplit(url)
        headers = {"Host": parts.netloc, "Cookie": f"hand={self._guards.hand}; picture={self._picture(url)}"}
        body = None
        if form is not None:
            body, headers["Content-Type"] = urlencode(form), "application/x-www-form-urlencoded"
        connection = HTTPConnection("127.0.0.1", self._world.port, timeout=30)
        try:
            path = parts._replace(scheme="", netloc="").geturl()
            connection.request("GET" if body is None else "POST", path, body, headers)
            return connection.getresponse().read().decode()
        finally:
            connection.close()


def _is_in_vain(opt_out: AssistedOptOut) -> bool:
    """Return whether they give up on an opt-out, because the same form would be refused again."""
    is_final = opt_out.unresponsive or (opt_out.reason or "").startswith(assisted_opt_outs.REFUSED)
    return opt_out.failures >= (1 if is_final else FAILURES_MAX)


def _is_worth_it(entry: QueueEntry, now: datetime) -> bool:
    is_old = entry.last_saved_at is None or entry.last_saved_at <= now - SEARCH_AGAIN
    return is_old or entry.waiting > 0 or entry.to_verify > 0


def _saved(address: str, markup: str) -> bytes:
    """Return a page as a browser saves it."""
    return f"<!-- saved from url=({len(address):04}){address} -->\n{markup}".encode()


def _text(definition: Definition) -> str:
    """Return a definition as the text of its file."""
    return plain_yaml.dump(definition.model_dump(mode="json", by_alias=True, exclude_defaults=True))


def _wanted(definition: Definition) -> set[object]:
    """Return what pages have to show: each field, each list with two values, several listings, and a next page."""
    keys = {key for key in ("reference_id", "href", "age", *LISTS) if getattr(definition.listings, key)}
    lists = {(key, "two") for key in keys.intersection(LISTS)}
    return {*keys, *lists, "several", *(["next"] if definition.search.next else [])}


def _search_address(definition: Definition, name: tuple[str, str]) -> str:
    query = definition.search.query(Subject.from_city(*name).values())
    return f"{definition.search.url}?{urlencode(query or {})}"


def _result(site: GuardedSite, page: bytes, day: date) -> PageResult:
    """Return what a person reads on a page, whom a new layout does not confuse."""
    document = saved_pages.document(page)
    return extraction.read(site.definition_on(day), status=200, url=document.url, text=document.text)


def _read(
    site: GuardedSite, page: bytes, name: tuple[str, str], day: date
) -> Iterator[tuple[ListedPerson, set[object]]]:
    """Yield who is listed on a page under a name, and what each listing teaches."""
    result = _result(site, page, day)
    beside: set[object] = {"several"} if len(result.listings) > 1 else set()
    beside |= {"next"} if result.next else set()
    for listing in result.listings:
        if names_fit([Name(*name)], listing.name):
            values = _values(site.definition, listing)
            lists = {(key, "two") for key in LISTS if len(values.get(key, ())) > 1}
            taught = {key for key, value in values.items() if value} | lists | beside
            yield ListedPerson(first_name=name[0], last_name=name[1], name=listing.name, **values), taught


def _values(definition: Definition, listing: Listing) -> Mapping[str, Any]:
    keys = ("reference_id", "href", "age", *LISTS)
    return {key: getattr(listing, key) for key in keys if getattr(definition.listings, key)}
