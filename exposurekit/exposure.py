"""The analyst's door: everyone's users, records, links, alerts and steps as DataFrames. Remembers nothing beyond one load."""

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
    """Everyone whom an integrator has registered, as tables. One load serves them all; `refresh` looks again.

    Each table has one row a thing and the key columns ``user_id`` and, where the thing has an id of its own,
    ``record_id``, ``alias_id``, ... Names of columns are the specification's. No table holds a secret. A table is
    yours to change; only its raw ``.array`` is shared with the next one. ``exposure["records"]`` works too.

    >>> exposure.records(user=key.id)["user_id"].unique().tolist() == [key.id]
    True
    """

    clock: Callable[[], datetime] = staticmethod(utc_now)  # what `as_of` goes by; a sandbox has its own

    def __init__(
        self, client: Client, *, concurrency: int = bulk.CONCURRENCY, progress: bool | None = None
    ) -> None:
        """Look through this client.

        Args:
            client: The connection.
            concurrency: Number of concurrent requests.
            progress: Whether to show a progress bar; None: in a notebook and in a terminal.
        """
        if concurrency < 1:
            raise InvalidArgument("concurrency must be at least 1")
        self.client = client
        self.concurrency = concurrency
        self.progress = progress
        self._look: Snapshot | None = None
        self._shown: dict[str, pd.DataFrame] = {}
        self._building = threading.Lock()

    def __repr__(self) -> str:
        if self._look is None:
            return f"Exposure({self.client!r}, not loaded yet)"
        return f"Exposure({self.client!r}, {self._look})"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"service": self.origin, "people": "none yet: a table loads them"}
        if (look := self._look) is not None:
            facts |= {"people": look, "as of": look.at}
            for name, waiting in look.batches.items():
                facts[name] = f"{len(self._shown.get(name, ())) + sum(map(len, waiting)):,} rows"
        return html_card("Exposure", facts)

    @property
    def is_loaded(self) -> bool:
        """Whether people are here already; where not, the first table loads them."""
        return self._look is not None

    @property
    def as_of(self) -> datetime:
        """When the tables were loaded, in UTC.

        >>> exposure.as_of.tzinfo is not None
        True
        """
        return self._loaded().at

    @property
    def provenance(self) -> str:
        """Where the tables come from: service, integrator, when they were loaded, and how many people.

        >>> exposure.provenance.endswith("11 people")
        True
        """
        look = self._loaded()
        return f"{self.origin} · as of {look.at:%Y-%m-%d %H:%M} UTC · {look}"

    def failures(self) -> pd.DataFrame:
        """Who could not be loaded: ``user_id``, ``operation``, ``error``, ``status`` (NA: no answer), ``reason``.

        These people are in no other table: unknown is not empty.

        >>> exposure.failures().columns.tolist()
        ['user_id', 'operation', 'error', 'status', 'reason']
        """
        return self._frame(self._loaded(), "failures").copy(deep=False)

    def deviations(self) -> pd.DataFrame:
        """How the service's answers deviate from the specification: one row per operation, field and kind.

        ``field`` is its path, such as ``records.age``; ``kind`` is ``null``, ``missing``, ``text for integer``, ...;
        ``users`` counts whom it concerns; ``example`` is the type and size of a value, never the value. Each costs its
        field alone; ``ek.connect(strict=True)`` makes it an error.

        >>> exposure.deviations().columns.tolist()
        ['operation', 'field', 'kind', 'users', 'example']
        """
        return self._frame(self._loaded(), "deviations").copy(deep=False)

    def key(self, user_id: int) -> UserKey:
        """The id and secret of one user, for the client's single calls.

        Raises:
            NotFound: The service does not list this user.

        >>> exposure.client.get_user(exposure.key(key.id)).id == key.id
        True
        """
        secrets = self._loaded().secrets
        if user_id not in secrets:
            raise NotFound(f"The service lists no user {user_id}; refresh() looks again.")
        return UserKey(id=user_id, secret=secrets[user_id])

    def refresh(self) -> "Exposure":
        """Look again at everyone. Where that fails or is stopped, what was loaded before stays.

        A first load that is stopped (Ctrl-C) keeps what it has; the tables then warn that they are not whole.

        >>> exposure.refresh() is exposure
        True
        """
        look = Snapshot(at=self.clock())
        try:
            self._run(look.add, None, look.progress, self.progress, look.set_deviations)
            look.is_complete = True
        finally:
            look.flush()
            if look.is_complete or (self._look is None and look.loaded):
                self._look, self._shown = look, {}
        return self

    def _loaded(self) -> Snapshot:
        if self._look is None:
            self.refresh()
        look = self._look
        assert look is not None  # noqa: S101  refresh() sets it, or raises
        if not look.is_complete:
            warn(f"{look}; refresh() loads everyone")
        return look

    def _frame(self, look: Snapshot, name: str) -> pd.DataFrame:
        with self._building:  # two threads may ask at once; what is stopped half-way can be asked for again
            return self._built(look, name)

    def _built(self, look: Snapshot, name: str) -> pd.DataFrame:
        if name not in self._shown:
            if name == "steps":
                table = frames.steps_from_alerts(self._built(look, "alerts"))
            else:
                table = frames.frame(name, look.batches[name])
            if name == "alerts":
                table = tasks.with_listings(table, self._built(look, "records"))
                table = tasks.with_people(table, **{one: self._built(look, one) for one in ON_FILE})
            self._shown[name] = table
            look.batches[name] = []
        return self._shown[name]

    def _table(self, name: str, user: People, **choices: Choice) -> pd.DataFrame:
        look = self._loaded()
        table = self._frame(look, name)
        if any(choice is not None for choice in choices.values()):
            table, doubts = select(table, choices)
            for doubt in doubts:
                warn(doubt)
        if user is None:
            return table.copy(deep=False)
        asked = ids_of(user)
        if unknown := [one for one in asked if one not in look.loaded]:
            why = "failures() names those who could not be loaded, refresh() looks again"
            raise NotFound(
                f"Not among the people loaded: {unknown}; {why if look.is_complete else 'refresh() loads everyone'}."
            )
        return table[table["user_id"].isin(asked)].reset_index(drop=True)

    def stream(
        self,
        take: Callable[[bulk.Batch], None],
        *,
        choose: bulk.UserFilter | None = None,
        progress: bool | None = None,
    ) -> bulk.UserListing:
        """Load everyone and keep nobody: each batch is given away as it comes, as `History.collect` wants it.

        Args:
            take: Is given each batch; also the last, unfinished one where the load is stopped.
            choose: Whether to ask about somebody, by id; None: about everyone.
            progress: Whether to show a progress bar; None: as this exposure does.

        Returns:
            How many people were listed, and whether these were all.

        Raises:
            ExposureError: The list of users could not be had.

        >>> exposure.stream(lambda batch: None, choose=lambda user_id: False).is_complete
        True
        """
        shown = self.progress if progress is None else progress
        return self._run(take, choose, lambda _done, _total: None, shown)

    @property
    def origin(self) -> str:
        """The service and the integrator, without a key.

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
    """Connect to a service, and see everyone registered there as tables.

    Args:
        base_url: What precedes ``/api/``; else from ``EXPOSUREKIT_BASE_URL`` or a ``.env`` file.
        client: A `Client` that stands already; then nothing else of the connection may be given.
        concurrency: Number of concurrent requests.
        progress: Whether to show a progress bar; None: in a notebook and in a terminal.
        settings: ``integration_name``, ``api_key``, ``api_secret``, ``strict`` and all else that `Client` takes.

    Raises:
        ConfigurationError: A setting is missing or invalid; the message says what to set.
        InvalidArgument: ``concurrency`` is less than 1, or both a client and settings were given.

    >>> ek.connect(client=client)
    Exposure(Client('http://127.0.0.1:...', integration_name='demo'), not loaded yet)
    """
    if client is not None and (base_url or settings):
        raise InvalidArgument("connect() takes a client or the settings of one, not both")
    return Exposure(client or Client(base_url, **settings), concurrency=concurrency, progress=progress)
