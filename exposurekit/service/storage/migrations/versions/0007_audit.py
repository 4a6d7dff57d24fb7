"""The audit log."""

from alembic.operations import Operations
from sqlalchemy import Column, PrimaryKeyConstraint, String, Text, UniqueConstraint

from exposurekit.service.storage.tables import ID

revision = "0007"
down_revision = "0006"


def upgrade(op: Operations) -> None:
    """Create its table; there is no downgrade."""
    op.create_table(
        "audit_entries",
        Column("id", ID, autoincrement=False, nullable=False),
        Column("at", String(40), nullable=False),
        Column("actor", String(200), nullable=False),
        Column("command", String(80), nullable=False),
        Column("target", String(80)),
        Column("details", Text, nullable=False),
        Column("previous_hash", String(64), nullable=False),
        Column("hash", String(64), nullable=False),
        PrimaryKeyConstraint("id"),
        UniqueConstraint("previous_hash"),
    )
