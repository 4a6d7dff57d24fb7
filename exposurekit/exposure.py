"""`Exposure`: the users, records, links, alerts and steps of all users, as DataFrames from one load."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Unpack

import pandas as pd

from exposurekit import analysis, frames
from exposurekit.analysis import manual_tasks
from exposurekit.analysis.selection import Choice, select_or_warn, user_ids
from exposurekit.client import Client, bulk
from exposurekit.client.base import Settings
from exposurekit.contract.deviations import Deviations
from exposurekit.contract.models import UserKey
from exposurekit.errors import InvalidArgument, LoadStopped, NotFound, argument_hint, warn
from exposurekit.frames import person_names
from exposurekit.frames.key_access import Keyed
from exposurekit.snapshot import Snapshot
from exposurekit.system.clock import utc_now
from exposurekit.text.html_cards import html_card

People = int | str | Iterable[int | str] | None
_FIGURES = ("users", "records", "links", "alerts")  # of the card; all other tables are counted below them
_CALLS = {
    "ek.widgets.Dashboard(exposure)": "explore them in charts that filter one another",
    "ek.widgets.OptOutChecklist(exposure)": "work through the manual removals",
}
ON_FILE = ("users", "aliases", "emails", "phone_numbers", "addresses")


class Exposure(Keyed):
    """All users of an integrator, as tables. The first table loads them; `refresh` reloads them.

    Each table has one row per item and the key columns ``user_id`` and, where the item has its own id,
    ``record_id``, ``alias_id``, ... Columns have the specification's names. No table contains a secret. You may change a
    table; only its raw ``.array`` is shared with the next one. ``exposure["records"]`` works, too. Lists are Arrow's:
    ``drop_duplicates`` cannot compare them, so pass ``subset=["user_id", "record_id"]``.

    >>> exposure.records(user=key.id)["user_id"].unique().tolist() == [key.id]
    True
    """

    keyed = (*frames.TABLES, "on_file")
    clock: Callable[[], datetime] = staticmethod(utc_now)  # for `as_of`; a sandbox has its own clock

    def __init__(
        self, client: Client, *, concurrency: int = bulk.CONCURRENCY, progress: bool | None = None
    ) -> None:
        """Create an exposure; nothing is loaded yet.

        Args:
            client: The client to load with.
            concurrency: Number of concurrent requests.
            progress: Whether to show a progress bar; None: in a notebook or a terminal.
        """
        if concurrency < 1:
            raise InvalidArgument("concurrency must be at least 1")
        self.client = client
        self.concurrency = concurrency
        self.progress = progress
        self._snapshot: Snapshot | None = None
        self._frames: dict[str, pd.DataFrame] = {}
        self._building = threading.Lock()

    def __repr__(self) -> str:
        if self._snapshot is None:
            return f"Exposure({self.client!r}, not loaded yet)"
        return f"Exposure({self.client!r}, {self._snapshot})"

    def _repr_html_(self) -> str:
        snapshot = self._snapshot
        if snapshot is None:
            facts = {"service": self.origin, "people": "not loaded yet; the first table loads everyone"}
            calls = {"exposure.records()": "load everyone, and list their listings"}
            return html_card("Exposure", facts, note="not loaded yet", calls=calls | _CALLS)
        n_rows = {
            name: len(self._frames.get(name, ())) + sum(map(len, waiting))
            for name, waiting in snapshot.parts.items()
        }
        return html_card(
            "Exposure",
            {"service": self.origin, "loaded": snapshot},
            note=f"as of {snapshot.at:%Y-%m-%d %H:%M} UTC",
            figures={name: f"{n_rows[name]:,}" for name in _FIGURES if name in n_rows},
            tables={name: n for name, n in n_rows.items() if name not in _FIGURES},
            calls={"exposure.records()": "list the listings, as a DataFrame"} | _CALLS,
        )

    @property
    def is_loaded(self) -> bool:
        """Whether the users are loaded; if not, the first table loads them."""
        return self._snapshot is not None

    @property
    def as_of(self) -> datetime:
        """When the tables were loaded, in UTC.

        >>> exposure.as_of.tzinfo is not None
        True
        """
        return self._loaded().at

    @property
    def is_stopped(self) -> bool:
        """Whether the load was stopped before its end, so that people are missing from the tables; loads first if needed.

        >>> exposure.is_stopped
        False
        """
        return not self._loaded().is_complete

    @property
    def listed(self) -> int:
        """How many people the service lists: more than in `users` if some could not be loaded, or the load was stopped.

        Like a table, it loads everyone first if needed.

        >>> exposure.listed == len(exposure.users()) + len(exposure.failures())
        True
        """
        return self._loaded().listed

    @property
    def provenance(self) -> str:
        """The source of the tables: service, integrator, time of the load, and number of people.

        >>> exposure.provenance.endswith("8 people")
        True
        """
        snapshot = self._loaded()
        return f"{self.origin} · as of {snapshot.at:%Y-%m-%d %H:%M} UTC · {snapshot}"

    def users(self, user: People = None) -> pd.DataFrame:
        """List the users: ``user_id``, names, ``birth_date`` (UTC), ``is_scanning``, ``identification_on_file``.

        Args:
            user: An id or a name, or several; None: everyone. A name is a user's full name, with or without the
                middle name, an alias, or a part of a name. Here it selects all users who match it; in the other
                tables only one may match, so pass them ``exposure.users("Nettle")["user_id"]``.

        Raises:
            NotFound: One of them was not loaded; `failures` may say why.
            ExposureError: The list of users could not be fetched.

        Source: specification, "User".

        >>> exposure.users().columns.tolist()[:2]
        ['user_id', 'first_name']
        """
        return self._table("users", user)

    def records(self, user: People = None, *, site: Choice = None, status: Choice = None) -> pd.DataFrame:
        """List the listings: site, status, what they show, and ``user_fields_required_for_removal`` (NA: missing).

        Args:
            user: An id or a name, or several; None for everyone. A name is as in `users`, and must match one user.
            site: One site or several, ignoring case; None for all.
            status: One status or several, ignoring case: ``"discovered"``, ``"pending removal"``, ``"removed"``, or
                ``"open"`` for every open one, as in `analysis.is_open`.

        A site or status without records gives an empty table and a warning that names the closest one.
        ``age`` is Int16, ``reference_id`` text, ``site`` and ``status`` categories, lists Arrow lists.
        Source: specification, "Record".

        >>> exposure.records(site="nosy heron", status=["discovered", "removed"])["site"].unique().tolist()
        ['Nosy Heron']
        >>> {*exposure.records(status="open")["status"]} <= {"discovered", "pending removal"}
        True
        >>> str(exposure.records()["age"].dtype), str(exposure.records()["status"].dtype)
        ('Int16', 'category')
        """
        return self._table("records", user, site=site, status=status)

    def links(self, user: People = None, *, contains: Choice = None) -> pd.DataFrame:
        """List the web pages: ``url``, ``title``, and the kinds of data each ``contains`` (NA: missing).

        Args:
            user: An id or a name, or several, as in `users`; None for everyone.
            contains: One kind of data or several, such as ``"email"``: pages that contain any of them.

        Source: specification, "Link".

        >>> exposure.links().columns.tolist()
        ['user_id', 'url', 'title', 'contains']
        """
        return self._table("links", user, contains=contains)

    def alerts(
        self, user: People = None, *, site: Choice = None, status: Choice = None, source_type: Choice = None
    ) -> pd.DataFrame:
        """List the alerts with their listing or page; ``alert_number`` is the position in the service's list, from 0.

        ``record_id``, ``site``, ``status``, ``href``, ``name``, ``age``, ``locations``, ``reference_id`` come from the
        record (the alert's own, if the user's records lack it); ``link_url`` and ``link_title`` from the link; ``person`` and ``form_values`` (the values to enter) from the
        data on file, see `with_people`. ``html`` is the service's markup, unsanitized: pass it through
        `exposurekit.text.sanitize.fragment` before you display it. An alert about a web page has no status, and counts as
        open, as in `analysis.is_open`: add ``source_type="record"`` for listings alone. Source: specification, "Alert".

        >>> exposure.alerts()["source_type"].cat.categories.tolist()
        ['link', 'record']
        """
        return self._table("alerts", user, site=site, status=status, source_type=source_type)

    def steps(self, user: People = None, *, site: Choice = None, status: Choice = None) -> pd.DataFrame:
        """List the manual steps: one row per step of each alert's ``opt_out_procedure``, numbered from 1.

        The listing, the person and the values to enter are columns, as in `alerts`. ``status`` is the record's current one
        (NaN: the alert is about a link): steps of a record that is ``removed`` or ``pending removal`` need no work.

        >>> exposure.steps()["step_number"].min()
        np.int64(1)
        """
        return self._table("steps", user, site=site, status=status)

    def with_people(self, table: pd.DataFrame) -> pd.DataFrame:
        """Add ``person``, the name on file, to any table with a ``user_id``, also as its index; to alerts also ``form_values``.

        `charts.by_user`, `charts.user_by_site` and `charts.score` then label people by name.

        The names are for the owner's eyes: exports and share-safe reports leave this column out.

        Args:
            table: A table of `Exposure`, `History` or `analysis`, such as ``exposure.records()`` or ``history.stale()``.

        Raises:
            MissingColumns: ``table`` has no ``user_id``.

        >>> exposure.with_people(analysis.by_user(exposure.records())).columns.tolist()[:3]
        ['user_id', 'person', 'open']
        """
        if {"opt_out_procedure", "locations"} <= {*table.columns} and "step" not in table:
            return manual_tasks.with_people(table, **{name: self._table(name, None) for name in ON_FILE})
        return manual_tasks.with_names(table, self._table("users", None))

    def aliases(self, user: People = None) -> pd.DataFrame:
        """List the aliases: ``alias_id``, ``first_name``, ``last_name``, ``alias_type`` (NaN: missing).

        >>> exposure.aliases().columns.tolist()
        ['user_id', 'alias_id', 'first_name', 'last_name', 'alias_type']
        """
        return self._table("aliases", user)

    def emails(self, user: People = None) -> pd.DataFrame:
        """List the email addresses: ``email_id``, ``address``.

        >>> exposure.emails().columns.tolist()
        ['user_id', 'email_id', 'address']
        """
        return self._table("emails", user)

    def phone_numbers(self, user: People = None) -> pd.DataFrame:
        """List the phone numbers: ``phone_number_id``, ``number`` (digits as text).

        >>> exposure.phone_numbers().columns.tolist()
        ['user_id', 'phone_number_id', 'number']
        """
        return self._table("phone_numbers", user)

    def addresses(self, user: People = None) -> pd.DataFrame:
        """List the addresses: ``address_id``, ``address1``, ``address2``, ``city``, ``state``, ``zip`` (text), ``country``.

        >>> exposure.addresses().columns.tolist()
        ['user_id', 'address_id', 'address1', 'address2', 'city', 'state', 'zip', 'country']
        """
        return self._table("addresses", user)

    def on_file(self, user: People = None) -> pd.DataFrame:
        """List the fields that each person has on file, without their values: `analysis.on_file`.

        >>> exposure.on_file(user=key.id)["field"].tolist()[:2]
        ['address1', 'birth_date']
        """
        filled = {
            name: self._table(name, user) for name in ("addresses", "emails", "phone_numbers", "aliases")
        }
        return analysis.on_file(self.users(user), **filled)

    def service_history(self, user: People = None) -> pd.DataFrame:
        """List when the service was ``activated`` or ``deactivated``: ``event``, ``occurred_at`` (UTC), oldest first.

        >>> exposure.service_history().columns.tolist()
        ['user_id', 'event', 'occurred_at']
        """
        return self._table("service_history", user)

    def failures(self) -> pd.DataFrame:
        """Users who were not loaded: ``user_id``, ``operation``, ``error``, ``status`` (NA: no response), ``reason``.

        They are in no other table: unknown is not empty. Users whom List users shows without a secret are among them, and
        those who were still to be loaded when a load was stopped, as far as they were listed by then; `listed` counts all.

        >>> exposure.failures().columns.tolist()
        ['user_id', 'operation', 'error', 'status', 'reason']
        """
        return self._frame(self._loaded(), "failures").copy(deep=False)

    def deviations(self) -> pd.DataFrame:
        """How the responses deviate from the specification: one row per operation, field and kind.

        ``field`` is its path, such as ``records.age``; ``kind`` is ``null``, ``missing``, ``text for integer``, ...;
        ``users`` counts the users affected (NA: a page of List users is); ``example`` is the type and size of a value,
        never the value. Only the field is lost; with ``ek.connect(strict=True)`` a deviation is an error.

        >>> exposure.deviations().columns.tolist()
        ['operation', 'field', 'kind', 'users', 'example']
        """
        return self._frame(self._loaded(), "deviations").copy(deep=False)

    def user_ids(self, user: People) -> list[int]:
        """Return the ids of users given by id or name, each of which must be one user's.

        Args:
            user: An id or a name, or several, as in `records`.

        Raises:
            NotFound: One of them was not loaded.
            InvalidArgument: Several users match a name: `users` lists them.

        >>> exposure.user_ids(key.id) == [key.id]
        True
        """
        return self._user_ids(self._loaded(), user, is_unique=True)

    def key(self, user_id: int) -> UserKey:
        """The key (id and secret) of one user, for the client's methods.

        Raises:
            NotFound: The service does not list this user.

        >>> exposure.client.get_user(exposure.key(key.id)).id == key.id
        True
        """
        secrets = self._loaded().secrets
        if user_id not in secrets:
            raise NotFound(f"The service lists no user {user_id}; refresh() loads again.")
        return UserKey(id=user_id, secret=secrets[user_id])

    def refresh(self) -> "Exposure":
        """Reload all users. If the load fails or is interrupted, the previous tables remain.

        If the first load is stopped (Ctrl-C), what it loaded remains, and the tables warn that they are incomplete: once in each
        cell, file, or statement at a prompt.

        Raises:
            LoadStopped: Ctrl-C stopped the load; a `KeyboardInterrupt` that says what was kept.

        >>> exposure.refresh() is exposure
        True
        """
        snapshot = Snapshot(self.clock())
        is_stopped = False
        try:
            for batch in self._load(None, self.progress):
                snapshot.add(batch)
            snapshot.is_complete = True
        except KeyboardInterrupt:
            is_stopped = True
        finally:
            snapshot.finish()
            if snapshot.is_complete or (self._snapshot is None and snapshot.loaded):
                self._snapshot, self._frames = snapshot, {}
        if is_stopped:  # here, without the frames of the interrupted request
            raise LoadStopped(f"{self._after_stop(snapshot)}; exposure.refresh() loads everyone")
        snapshot.deviations.warn()
        return self

    def _after_stop(self, stopped: Snapshot) -> str:
        """What there is after a load was stopped."""
        if self._snapshot is stopped:
            return f"{stopped.progress} were loaded and kept"
        return "nobody was loaded" if self._snapshot is None else "the tables of the last load remain"

    def _loaded(self) -> Snapshot:
        if self._snapshot is None:
            self.refresh()
        snapshot = self._snapshot
        assert snapshot is not None  # noqa: S101  refresh() sets it, or raises
        if not snapshot.is_complete:
            warn(f"{snapshot}; refresh() loads everyone", warned=snapshot.warned)
        return snapshot

    def _frame(self, snapshot: Snapshot, name: str) -> pd.DataFrame:
        with self._building:  # threads may share an exposure; an interrupted table can be built again
            return self._built(snapshot, name)

    def _built(self, snapshot: Snapshot, name: str) -> pd.DataFrame:
        if name not in self._frames:
            if name == "steps":
                snapshot.parts[name] = []  # for their number only: the table has more columns
                table = frames.steps_from_alerts(self._built(snapshot, "alerts"))
            else:
                beside = frames.SOURCE_RECORD if name == "alerts" else ()
                table = frames.frame(name, snapshot.parts[name], beside=beside)
            if name == "alerts":
                table = manual_tasks.with_listings(table, self._built(snapshot, "records"))
                table = manual_tasks.with_people(
                    table, **{one: self._built(snapshot, one) for one in ON_FILE}
                )
            self._frames[name] = table
            snapshot.parts[name] = []
        return self._frames[name]

    def _user_ids(self, snapshot: Snapshot, user: People, *, is_unique: bool) -> list[int]:
        """The ids of users by id or name; `is_unique`: a name must match one user."""
        if isinstance(user, Iterable) and not isinstance(user, str | bytes | pd.DataFrame | Mapping):
            user = [*user]  # a column of names, too
        if isinstance(user, str) or (isinstance(user, list) and any(isinstance(one, str) for one in user)):
            labels = person_names.labels_of(self._frame(snapshot, "users"))
            aliases = person_names.aliases_of(self._frame(snapshot, "aliases"))
            people = person_names.People(labels, aliases)
            ids = [*(people.ids(user) if is_unique else people.all_ids(user))]
        else:
            ids = user_ids(user)
        if unknown := [one for one in ids if one not in snapshot.loaded]:
            why = "failures() names those who could not be loaded, refresh() looks again"
            raise NotFound(
                f"Not among the people loaded: {', '.join(map(str, unknown))}; {why if snapshot.is_complete else 'refresh() loads everyone'}."
            )
        return ids

    def _table(self, name: str, user: People, **choices: Choice) -> pd.DataFrame:
        snapshot = self._loaded()
        table = self._frame(snapshot, name)
        if any(choice is not None for choice in choices.values()):
            table = select_or_warn(table, choices)
        if user is None:
            return table.copy(deep=False)
        ids = self._user_ids(snapshot, user, is_unique=name != "users")
        return table[table["user_id"].isin(ids)].reset_index(drop=True)

    def iter_batches(
        self, *, only: bulk.UserFilter | None = None, progress: bool | None = None
    ) -> Iterator[bulk.Batch]:
        """Load all users without storing them: iterate over parsed batches, as `History.collect` does.

        If Ctrl-C or an error ends the load, the users fetched so far are yielded before the exception is raised.

        Args:
            only: Whether to load a user, by id; None: load all users.
            progress: Whether to show a progress bar; None: as this exposure does.

        Returns:
            An iterator of batches. The last one has the ``listing``: what List users returned.

        Raises:
            ExposureError: The list of users could not be fetched.

        >>> sum(len(batch.users) for batch in exposure.iter_batches()) >= len(exposure.users())
        True
        """
        deviations = Deviations()
        for batch in self._load(only, self.progress if progress is None else progress):
            deviations.update(batch.counted_deviations())
            yield batch
        deviations.warn()

    @property
    def origin(self) -> str:
        """The service, by its name or its address, and the integrator; without the key.

        >>> exposure.origin.endswith(" · demo")
        True
        """
        return f"{self.client.config.service} · {self.client.config.integration_name}"

    def _load(self, only: bulk.UserFilter | None, progress: bool | None) -> Iterator[bulk.Batch]:  # noqa: FBT001
        return bulk.iter_batches(self.client, concurrency=self.concurrency, only=only, progress=progress)


def connect(
    base_url: str | None = None,
    *,
    client: Client | None = None,
    concurrency: int = bulk.CONCURRENCY,
    progress: bool | None = None,
    **settings: Unpack[Settings],
) -> Exposure:
    """Connect to a service and return the tables of its users; nothing is loaded yet.

    Args:
        base_url: The part of the URL before ``/api/``; default: ``EXPOSUREKIT_BASE_URL`` or a ``.env`` file.
        client: An existing `Client`, instead of connection settings.
        concurrency: Number of concurrent requests.
        progress: Whether to show a progress bar; None: in a notebook or a terminal.
        settings: ``integration_name``, ``api_key``, ``api_secret``, ``strict`` and all other arguments of `Client`.

    Raises:
        ConfigurationError: A setting is missing or invalid; the message says what to set.
        InvalidArgument: ``concurrency`` is less than 1, or both a client and settings were given.

    >>> ek.connect(client=client)
    Exposure(Client('simulated service with invented people', integration_name='demo'), not loaded yet)
    """
    if client is not None and (base_url or settings):
        raise InvalidArgument("connect() takes a client or connection settings, not both")
    for name in settings.keys() - Settings.__annotations__.keys():
        error = TypeError(f"connect() got an unexpected keyword argument {name!r}")
        raise TypeError(f"{error}{argument_hint(error, Settings.__annotations__)}")
    return Exposure(client or Client(base_url, **settings), concurrency=concurrency, progress=progress)
