"""The tables, as SQLAlchemy Core. Everything personal is in a sealed column; what is clear is listed here.

Clear: ids, a record's site and status, an alert's kind, a service history event, flags and instants. Digests are
the vault's fingerprints. Ids are never given twice, even after a delete.
"""

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    TypeDecorator,
    UniqueConstraint,
)


class Instant(TypeDecorator[datetime]):
    """An aware instant in UTC, on SQLite too, which keeps no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """To UTC; a naive instant is refused."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("an instant without a zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """From UTC."""
        if value is None:
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


metadata = MetaData()
_ID = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[int]:
    return Column("id", _ID, primary_key=True, autoincrement=True)


def _owner(table: str) -> ForeignKey:
    return ForeignKey(f"{table}.id", ondelete="CASCADE")


marks = Table(
    "marks",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", String(200), nullable=False),
)
integrators = Table(
    "integrators",
    metadata,
    _id(),
    Column("name", String(64), nullable=False, unique=True),
    Column("api_key_digest", LargeBinary(32), nullable=False, unique=True),
    Column("api_secret_digest", LargeBinary(32), nullable=False),
    Column("created_at", Instant, nullable=False),
    sqlite_autoincrement=True,
)
users = Table(
    "users",
    metadata,
    _id(),
    Column("integrator_id", _ID, _owner("integrators"), nullable=False),
    Column("sealed_secret", LargeBinary, nullable=False),  # apart: List users opens a thousand of these
    Column("sealed", LargeBinary, nullable=False),  # first_name, middle_name, last_name, birth_date
    Column("is_scanning", Boolean, nullable=False, default=False),
    Column("identification_on_file", Boolean, nullable=False, default=False),
    Column("created_at", Instant, nullable=False),
    Index("users_of_integrator", "integrator_id", "id"),
    sqlite_autoincrement=True,
)
details = Table(
    "details",
    metadata,
    _id(),
    Column("user_id", _ID, _owner("users"), nullable=False, index=True),
    Column(
        "kind", String(20), nullable=False
    ),  # the list it is in: aliases, emails, phone_numbers, addresses
    Column("sealed", LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)
records = Table(
    "records",
    metadata,
    _id(),
    Column("user_id", _ID, _owner("users"), nullable=False),
    Column("site", String(200), nullable=False),
    Column("reference_digest", LargeBinary(32), nullable=False),
    Column("status", String(40), nullable=False),
    Column("gone_looks", Integer, nullable=False, default=0),
    Column("sealed", LargeBinary, nullable=False),  # the listing, and what its removal needs
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
    UniqueConstraint("user_id", "site", "reference_digest"),
    sqlite_autoincrement=True,
)
links = Table(
    "links",
    metadata,
    _id(),
    Column("user_id", _ID, _owner("users"), nullable=False),
    Column("url_digest", LargeBinary(32), nullable=False),
    Column("sealed", LargeBinary, nullable=False),  # url, title, contains
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("user_id", "url_digest"),
    sqlite_autoincrement=True,
)
alerts = Table(
    "alerts",
    metadata,
    _id(),
    Column("user_id", _ID, _owner("users"), nullable=False, index=True),
    Column("kind", String(40), nullable=False),
    Column("record_id", _ID, _owner("records"), index=True),
    Column("link_id", _ID, _owner("links"), index=True),
    Column("sealed", LargeBinary, nullable=False),  # text, html, url, guide, opt_out_procedure
    Column("created_at", Instant, nullable=False),
    sqlite_autoincrement=True,
)
service_history = Table(
    "service_history",
    metadata,
    _id(),
    Column("user_id", _ID, _owner("users"), nullable=False, index=True),
    Column("event", String(40), nullable=False),
    Column("at", Instant, nullable=False),
    sqlite_autoincrement=True,
)
