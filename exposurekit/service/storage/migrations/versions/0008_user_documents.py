"""Users get documents, which the worker writes; every row stays as it is."""

from alembic.operations import Operations
from sqlalchemy import BigInteger, Column, ForeignKey, Integer, LargeBinary

revision = "0008"
down_revision = "0007"


def upgrade(op: Operations) -> None:
    """Add the table; there is no downgrade."""
    op.create_table(
        "user_documents",
        Column(
            "id",
            BigInteger().with_variant(Integer, "sqlite"),
            ForeignKey("users.id", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        Column("version", Integer, nullable=False),
        Column("format", Integer, nullable=False),
        Column("ciphertext", LargeBinary, nullable=False),
    )
