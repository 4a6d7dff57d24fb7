"""Columns of consents and candidates get the names of the field; every row stays as it is."""

from alembic.operations import Operations

revision = "0004"
down_revision = "0003"

COLUMNS = {
    "consents": {"given_by": "granted_by", "given_at": "granted_at"},
    "candidates": {"seen_at": "observed_at"},
}


def upgrade(op: Operations) -> None:
    """Rename; there is no downgrade."""
    for table, columns in COLUMNS.items():
        for old, new in columns.items():
            op.alter_column(table, old, new_column_name=new)
