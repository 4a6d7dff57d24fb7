"""`Exposure`: the users, records, links, alerts and steps of all users, as DataFrames from one load."""

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Unpack

import pandas as pd

from exposurekit import frames
from exposurekit.analysis import tasks
from exposurekit.analysis.selection import Choice, select
from exposurekit.client import Client, background, bulk
from exposurekit.client.base import Settings
from exposurekit.client.progress import progress_bar
from exposurekit.contract.models import UserKey
from exposurekit.errors import InvalidArgument, NotFound, warn
from exposurekit.snapshot import Deviations, Snapshot, ids_of, utc_now
from exposurekit.tables import ON_FILE, People, Tables
from exposurekit.text.html_cards import html_card


class Exposure(Tables):
    """All users of an integrator, as tables. The first table loads them; `refresh` loads them again.

    Each table has one row per item and the key columns ``user_id`` and, where the item has its own id,
    ``record_id``, ``alias_id``, ... Columns have the specification's names. No table contains a secret. You may change a
    table; only its raw ``.array`` is shared with the next one. ``exposure["records"]`` works, too.

    >>> exposure.records(user=key.id)["user_id"].unique().tolist() == [key.id]
    True
    """

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
        facts: dict[str, object] = {"service": self.origin, "people": "none yet: a table loads them"}
        if (snapshot := self._snapshot) is not None:
            facts |= {"people": snapshot, "as of": snapshot.at}
            for name, waiting in snapshot.batches.items():
                facts[name] = f"{len(self._frames.get(name, ())) + sum(map(len, waiting)):,} rows"
        return html_card("Exposure", facts)

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
    def provenance(self) -> str:
        """The source of the tables: service, integrator, time of the load, and number of people.

        >>> exposure.provenance.endswith("11 people")
        True
        """
        snapshot = self._loaded()
        return f"{self.origin} · as of {snapshot.at:%Y-%m-%d %H:%M} UTC · {snapshot}"

    def failures(self) -> pd.DataFrame:
        """Users who could not be loaded: ``user_id``, ``operation``, ``error``, ``status`` (NA: no response), ``reason``.

        They are in no other table: unknown is not empty.

        >>> exposure.failures().columns.tolist()
        ['user_id', 'operation', 'error', 'status', 'reason']
        """
        return self._frame(self._loaded(), "failures").copy(deep=False)

    def deviations(self) -> pd.DataFrame:
        """How the responses deviate from the specification: one row per operation, field and kind.

        ``field`` is its path, such as ``records.age``; ``kind`` is ``null``, ``missing``, ``text for integer``, ...;
        ``users`` counts the users affected; ``example`` is the type and size of a value, never the value. Only the
        field is lost; with ``ek.connect(strict=True)`` a deviation is an error.

        >>> exposure.deviations().columns.tolist()
        ['operation', 'field', 'kind', 'users', 'example']
        """
        return self._frame(self._loaded(), "deviations").copy(deep=False)

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
        """Load all users again. If that fails or is stopped, the previous tables remain.

        If the first load is stopped (Ctrl-C), what it loaded remains, and the tables warn that they are incomplete.

        >>> exposure.refresh() is exposure
        True
        """
        snapshot = Snapshot(at=self.clock())
        try:
            self._run(snapshot.add, None, snapshot.progress, self.progress, snapshot.set_deviations)
            snapshot.is_complete = True
        finally:
            snapshot.flush()
            if snapshot.is_complete or (self._snapshot is None and snapshot.loaded):
                self._snapshot, self._frames = snapshot, {}
        return self

    def _loaded(self) -> Snapshot:
        if self._snapshot is None:
            self.refresh()
        snapshot = self._snapshot
        assert snapshot is not None  # noqa: S101  refresh() sets it, or raises
        if not snapshot.is_complete:
            warn(f"{snapshot}; refresh() loads everyone")
        return snapshot

    def _frame(self, snapshot: Snapshot, name: str) -> pd.DataFrame:
        with self._building:  # threads may share an exposure; an interrupted table can be built again
            return self._built(snapshot, name)

    def _built(self, snapshot: Snapshot, name: str) -> pd.DataFrame:
        if name not in self._frames:
            if name == "steps":
                table = frames.steps_from_alerts(self._built(snapshot, "alerts"))
            else:
                table = frames.frame(name, snapshot.batches[name])
            if name == "alerts":
                table = tasks.with_listings(table, self._built(snapshot, "records"))
                table = tasks.with_people(table, **{one: self._built(snapshot, one) for one in ON_FILE})
            self._frames[name] = table
            snapshot.batches[name] = []
        return self._frames[name]

    def _table(self, name: str, user: People, **choices: Choice) -> pd.DataFrame:
        snapshot = self._loaded()
        table = self._frame(snapshot, name)
        if any(choice is not None for choice in choices.values()):
            table, doubts = select(table, choices)
            for doubt in doubts:
                warn(doubt)
        if user is None:
            return table.copy(deep=False)
        user_ids = ids_of(user)
        if unknown := [one for one in user_ids if one not in snapshot.loaded]:
            why = "failures() names those who could not be loaded, refresh() looks again"
            raise NotFound(
                f"Not among the people loaded: {unknown}; {why if snapshot.is_complete else 'refresh() loads everyone'}."
            )
        return table[table["user_id"].isin(user_ids)].reset_index(drop=True)

    def stream(
        self,
        take: Callable[[bulk.Batch], None],
        *,
        choose: bulk.UserFilter | None = None,
        progress: bool | None = None,
    ) -> bulk.UserListing:
        """Load all users without keeping them: each batch is passed on, as for `History.collect`.

        Args:
            take: Called with each batch; if the load is stopped, also with the last, incomplete one.
            choose: Whether to load a user, by id; None: load all users.
            progress: Whether to show a progress bar; None: as this exposure does.

        Returns:
            What List users returned.

        Raises:
            ExposureError: The list of users could not be fetched.

        >>> exposure.stream(lambda batch: None, choose=lambda user_id: False).is_complete
        True
        """
        show = self.progress if progress is None else progress
        return self._run(take, choose, lambda _done, _total: None, show)

    @property
    def origin(self) -> str:
        """The service and the integrator, without the key.

        >>> exposure.origin.endswith(" · demo")
        True
        """
        return f"{self.client.config.base_url} · {self.client.config.integration_name}"

    def _run(
        self,
        on_batch: Callable[[bulk.Batch], None],
        only: bulk.UserFilter | None,
        on_progress: Callable[[int, int | None], None],
        show_progress: bool | None,  # noqa: FBT001
        on_end: Callable[[Deviations], None] = lambda _deviations: None,
    ) -> bulk.UserListing:
        deviations = Deviations()
        client = self.client.as_async(self.concurrency)
        load = bulk.BulkLoad(client, concurrency=self.concurrency, only=only)

        async def run() -> None:
            async with client:
                async for batch in load:
                    deviations.add_batch(batch)
                    on_batch(batch)

        try:
            with progress_bar("people", show_progress) as bar:
                background.run_in_background(run(), lambda: bar(load.done, load.total))
        finally:
            if load.listing is not None:
                deviations.add_listing(load.listing)
            on_progress(load.done, load.total)
            on_end(deviations)
        assert load.listing is not None  # noqa: S101  the load ran to its end
        deviations.warn()
        return load.listing


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
    Exposure(Client('http://127.0.0.1:...', integration_name='demo'), not loaded yet)
    """
    if client is not None and (base_url or settings):
        raise InvalidArgument("connect() takes a client or connection settings, not both")
    return Exposure(client or Client(base_url, **settings), concurrency=concurrency, progress=progress)
