"""The tables of people and what was found of them, each by a method of its own name. Loads nothing."""

from abc import abstractmethod
from collections.abc import Iterable

import pandas as pd

from exposurekit import analysis, frames
from exposurekit.analysis import tasks
from exposurekit.analysis.selection import Choice
from exposurekit.frames.key_access import Keyed

People = int | Iterable[int] | None
ON_FILE = ("users", "aliases", "emails", "phone_numbers", "addresses")


class Tables(Keyed):
    """Tables with one row a thing; how each is made is for whoever has them to say."""

    keyed = (*frames.TABLES, "on_file")

    @abstractmethod
    def _table(self, name: str, user: People, **choices: Choice) -> pd.DataFrame:
        """A table by its name, of some people, and the rows of a choice."""

    def users(self, user: People = None) -> pd.DataFrame:
        """The people: ``user_id``, names, ``birth_date`` (UTC), ``is_scanning``, ``identification_on_file``.

        Args:
            user: One id or several; None for everyone.

        Raises:
            NotFound: One of them is not among those loaded; `failures` may say why.
            ExposureError: The list of users could not be had.

        Source: specification, "User".

        >>> exposure.users().columns.tolist()[:2]
        ['user_id', 'first_name']
        """
        return self._table("users", user)

    def records(self, user: People = None, *, site: Choice = None, status: Choice = None) -> pd.DataFrame:
        """The listings: site, status, what they show, and ``user_fields_required_for_removal`` (NA: not told).

        Args:
            user: One id or several; None for everyone.
            site: One name of a site or several, in upper or lower case; None for all.
            status: One status or several, likewise: ``"discovered"``, ``"pending removal"``, ``"removed"``.

        A site or status that no record has gives an empty table, and a warning that names the nearest one.
        ``age`` is Int16, ``reference_id`` text, ``site`` and ``status`` categories, lists Arrow lists.
        Source: specification, "Record".

        >>> exposure.records(site="nosy heron", status=["discovered", "removed"])["site"].unique().tolist()
        ['Nosy Heron']
        >>> str(exposure.records()["age"].dtype), str(exposure.records()["status"].dtype)
        ('Int16', 'category')
        """
        return self._table("records", user, site=site, status=status)

    def links(self, user: People = None, *, contains: Choice = None) -> pd.DataFrame:
        """The web pages: ``url``, ``title``, and the kinds of data each ``contains`` (NA: not told).

        Args:
            user: One id or several; None for everyone.
            contains: One kind of data or several, such as ``"email"``: pages that contain any of them.

        Source: specification, "Link".

        >>> exposure.links().columns.tolist()
        ['user_id', 'url', 'title', 'contains']
        """
        return self._table("links", user, contains=contains)

    def alerts(
        self, user: People = None, *, site: Choice = None, status: Choice = None, source_type: Choice = None
    ) -> pd.DataFrame:
        """The alerts, numbered for each user from 0 as the service lists them, with what they are about.

        ``record_id``, ``site``, ``status``, ``href``, and ``name``, ``age``, ``locations``, ``reference_id`` as listed
        are the record's; ``link_url`` and ``link_title`` the link's; ``person`` and ``form_values`` (what to enter) are
        on file, see `with_people`. ``html`` is the service's markup as it came: pass it through `exposurekit.text.sanitize.fragment`
        before it is shown. Source: specification, "Alert".

        >>> exposure.alerts()["source_type"].cat.categories.tolist()
        ['link', 'record']
        """
        return self._table("alerts", user, site=site, status=status, source_type=source_type)

    def steps(self, user: People = None, *, site: Choice = None, status: Choice = None) -> pd.DataFrame:
        """What a human must do: one row for each step of each alert's ``opt_out_procedure``, numbered from 1.

        Beside it stand the listing, whose it is, and what to enter, as in `alerts`.
        ``status`` is the record's as it is now (NaN: the alert is about a link): steps for a record that is
        ``removed`` or ``pending removal`` are there, and need nobody.

        >>> exposure.steps()["step_number"].min()
        np.int64(1)
        """
        return self._table("steps", user, site=site, status=status)

    def with_people(self, alerts: pd.DataFrame) -> pd.DataFrame:
        """Add to alerts of a history whose each is, and what a form may ask: ``person`` and ``form_values``.

        >>> exposure.with_people(history.alerts())["person"].notna().all()
        np.True_
        """
        return tasks.with_people(alerts, **{name: self._table(name, None) for name in ON_FILE})

    def aliases(self, user: People = None) -> pd.DataFrame:
        """Other names: ``alias_id``, ``first_name``, ``last_name``, ``alias_type`` (NaN: not told).

        >>> exposure.aliases().columns.tolist()
        ['user_id', 'alias_id', 'first_name', 'last_name', 'alias_type']
        """
        return self._table("aliases", user)

    def emails(self, user: People = None) -> pd.DataFrame:
        """E-mail addresses: ``email_id``, ``address``.

        >>> exposure.emails().columns.tolist()
        ['user_id', 'email_id', 'address']
        """
        return self._table("emails", user)

    def phone_numbers(self, user: People = None) -> pd.DataFrame:
        """Phone numbers: ``phone_number_id``, ``number`` (digits as text).

        >>> exposure.phone_numbers().columns.tolist()
        ['user_id', 'phone_number_id', 'number']
        """
        return self._table("phone_numbers", user)

    def addresses(self, user: People = None) -> pd.DataFrame:
        """Postal addresses: ``address_id``, ``address1``, ``address2``, ``city``, ``state``, ``zip`` (text), ``country``.

        >>> exposure.addresses().columns.tolist()
        ['user_id', 'address_id', 'address1', 'address2', 'city', 'state', 'zip', 'country']
        """
        return self._table("addresses", user)

    def on_file(self, user: People = None) -> pd.DataFrame:
        """Which fields of each person are filled: `analysis.on_file`; no value of any.

        >>> exposure.on_file(user=key.id)["field"].tolist()[:2]
        ['address1', 'birth_date']
        """
        filled = {
            name: self._table(name, user) for name in ("addresses", "emails", "phone_numbers", "aliases")
        }
        return analysis.on_file(self.users(user), **filled)

    def service_history(self, user: People = None) -> pd.DataFrame:
        """When the service was ``activated`` or ``deactivated``: ``event``, ``occurred_at`` (UTC), oldest first.

        >>> exposure.service_history().columns.tolist()
        ['user_id', 'event', 'occurred_at']
        """
        return self._table("service_history", user)
