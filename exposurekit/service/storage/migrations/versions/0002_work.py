"""Jobs, consents, candidates, webhooks and site statistics."""

import sqlalchemy as sa
from alembic.operations import Operations

from exposurekit.service.storage.tables import ID, Instant

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations) -> None:
    """Add tables and columns; there is no downgrade."""
    op.create_table(
        "sites",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("next_request_at", Instant(), nullable=True),
        sa.Column("looks", sa.Integer(), nullable=False),
        sa.Column("inconclusive_looks", sa.Integer(), nullable=False),
        sa.Column("distrusted_looks", sa.Integer(), nullable=False),
        sa.Column("last_look_at", Instant(), nullable=True),
        sa.Column("last_good_look_at", Instant(), nullable=True),
        sa.Column("last_reason", sa.String(length=80), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "candidates",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("site", sa.String(length=200), nullable=False),
        sa.Column("reference_digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("verdict", sa.String(length=20), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("seen_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_id", "site", "reference_digest"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "consents",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("purpose", sa.String(length=80), nullable=False),
        sa.Column("given_by", sa.String(length=200), nullable=False),
        sa.Column("given_at", Instant(), nullable=False),
        sa.Column("withdrawn_by", sa.String(length=200), nullable=True),
        sa.Column("withdrawn_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_consents_user_id"), "consents", ["user_id"], unique=False)
    op.create_table(
        "deliveries",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("webhook_id", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("opened_at", Instant(), nullable=False),
        sa.Column("sealed_body", sa.LargeBinary(), nullable=True),
        sa.Column("failed_attempts", sa.Integer(), nullable=False),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.Column("due_at", Instant(), nullable=True),
        sa.Column("lease", sa.String(length=32), nullable=True),
        sa.Column("lease_until", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("webhook_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("deliveries_due", "deliveries", ["due_at"], unique=False)
    op.create_index(op.f("ix_deliveries_user_id"), "deliveries", ["user_id"], unique=False)
    op.create_index(
        "one_open_window",
        "deliveries",
        ["user_id"],
        unique=True,
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "attempts",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("delivery_id", ID, nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(["delivery_id"], ["deliveries.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_attempts_delivery_id"), "attempts", ["delivery_id"], unique=False)
    op.create_table(
        "events",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("delivery_id", ID, nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["delivery_id"], ["deliveries.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_events_delivery_id"), "events", ["delivery_id"], unique=False)
    op.create_index(op.f("ix_events_user_id"), "events", ["user_id"], unique=False)
    op.add_column("integrators", sa.Column("sealed_callback", sa.LargeBinary(), nullable=True))
    op.add_column("integrators", sa.Column("attested_by", sa.String(length=200), nullable=True))
    op.add_column("integrators", sa.Column("attested_at", Instant(), nullable=True))
    op.add_column("records", sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("records", sa.Column("refused_at", Instant(), nullable=True))
    op.add_column("records", sa.Column("due_at", Instant(), nullable=True))
    op.add_column("records", sa.Column("lease", sa.String(length=32), nullable=True))
    op.add_column("records", sa.Column("lease_until", Instant(), nullable=True))
    op.create_index("records_due", "records", ["due_at"], unique=False)
    op.add_column("users", sa.Column("version", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("users", sa.Column("scanned_at", Instant(), nullable=True))
    op.add_column("users", sa.Column("due_at", Instant(), nullable=True))
    op.add_column("users", sa.Column("lease", sa.String(length=32), nullable=True))
    op.add_column("users", sa.Column("lease_until", Instant(), nullable=True))
    op.create_index("users_due", "users", ["due_at"], unique=False)
