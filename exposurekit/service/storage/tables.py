"""Database tables in SQLAlchemy Core. Personal data is only in the ciphertext columns.

In clear text: ids, a record's site and status, an alert's kind, service history events, who granted consent, flags and
instants. Digests are the vault's fingerprints. Ids are never reused, even after a delete.

A job is a due row with a lease, on the table that it concerns: ``due_at``, ``lease`` (the holder's token) and
``lease_until``. There is no separate queue that could lose jobs. A change here needs a step in ``migrations/``.
"""

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    select,
    text,
)
from sqlalchemy.schema import SchemaItem


class Instant(TypeDecorator[datetime]):
    """An aware datetime in UTC, also on SQLite, which stores no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Convert to UTC; a naive datetime is an error."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a datetime without a time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Convert from UTC."""
        if value is None:
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


metadata = MetaData()
ID = BigInteger().with_variant(Integer, "sqlite")


def _table(name: str, *parts: SchemaItem) -> Table:
    identifier = Column("id", ID, primary_key=True, autoincrement=True)
    return Table(name, metadata, identifier, *parts, sqlite_autoincrement=True)


def _owner(table: str) -> ForeignKey:
    return ForeignKey(f"{table}.id", ondelete="CASCADE")


def _user(*, index: bool = False) -> Column[int]:
    return Column("user_id", ID, _owner("users"), nullable=False, index=index)


def _due(table: str) -> tuple[Column[datetime], Column[str], Column[datetime], Index]:
    return (
        Column("due_at", Instant),
        Column("lease", String(32)),
        Column("lease_until", Instant),
        Index(f"{table}_due", "due_at"),
    )


service_metadata = Table(
    "metadata",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", String(200), nullable=False),
)
integrators = _table(
    "integrators",
    Column("name", String(64), nullable=False, unique=True),
    Column("api_key_digest", LargeBinary(32), nullable=False, unique=True),
    Column("api_secret_digest", LargeBinary(32), nullable=False),
    Column("callback_ciphertext", LargeBinary),  # url, signing secret
    Column("attested_by", String(200)),  # who attests the consent of everyone it registers
    Column("attested_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("people_max", Integer),  # how many people it may have at a time; null: any number
)
users = _table(
    "users",
    Column("integrator_id", ID, _owner("integrators"), nullable=False),
    Column("secret_ciphertext", LargeBinary, nullable=False),  # apart: List users decrypts a thousand
    Column("ciphertext", LargeBinary, nullable=False),  # first_name, middle_name, last_name, birth_date
    Column("is_scanning", Boolean, nullable=False, default=False),
    Column("identification_on_file", Boolean, nullable=False, default=False),
    Column("created_at", Instant, nullable=False),
    # counts changes of what the API shows
    Column("version", Integer, nullable=False, default=0, server_default=text("0")),
    Column("scanned_at", Instant),  # the end of the last complete scan
    *_due("users"),  # the next scan
    Index("users_of_integrator", "integrator_id", "id"),
    Index("users_due_of_integrator", "integrator_id", "due_at", "id"),
)
user_documents = Table(  # see `accounts.documents`
    "user_documents",
    metadata,
    Column("id", ID, _owner("users"), primary_key=True, autoincrement=False),
    # Out of date unless these are the user's version and the format of this release.
    Column("version", Integer, nullable=False),
    Column("format", Integer, nullable=False),
    Column("ciphertext", LargeBinary, nullable=False),  # the response to Get user
)
user_items = _table(
    "user_items",
    _user(index=True),
    Column("kind", String(20), nullable=False),  # aliases, emails, phone_numbers, addresses
    Column("ciphertext", LargeBinary, nullable=False),
)
records = _table(
    "records",
    _user(),
    Column("site", String(200), nullable=False),
    Column("reference_digest", LargeBinary(32), nullable=False),
    Column("status", String(40), nullable=False),
    Column("absences", Integer, nullable=False, default=0),
    Column("ciphertext", LargeBinary, nullable=False),  # the listing, and the fields that its removal needs
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
    Column("opt_out_attempts", Integer, nullable=False, default=0, server_default=text("0")),  # failed so far
    Column("refused_at", Instant),  # the site refused or ignored the opt-out: a person has to act
    Column("searched_at", Instant),  # when a web search first returned its page
    *_due("records"),  # discovered: the opt-out; pending removal: the next scan
    UniqueConstraint("user_id", "site", "reference_digest"),
)
links = _table(
    "links",
    _user(),
    Column("url_digest", LargeBinary(32), nullable=False),
    Column("ciphertext", LargeBinary, nullable=False),  # url, title, contains
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("user_id", "url_digest"),
)
alerts = _table(
    "alerts",
    _user(index=True),
    Column("kind", String(40), nullable=False),
    Column("record_id", ID, _owner("records"), index=True),
    Column("link_id", ID, _owner("links"), index=True),
    Column("ciphertext", LargeBinary, nullable=False),  # text, html, url, guide, opt_out_procedure
    Column("created_at", Instant, nullable=False),
)
service_history = _table(
    "service_history",
    _user(index=True),
    Column("event", String(40), nullable=False),
    Column("at", Instant, nullable=False),
)
consents = _table(
    "consents",
    _user(index=True),
    Column("purpose", String(80), nullable=False),
    Column("granted_by", String(200), nullable=False),
    Column("granted_at", Instant, nullable=False),
    Column("withdrawn_by", String(200)),
    Column("withdrawn_at", Instant),
)
candidates = _table(
    "candidates",
    _user(),
    Column("site", String(200), nullable=False),
    Column("reference_digest", LargeBinary(32), nullable=False),
    Column("verdict", String(20), nullable=False),  # possible, quarantined, rejected
    Column("score", Float, nullable=False),
    Column("ciphertext", LargeBinary, nullable=False),  # the listing, and the reasons
    Column("observed_at", Instant, nullable=False),
    UniqueConstraint("user_id", "site", "reference_digest"),
)
deliveries = _table(
    "deliveries",
    _user(index=True),
    Column("webhook_id", String(64), nullable=False, unique=True),
    Column("state", String(20), nullable=False),  # open, pending, delivered, dead
    Column("opened_at", Instant, nullable=False),
    Column("body_ciphertext", LargeBinary),  # set when the window closes; every attempt sends these bytes
    Column("failed_attempts", Integer, nullable=False, default=0),  # since it was last queued
    Column("ended_at", Instant),
    *_due("deliveries"),  # open: when the window closes; pending: the next attempt
    Index("deliveries_of_state", "state", "id"),
    Index(
        "one_open_window",
        "user_id",
        unique=True,
        sqlite_where=text("state = 'open'"),
        postgresql_where=text("state = 'open'"),
    ),
)
events = _table(
    "events",
    _user(index=True),
    Column("delivery_id", ID, _owner("deliveries"), nullable=False, index=True),
    Column("kind", String(40), nullable=False),  # its group in the body
    Column("ciphertext", LargeBinary, nullable=False),  # its item in that group
    Column("created_at", Instant, nullable=False),
)
attempts = _table(
    "attempts",
    Column("delivery_id", ID, _owner("deliveries"), nullable=False, index=True),
    Column("at", Instant, nullable=False),
    Column("status", Integer),  # HTTP status of the response; null: no response
    Column("outcome", String(40), nullable=False),
)
sites = Table(
    "sites",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("next_request_at", Instant),  # politeness, across workers
    Column("scans", Integer, nullable=False, default=0),
    Column("inconclusive_scans", Integer, nullable=False, default=0),
    Column("untrusted_scans", Integer, nullable=False, default=0),
    Column("last_scan_at", Instant),
    Column("last_good_scan_at", Instant),
    Column("last_reason", String(80)),  # see `sites.statistics.record_scan`
)
# Opt-out requests that wait for mail: each has an address of its own, in which a random token stands.
mail_requests = _table(
    "mail_requests",
    _user(index=True),
    Column("record_id", ID, _owner("records"), nullable=False, index=True),
    Column("site", String(200), nullable=False),
    Column("kind", String(20), nullable=False),  # confirmation, email
    Column("state", String(20), nullable=False),  # see `mail.opt_out_requests`
    Column("token_digest", LargeBinary(32), nullable=False, unique=True),
    Column("ciphertext", LargeBinary, nullable=False),  # the token
    Column("created_at", Instant, nullable=False),
    Column("sent_at", Instant),  # of an opt-out by email
    Column("answer_by", Instant),  # null: it is not sent yet
    Column("changed_at", Instant, nullable=False),
)
mailboxes = _table(
    "mailboxes",
    Column("address", String(320), nullable=False, unique=True),  # the operator's
    Column("checked_at", Instant),  # the last check that worked
    Column("problem", String(80)),  # why the last check failed; null: it did not
    *_due("mailboxes"),  # the next check
)
mail_messages = _table(
    "mail_messages",
    # Null: no request has the address that it was sent to.
    Column("user_id", ID, _owner("users"), index=True),
    Column("request_id", ID, _owner("mail_requests"), index=True),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("state", String(20), nullable=False),  # received, following, confirmed, rejected, answer
    Column("reason", String(200)),  # why it is for a person to judge
    Column("ciphertext", LargeBinary),  # the message; null once it is confirmed
    Column("received_at", Instant, nullable=False),
    *_due("mail_messages"),  # received: now, or after a failed try
)
# Evidence: the entries and their roots stay; the content is deleted with the person. See `findings.evidence`.
evidence_entries = _table(
    "evidence_entries",
    Column("day", String(10), nullable=False),  # in UTC
    Column("digest", LargeBinary(32), nullable=False),  # of the content, which has a salt
    Column("root", ID, index=True),  # null: its day is not over
)
evidence_roots = Table(
    "evidence_roots",
    metadata,
    Column("number", ID, primary_key=True, autoincrement=False),
    Column("day", String(10), nullable=False),
    Column("entries", Integer, nullable=False),
    Column("tree", String(64), nullable=False),
    Column("previous", String(64), nullable=False, unique=True),
    Column("signature", String(128), nullable=False),
)
evidence = Table(
    "evidence",
    metadata,
    Column("id", ID, _owner("evidence_entries"), primary_key=True, autoincrement=False),
    _user(index=True),
    Column("record_id", ID, _owner("records"), nullable=False, index=True),
    Column("kind", String(10), nullable=False),  # before, after
    Column("ciphertext", LargeBinary, nullable=False),  # the content
)
# Only appended to; ids are consecutive. Times and hashes are text, because a hash covers what is stored.
audit_entries = Table(
    "audit_entries",
    metadata,
    Column("id", ID, primary_key=True, autoincrement=False),
    Column("at", String(40), nullable=False),
    Column("actor", String(200), nullable=False),  # the OS user
    Column("command", String(80), nullable=False),
    Column("target", String(80)),  # what it concerned, by id
    Column("details", Text, nullable=False),  # JSON
    Column("previous_hash", String(64), nullable=False, unique=True),
    Column("hash", String(64), nullable=False),
)


def of_person(table: Table, user_id: int) -> ColumnElement[bool] | None:
    """Return which rows of a table are about a person, directly or through a row of theirs; None: it has no such rows."""
    if table is users:
        return users.c.id == user_id
    keys = [key for column in table.c for key in column.foreign_keys]
    for key in keys:
        if key.column.table is users:
            return key.parent == user_id
    for key in keys:
        owned = of_person(key.column.table, user_id)
        if owned is not None:
            return key.parent.in_(select(key.column).where(owned))
    return None
