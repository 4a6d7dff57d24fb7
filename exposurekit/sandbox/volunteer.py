"""A simulated person with some minutes a day, who does what the service leaves to a person in the guarded web.

They save searches behind bot checks, send assisted opt-outs, decide on candidates, and mend definitions after a redesign,
with the functions behind the `users` commands. The minutes are assumptions.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from http.client import HTTPConnection
from itertools import takewhile
from urllib.parse import urlencode, urljoin, urlsplit

from exposurekit.sandbox.backend import Backend
from exposurekit.sandbox.world.guarded_sites import RECEIVED, SENT_MAIL
from exposurekit.sandbox.world.world import World
from exposurekit.service.accounts import users
from exposurekit.service.audit import Action, append
from exposurekit.service.findings import candidates
from exposurekit.service.models import Site
from exposurekit.service.scanning import assisted_opt_outs, saved_pages
from exposurekit.service.scanning.assisted_opt_outs import AssistedOptOut
from exposurekit.service.scanning.saved_pages import QueueEntry, SavedPage, UnusablePage
from exposurekit.service.sites import statistics
from exposurekit.service.storage.database import Session

MINUTES_A_DAY = 60.0
PAGE_MINUTES, CANDIDATE_MINUTES, MEND_MINUTES = 0.4, 0.3, 8.0
SEARCH_AGAIN = timedelta(days=45)  # a search that verifies nothing
FAILURES_MAX = 2  # after so many failures they give an opt-out up
_PAGES_MAX = 20
_ROWS_MAX = 5_000


class Volunteer:
    """A person who works at most some minutes a day.

    Attributes:
        minutes: What each kind of work took: ``searches``, ``opt-outs``, ``candidates``, ``mending``.
        opt_outs: How many forms they sent, by user and site.
        unsuccessful: The records whose opt-outs failed too often.
    """

    def __init__(self, backend: Backend, world: World, *, minutes_a_day: float = MINUTES_A_DAY) -> None:
        if world.guards is None:
            raise ValueError("an open web needs no volunteer")
        self._backend, self._world, self._guards = backend, world, world.guards
        self._minutes_a_day, self._left = minutes_a_day, 0.0
        self._works_again_at = backend.now()
        self._to_mend: set[str] = set()
        self.minutes: dict[str, float] = defaultdict(float)
        self.pages = 0
        self.opt_outs: Counter[tuple[int, str]] = Counter()
        self.unsuccessful: set[int] = set()

    def work(self) -> None:
        """Work, at most once a day: first on what earlier days left, then on opt-outs, then on searches."""
        if self._backend.now() < self._works_again_at:
            return
        self._works_again_at = self._backend.now() + timedelta(days=1)
        self._left = self._minutes_a_day
        self._mend()
        self._decide()
        queue = self._searches()
        unsearched = {entry.user_id for entry in queue if entry.last_saved_at is None}
        for opt_out in self._opt_outs():
            # What is found later would need a request of its own.
            if opt_out.user_id not in unsearched and self._spend("opt-outs", opt_out.minutes):
                self._send(opt_out)
        self._save_pages(queue)

    def _spend(self, kind: str, minutes: float) -> bool:
        """Spend minutes, if there are so many left today."""
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
        site = definition.site(subject) if subject else Site(name=candidate.site)
        await candidates.accept(session, candidate.id, site)

    def _mend(self) -> None:
        """Mend the definitions of sites that had another layout yesterday."""
        health = self._backend.work(statistics.all)
        self._to_mend |= {one.site for one in health if one.last_reason == "changed layout"}
        for site in self._guards.sites:
            is_old = self._backend.definitions[site.name].listings == site.definition.listings
            if site.name in self._to_mend and is_old and self._spend("mending", MEND_MINUTES):
                mended = {"listings": site.mended.listings}
                definitions = self._backend.definitions
                definitions[site.name] = definitions[site.name].model_copy(update=mended)
                self._to_mend.discard(site.name)

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
        sites = list(self._backend.definitions.values())
        return self._backend.work(lambda session: saved_pages.queue(session, sites, limit=_ROWS_MAX))

    def _save_pages(self, queue: Sequence[QueueEntry]) -> None:
        """Save the searches that are worth it, those of one person and site together."""
        now = self._backend.now()
        together: dict[tuple[int, str], list[QueueEntry]] = defaultdict(list)
        for entry in takewhile(lambda one: _is_worth_it(one, now), queue):
            if entry.site not in self._to_mend:
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

    def _saved(self, site: str, address: str) -> Iterator[SavedPage]:
        """Save a search's pages, as a browser does, and open the next ones."""
        definition = self._backend.definitions[site]
        for number in range(_PAGES_MAX):
            if number and not self._spend("searches", PAGE_MINUTES):
                return
            mark = f"<!-- saved from url=({len(address):04}){address} -->\n"
            page = saved_pages.read(definition, (mark + self._open(address)).encode())
            self.pages += 1
            yield page
            if page.result.next is None:
                return
            address = urljoin(address, page.result.next)

    def _scan(self, user_id: int, site: str, pages: Sequence[SavedPage]) -> None:
        async def scan(session: Session) -> None:
            await saved_pages.scan_saved(session, user_id, self._backend.definitions[site], pages)
            action = Action(saved_pages.SCAN_COMMAND, f"user {user_id}", {"site": site})
            await append(session, action, actor="volunteer")

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
    """Return whether they give an opt-out up: the same form would be refused again."""
    is_final = opt_out.unresponsive or opt_out.reason == assisted_opt_outs.REFUSED
    return opt_out.failures >= (1 if is_final else FAILURES_MAX)


def _is_worth_it(entry: QueueEntry, now: datetime) -> bool:
    is_old = entry.last_saved_at is None or entry.last_saved_at <= now - SEARCH_AGAIN
    return is_old or entry.to_verify > 0
