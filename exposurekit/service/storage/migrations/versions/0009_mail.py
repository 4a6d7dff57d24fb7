"""Opt-out requests that wait for mail, the mailbox, and its messages; every row stays as it is."""

from datetime import datetime

from alembic.operations import Operations
from sqlalchemy import Column, ForeignKey, LargeBinary, String, UniqueConstraint

from exposurekit.service.storage.tables import ID, Instant

revision = "0009"
down_revision = "0008"


def _identifier() -> Column[int]:
    return Column("id", ID, primary_key=True, autoincrement=True)


def _owner(table: str) -> ForeignKey:
    return ForeignKey(f"{table}.id", ondelete="CASCADE")


def _due() -> tuple[Column[datetime], Column[str], Column[datetime]]:
    return Column("due_at", Instant), Column("lease", String(32)), Column("lease_until", Instant)


def upgrade(op: Operations) -> None:
    """Add the three tables; there is no downgrade."""
    op.create_table(
        "mail_requests",
        _identifier(),
        Column("user_id", ID, _owner("users"), nullable=False, index=True),
        Column("record_id", ID, _owner("records"), nullable=False, index=True),
        Column("site", String(200), nullable=False),
        Column("kind", String(20), nullable=False),
        Column("state", String(20), nullable=False),
        Column("token_digest", LargeBinary(32), nullable=False),
        Column("ciphertext", LargeBinary, nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("sent_at", Instant),
        Column("answer_by", Instant),
        Column("changed_at", Instant, nullable=False),
        UniqueConstraint("token_digest"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "mailboxes",
        _identifier(),
        Column("address", String(320), nullable=False),
        Column("checked_at", Instant),
        Column("problem", String(80)),
        *_due(),
        UniqueConstraint("address"),
        sqlite_autoincrement=True,
    )
    op.create_index("mailboxes_due", "mailboxes", ["due_at"])
    op.create_table(
        "mail_messages",
        _identifier(),
        Column("user_id", ID, _owner("users"), index=True),
        Column("request_id", ID, _owner("mail_requests"), index=True),
        Column("digest", LargeBinary(32), nullable=False),
        Column("state", String(20), nullable=False),
        Column("reason", String(200)),
        Column("ciphertext", LargeBinary),
        Column("received_at", Instant, nullable=False),
        *_due(),
        UniqueConstraint("digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("mail_messages_due", "mail_messages", ["due_at"])
