"""Evidence of records and removals: the entries, their daily roots, and the encrypted content."""

from alembic.operations import Operations
from sqlalchemy import Column, ForeignKey, Integer, LargeBinary, String, UniqueConstraint

from exposurekit.service.storage.tables import ID

revision = "0010"
down_revision = "0009"


def _owner(table: str) -> ForeignKey:
    return ForeignKey(f"{table}.id", ondelete="CASCADE")


def upgrade(op: Operations) -> None:
    """Add the three tables; there is no downgrade. The next scan of a record that is listed adds its evidence."""
    op.create_table(
        "evidence_entries",
        Column("id", ID, primary_key=True, autoincrement=True),
        Column("day", String(10), nullable=False),
        Column("digest", LargeBinary(32), nullable=False),
        Column("root", ID, index=True),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "evidence_roots",
        Column("number", ID, primary_key=True, autoincrement=False),
        Column("day", String(10), nullable=False),
        Column("entries", Integer, nullable=False),
        Column("tree", String(64), nullable=False),
        Column("previous", String(64), nullable=False),
        Column("signature", String(128), nullable=False),
        UniqueConstraint("previous"),
    )
    op.create_table(
        "evidence",
        Column("id", ID, _owner("evidence_entries"), primary_key=True, autoincrement=False),
        Column("user_id", ID, _owner("users"), nullable=False, index=True),
        Column("record_id", ID, _owner("records"), nullable=False, index=True),
        Column("kind", String(10), nullable=False),
        Column("ciphertext", LargeBinary, nullable=False),
    )
